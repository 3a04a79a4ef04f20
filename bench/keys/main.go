//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"waypost/bench"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parseOptions(os.Args[1:])
	switch {
	case err != nil:
	case o.Assemble:
		err = bench.Assemble(o.Out)
	default:
		err = measure(ctx, o)
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	default:
		fmt.Fprintln(os.Stderr, "keys:", err)
		return 1
	}
}

// options are what a user chooses.
type options struct {
	Only         []string // names of sections
	Rounds       int      // of issuing
	Round        time.Duration
	CreateRounds int
	CreateRound  time.Duration
	Callers      int
	Out          string
	Targets      string
	Temp         string
	Try          bool
	Assemble     bool
	command      string
}

func parseOptions(args []string) (options, error) {
	o := options{command: strings.Join(append([]string{"go run ./bench/keys"}, args...), " ")}
	flags := flag.NewFlagSet("keys", flag.ContinueOnError)
	only := flags.String("only", "", "sections to measure, with commas between them; default: "+strings.Join(names(), ","))
	flags.IntVar(&o.Rounds, "rounds", 13, "rounds of issuing, for every case")
	flags.DurationVar(&o.Round, "round", 400*time.Millisecond, "length of a round of issuing")
	flags.IntVar(&o.CreateRounds, "create-rounds", 111, "rounds of creating, for every case")
	flags.DurationVar(&o.CreateRound, "create-round", 400*time.Millisecond, "length of a round of creating; short ones are compared better on a machine that others use")
	flags.IntVar(&o.Callers, "callers", 64, "callers that create links at the same time")
	flags.StringVar(&o.Out, "out", "bench", "directory for results/keys.json and RESULTS.md")
	flags.StringVar(&o.Targets, "targets", "testdata/links.csv", "real links, whose shapes the targets get")
	flags.StringVar(&o.Temp, "temp", "", "where to put PostgreSQL, 2 GB; default: the system's directory for temporary files")
	flags.BoolVar(&o.Try, "try", false, "see that it works: few, short rounds, nothing written")
	flags.BoolVar(&o.Assemble, "assemble", false, "measure nothing, make RESULTS.md of the files in results, as after a merge")
	if err := flags.Parse(args); err != nil {
		return options{}, fmt.Errorf("reading the flags: %w", err)
	}
	if o.Only = names(); *only != "" {
		o.Only = strings.Split(*only, ",")
	}
	for _, name := range o.Only {
		if !slices.Contains(names(), name) {
			return options{}, fmt.Errorf("unknown section %q; there are %s", name, strings.Join(names(), ", "))
		}
	}
	if o.Try {
		o.Rounds, o.Round = min(o.Rounds, 1), min(o.Round, 50*time.Millisecond)
		o.CreateRounds, o.CreateRound = min(o.CreateRounds, 2), min(o.CreateRound, 100*time.Millisecond)
	}
	switch {
	case flags.NArg() > 0:
		return options{}, fmt.Errorf("unknown argument %q", flags.Arg(0))
	case o.Rounds < 1 || o.Rounds > 1000 || o.CreateRounds < 1 || o.CreateRounds > 1000:
		return options{}, errors.New("-rounds and -create-rounds must be 1 to 1000")
	case !sensible(o.Round) || !sensible(o.CreateRound):
		return options{}, errors.New("-round and -create-round must be 10ms to 1m")
	case o.Callers < 1 || o.Callers > 1000:
		return options{}, errors.New("-callers must be 1 to 1000")
	}
	return o, nil
}

func sensible(round time.Duration) bool { return round >= 10*time.Millisecond && round <= time.Minute }
