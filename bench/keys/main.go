//go:build linux

package main

import (
	"errors"
	"time"

	"waypost/bench"
)

func main() { bench.Main("keys", parseOptions, measure) }

// options are what a user chooses.
type options struct {
	bench.Options
	Rounds       int // of issuing
	Round        time.Duration
	CreateRounds int
	CreateRound  time.Duration
	Callers      int
	Targets      string
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := o.Flags("keys", "PostgreSQL, 2 GB", names())
	flags.IntVar(&o.Rounds, "rounds", 13, "rounds of issuing, for every case")
	flags.DurationVar(&o.Round, "round", 400*time.Millisecond, "length of a round of issuing")
	flags.IntVar(&o.CreateRounds, "create-rounds", 111, "rounds of creating, for every case")
	flags.DurationVar(&o.CreateRound, "create-round", 400*time.Millisecond, "length of a round of creating; short ones are compared better on a machine that others use")
	flags.IntVar(&o.Callers, "callers", 64, "callers that create links at the same time")
	flags.StringVar(&o.Targets, "targets", "testdata/links.csv", "real links, whose shapes the targets get")
	if err := o.Parse(flags, args); err != nil {
		return options{}, err
	}
	if o.Try {
		o.Rounds, o.Round = min(o.Rounds, 1), min(o.Round, 50*time.Millisecond)
		o.CreateRounds, o.CreateRound = min(o.CreateRounds, 2), min(o.CreateRound, 100*time.Millisecond)
	}
	switch {
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
