//go:build linux

package main

import (
	"errors"
	"time"

	"waypost/bench"
)

func main() { bench.Main("links", parseOptions, measure) }

// options are what a user chooses.
type options struct {
	bench.Options
	Import   int // links that are imported
	Plain    int // links of a round of plain INSERTs
	Listed   int // links that are listed
	Rounds   int
	Round    time.Duration
	Callers  int
	Requests int // of each list, in a round
	Targets  string
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := o.Flags("links", "the system and its database, 10 GB", names())
	flags.IntVar(&o.Import, "import", 1_000_000, "links that are imported")
	flags.IntVar(&o.Plain, "plain", 200_000, "links of each of the two rounds of plain INSERTs beside the import")
	flags.IntVar(&o.Listed, "listed", 5_000_000, "links that are listed and searched")
	flags.IntVar(&o.Rounds, "rounds", 15, "rounds of creating and of listing, for every case")
	flags.DurationVar(&o.Round, "round", 2*time.Second, "length of a round of creating")
	flags.IntVar(&o.Callers, "callers", 64, "connections that create links at the same time")
	flags.IntVar(&o.Requests, "requests", 100, "requests of each kind of list in a round")
	flags.StringVar(&o.Targets, "targets", "testdata/links.csv", "real links, whose shapes the targets get")
	if err := o.Parse(flags, args); err != nil {
		return options{}, err
	}
	if o.Try {
		o.Import, o.Plain, o.Listed = min(o.Import, 5000), min(o.Plain, 2000), min(o.Listed, 20_000)
		o.Rounds, o.Round, o.Requests = min(o.Rounds, 2), min(o.Round, 200*time.Millisecond), min(o.Requests, 5)
	}
	switch {
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
