//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := dispatch(ctx, os.Args[1:])
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	default:
		fmt.Fprintln(os.Stderr, "redirect:", err)
		return 1
	}
}

// Parts that a child process plays.
const (
	partServe = "serve"
	partFill  = "fill"
)

func dispatch(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case partServe:
			return serve(ctx, args[1:])
		case partFill:
			return fill(ctx, args[1:])
		}
	}
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	return measure(ctx, o)
}
