//go:build linux

package main

import (
	"context"
	"os"

	"waypost/bench"
)

func main() {
	if len(os.Args) > 1 {
		if play := parts[os.Args[1]]; play != nil {
			bench.Main(os.Args[1], func(args []string) ([]string, error) { return args[1:], nil }, play)
			return
		}
	}
	bench.Main("redirect", parseOptions, measure)
}

// Parts that a child process plays.
const (
	partServe = "serve"
	partFill  = "fill"
)

var parts = map[string]func(ctx context.Context, args []string) error{partServe: serve, partFill: fill}
