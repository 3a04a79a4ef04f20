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
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(os.Stderr, "clicks:", err)
	return 1
}

// options are what a user chooses.
type options struct {
	Only     []string // names of sections
	Rounds   int
	Links    int
	Batches  int // of each sender in a round
	Clicks   int // of a batch
	Senders  int
	Out      string
	Temp     string
	Try      bool
	Assemble bool
	command  string
}

func parseOptions(args []string) (options, error) {
	o := options{command: strings.Join(append([]string{"go run ./bench/clicks"}, args...), " ")}
	flags := flag.NewFlagSet("clicks", flag.ContinueOnError)
	only := flags.String("only", "", "sections to measure, with commas between them; default: "+strings.Join(names(), ","))
	flags.IntVar(&o.Rounds, "rounds", 9, "rounds for every case")
	flags.IntVar(&o.Links, "links", 1_000_000, "links, of which those with the most clicks or all are clicked")
	flags.IntVar(&o.Batches, "batches", 4, "batches that each sender sends in a round")
	flags.IntVar(&o.Clicks, "clicks", 50_000, "clicks in a batch")
	flags.IntVar(&o.Senders, "senders", 2, "edges that send at the same time")
	flags.StringVar(&o.Out, "out", "bench", "directory for results/clicks.json and RESULTS.md")
	flags.StringVar(&o.Temp, "temp", "", "where to put PostgreSQL, 6 GB; default: the system's directory for temporary files")
	flags.BoolVar(&o.Try, "try", false, "see that it works: few links, one round, nothing written")
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
		o.Rounds, o.Links, o.Batches, o.Clicks = 1, min(o.Links, 2_000), min(o.Batches, 2), min(o.Clicks, 1_000)
	}
	switch {
	case flags.NArg() > 0:
		return options{}, fmt.Errorf("unknown argument %q", flags.Arg(0))
	case o.Rounds < 1 || o.Rounds > 1_000:
		return options{}, errors.New("-rounds must be 1 to 1000")
	case o.Links < 1_000 || o.Links > 50_000_000:
		return options{}, errors.New("-links must be 1,000 to 50,000,000")
	case o.Batches < 1 || o.Batches > 1_000 || o.Senders < 1 || o.Senders > 16:
		return options{}, errors.New("-batches must be 1 to 1000, and -senders 1 to 16")
	case o.Clicks < 1 || o.Clicks > 65_536 || o.Clicks > o.Links:
		return options{}, errors.New("-clicks must be 1 to 65,536, and no more than links")
	}
	return o, nil
}
