//go:build linux

// Command redirect measures the redirects of an edge next to other servers: the cost and
// the time of a redirect at saturation and at half load, the cost of each kind of
// address, and the memory and disk space of a link. README.md of package bench says how
// to run it.
package main

import (
	"os"

	"waypost/bench"
)

func main() {
	name, args := "redirect", os.Args[1:]
	if len(args) > 0 && (args[0] == partServe || args[0] == partFill) {
		name, args = args[0], args[1:]
	}
	run := measure
	switch name {
	case partServe:
		run = serve
	case partFill:
		run = fill
	}
	bench.Main(name, run, args)
}

// Parts that a child process plays. Another build of this program can play them too, so
// that their flags stay the same.
const (
	partServe = "serve"
	partFill  = "fill"
)
