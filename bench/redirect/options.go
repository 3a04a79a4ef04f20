//go:build linux

package main

import (
	"errors"
	"time"

	"waypost/bench"
)

// options are what a user chooses.
type options struct {
	bench.Options
	Rounds      int
	Round       time.Duration
	Connections int
	Threads     int
	Targets     string
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := o.Flags("redirect", "replicas, 4 GB for ten million links", names(all))
	full := flags.Bool("full", false, "measure all sections; otherwise, without -only, those of a million links that take minutes")
	flags.IntVar(&o.Rounds, "rounds", 5, "rounds of every case")
	flags.DurationVar(&o.Round, "round", 2*time.Second, "length of a round with wrk, whole seconds")
	flags.IntVar(&o.Connections, "connections", 64, "connections of wrk")
	flags.IntVar(&o.Threads, "threads", 2, "threads of wrk")
	flags.StringVar(&o.Targets, "targets", "testdata/links.csv", "real links, whose shapes the targets get")
	if err := o.Parse(flags, args); err != nil {
		return options{}, err
	}
	if !o.Chosen() && !*full {
		o.Only = names(quick)
	}
	if o.Try {
		o.Rounds, o.Round = min(o.Rounds, 1), time.Second
	}
	switch {
	case o.Rounds < 1 || o.Rounds > 100:
		return options{}, errors.New("-rounds must be 1 to 100")
	case o.Round < time.Second || o.Round > time.Minute || o.Round%time.Second != 0:
		return options{}, errors.New("-round must be 1s to 60s, in whole seconds")
	case o.Connections < 1 || o.Connections > 1024:
		return options{}, errors.New("-connections must be 1 to 1024")
	case o.Threads < 1 || o.Threads > o.Connections:
		return options{}, errors.New("-threads must be 1 to the number of connections")
	}
	return o, nil
}
