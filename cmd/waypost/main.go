// Command waypost is all of Waypost: the control plane, the edge, the development
// system, and the tools that talk to them. See `waypost help`.
//
// This package is flags, configuration and wiring; what the parts do is in the
// packages that it wires.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for a clean stop. The second one, no longer caught, ends
	// the process at once, and the kernel its children.
	context.AfterFunc(ctx, stop)
	p := &program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
	os.Exit(p.run(ctx, os.Args[1:]))
}
