// Command redirect measures what a redirect costs: CPU microseconds per request of
// the edge server over a real replica, beside a bare fasthttp server that answers
// a constant. It writes results.json and RESULTS.md when all of it went well.
//
// Servers and the load client are processes of their own, made of this same
// program with a first argument that users need not know.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
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

// The parts that a process can play.
const (
	partServe = "serve"
	partLoad  = "load"
)

func dispatch(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case partServe:
			return serve(ctx, args[1:])
		case partLoad:
			return load(ctx, args[1:])
		}
	}
	opts, err := parseOptions(args)
	if err != nil {
		return err
	}
	return measure(ctx, opts)
}

// options are what a user chooses.
type options struct {
	Links       int
	Rounds      int
	Round       time.Duration
	Connections int
	Out         string
	Quick       bool
	command     string
}

func parseOptions(args []string) (options, error) {
	o := options{command: strings.Join(append([]string{"go run ./bench/redirect"}, args...), " ")}
	flags := flag.NewFlagSet("redirect", flag.ContinueOnError)
	flags.IntVar(&o.Links, "links", 100_000, "links in the replica")
	flags.IntVar(&o.Rounds, "rounds", 7, "rounds of every case")
	flags.DurationVar(&o.Round, "round", 2*time.Second, "length of a round")
	flags.IntVar(&o.Connections, "connections", 32, "connections of the client")
	flags.StringVar(&o.Out, "out", "bench", "directory for results.json and RESULTS.md")
	flags.BoolVar(&o.Quick, "quick", false, "see that it works: few links, short rounds, nothing written")
	if err := flags.Parse(args); err != nil {
		return options{}, fmt.Errorf("reading the flags: %w", err)
	}
	if o.Quick {
		o.Links, o.Rounds, o.Round = min(o.Links, 2_000), min(o.Rounds, 2), min(o.Round, 300*time.Millisecond)
	}
	switch {
	case flags.NArg() > 0:
		return options{}, fmt.Errorf("unknown argument %q", flags.Arg(0))
	case o.Links < 1 || o.Links > maxLinks:
		return options{}, fmt.Errorf("--links must be 1 to %d", maxLinks)
	case o.Rounds < 1 || o.Rounds > 100:
		return options{}, errors.New("--rounds must be 1 to 100")
	case o.Round < 100*time.Millisecond || o.Round > time.Minute:
		return options{}, errors.New("--round must be 100ms to 1m")
	case o.Connections < 1 || o.Connections > 1024:
		return options{}, errors.New("--connections must be 1 to 1024")
	}
	return o, nil
}
