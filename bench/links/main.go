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
		fmt.Fprintln(os.Stderr, "links:", err)
		return 1
	}
}

// options are what a user chooses.
type options struct {
	Only     []string // names of sections
	Import   int      // links that are imported
	Plain    int      // links of a round of plain INSERTs
	Listed   int      // links that are listed
	Rounds   int
	Round    time.Duration
	Callers  int
	Requests int // of each list, in a round
	Out      string
	Targets  string
	Temp     string
	Try      bool
	Assemble bool
	command  string
}

func parseOptions(args []string) (options, error) {
	o := options{command: strings.Join(append([]string{"go run ./bench/links"}, args...), " ")}
	flags := flag.NewFlagSet("links", flag.ContinueOnError)
	only := flags.String("only", "", "sections to measure, with commas between them; default: "+strings.Join(names(), ","))
	flags.IntVar(&o.Import, "import", 1_000_000, "links that are imported")
	flags.IntVar(&o.Plain, "plain", 200_000, "links of each of the two rounds of plain INSERTs beside the import")
	flags.IntVar(&o.Listed, "listed", 5_000_000, "links that are listed and searched")
	flags.IntVar(&o.Rounds, "rounds", 15, "rounds of creating and of listing, for every case")
	flags.DurationVar(&o.Round, "round", 2*time.Second, "length of a round of creating")
	flags.IntVar(&o.Callers, "callers", 64, "connections that create links at the same time")
	flags.IntVar(&o.Requests, "requests", 100, "requests of each kind of list in a round")
	flags.StringVar(&o.Out, "out", "bench", "directory for results/links.json and RESULTS.md")
	flags.StringVar(&o.Targets, "targets", "testdata/links.csv", "real links, whose shapes the targets get")
	flags.StringVar(&o.Temp, "temp", "", "where to put the system and its database, 10 GB; default: the system's directory for temporary files")
	flags.BoolVar(&o.Try, "try", false, "see that it works: few links, short rounds, nothing written")
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
		o.Import, o.Plain, o.Listed = min(o.Import, 5000), min(o.Plain, 2000), min(o.Listed, 20_000)
		o.Rounds, o.Round, o.Requests = min(o.Rounds, 2), min(o.Round, 200*time.Millisecond), min(o.Requests, 5)
	}
	switch {
	case flags.NArg() > 0:
		return options{}, fmt.Errorf("unknown argument %q", flags.Arg(0))
	case o.Import < 1000 || o.Plain < 1000 || o.Listed < 1000:
		return options{}, errors.New("-import, -plain and -listed must be at least 1000")
	case o.Rounds < 1 || o.Rounds > 1000 || o.Requests < 1 || o.Requests > 100_000:
		return options{}, errors.New("-rounds must be 1 to 1000, -requests 1 to 100000")
	case o.Round < 10*time.Millisecond || o.Round > time.Minute:
		return options{}, errors.New("-round must be 10ms to 1m")
	case o.Callers < 1 || o.Callers > 128:
		return options{}, errors.New("-callers must be 1 to 128")
	}
	return o, nil
}
