//go:build linux

package main

import (
	"errors"

	"waypost/bench"
)

func main() { bench.Main("clicks", parseOptions, measure) }

// options are what a user chooses.
type options struct {
	bench.Options
	Rounds  int
	Links   int
	Batches int // of each sender in a round
	Clicks  int // of a batch
	Senders int
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := o.Flags("clicks", "PostgreSQL, 6 GB", names())
	flags.IntVar(&o.Rounds, "rounds", 9, "rounds for every case")
	flags.IntVar(&o.Links, "links", 1_000_000, "links, of which those with the most clicks or all are clicked")
	flags.IntVar(&o.Batches, "batches", 4, "batches that each sender sends in a round")
	flags.IntVar(&o.Clicks, "clicks", 50_000, "clicks in a batch")
	flags.IntVar(&o.Senders, "senders", 2, "edges that send at the same time")
	if err := o.Parse(flags, args); err != nil {
		return options{}, err
	}
	if o.Try {
		o.Rounds, o.Links, o.Batches, o.Clicks = 1, min(o.Links, 2_000), min(o.Batches, 2), min(o.Clicks, 1_000)
	}
	switch {
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
