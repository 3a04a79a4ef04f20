//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"
)

// options are what a user chooses.
type options struct {
	Only        []string // names of sections
	Rounds      int
	Round       time.Duration
	Connections int
	Threads     int
	Out         string
	Targets     string
	Temp        string
	Try         bool
	command     string
}

func parseOptions(args []string) (options, error) {
	o := options{command: strings.Join(append([]string{"go run ./bench/redirect"}, args...), " ")}
	flags := flag.NewFlagSet("redirect", flag.ContinueOnError)
	only := flags.String("only", "", "sections to measure, with commas between them; default: "+strings.Join(names(quick), ","))
	full := flags.Bool("full", false, "measure all sections: "+strings.Join(names(all), ","))
	flags.IntVar(&o.Rounds, "rounds", 7, "rounds of every case")
	flags.DurationVar(&o.Round, "round", 2*time.Second, "length of a round with wrk, whole seconds")
	flags.IntVar(&o.Connections, "connections", 64, "connections of wrk")
	flags.IntVar(&o.Threads, "threads", 2, "threads of wrk")
	flags.StringVar(&o.Out, "out", "bench", "directory for results/redirect.json and RESULTS.md")
	flags.StringVar(&o.Targets, "targets", "testdata/links.csv", "real links, whose shapes the targets get")
	flags.StringVar(&o.Temp, "temp", "", "where to put replicas, 4 GB for ten million links; default: the system's directory for temporary files")
	flags.BoolVar(&o.Try, "try", false, "see that it works: few links, short rounds, nothing written")
	if err := flags.Parse(args); err != nil {
		return options{}, fmt.Errorf("reading the flags: %w", err)
	}
	switch {
	case *only != "":
		o.Only = strings.Split(*only, ",")
	case *full:
		o.Only = names(all)
	default:
		o.Only = names(quick)
	}
	for _, name := range o.Only {
		if !slices.Contains(names(all), name) {
			return options{}, fmt.Errorf("unknown section %q; there are %s", name, strings.Join(names(all), ", "))
		}
	}
	if o.Try {
		o.Rounds, o.Round = min(o.Rounds, 1), time.Second
	}
	switch {
	case flags.NArg() > 0:
		return options{}, fmt.Errorf("unknown argument %q", flags.Arg(0))
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
