// Command waypost is all of Waypost: the control plane, the edge, the development
// system, and the tools that talk to them. See `waypost help`.
//
// This package has flags, configuration and wiring; the parts themselves are in the
// packages that it wires.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stops := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // with nohup it stays ignored
		stops = append(stops, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), stops...)
	// The first signal asks for a clean stop. A second Ctrl-C, no longer caught, ends
	// the process at once, and the kernel its children. A second SIGTERM or SIGHUP changes
	// nothing: a service manager or a shell sends it to every process of a group, and so
	// does the parent of each.
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt) })
	p := &program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
	code := p.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
