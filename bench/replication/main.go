//go:build linux

package main

import (
	"context"
	"errors"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
)

func main() { bench.Main("replication", parseOptions, measure) }

// options are what a user chooses.
type options struct {
	bench.Options
	Links   int // of a snapshot
	Changes int // of the tail
	Rounds  int
	Creates int // that are looked for
	Rate    int // creates a second beside them
	Targets string
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := o.Flags("replication", "a database and replicas, 3 GB", names())
	flags.IntVar(&o.Links, "links", 1_000_000, "links of a snapshot")
	flags.IntVar(&o.Changes, "changes", 500_000, "changes of the tail")
	flags.IntVar(&o.Rounds, "rounds", 5, "rounds of every case")
	flags.IntVar(&o.Creates, "creates", 500, "links that an edge is watched for")
	flags.IntVar(&o.Rate, "rate", 2000, "creates a second while it is watched")
	flags.StringVar(&o.Targets, "targets", "testdata/links.csv", "real links, whose shapes the targets get")
	if err := o.Parse(flags, args); err != nil {
		return options{}, err
	}
	if o.Try {
		o.Links, o.Changes, o.Rounds, o.Creates, o.Rate = min(o.Links, 20_000), min(o.Changes, 10_000), min(o.Rounds, 1), min(o.Creates, 20), min(o.Rate, 200)
	}
	switch {
	case o.Links < 1000 || o.Changes < 1000:
		return options{}, errors.New("-links and -changes must be at least 1000")
	case o.Rounds < 1 || o.Rounds > 100 || o.Creates < 10 || o.Creates > 100_000 || o.Rate < 1 || o.Rate > 20_000:
		return options{}, errors.New("-rounds must be 1 to 100, -creates 10 to 100000, -rate 1 to 20000")
	}
	return o, nil
}

func sections() []bench.Part[*lab] {
	return []bench.Part[*lab]{
		{Name: "snapshot", Measure: func(ctx context.Context, l *lab) (bench.Section, error) { return l.measureSnapshots(ctx) }},
		{Name: "tail", Measure: func(ctx context.Context, l *lab) (bench.Section, error) { return l.measureTail(ctx) }},
		{Name: "visible", Measure: func(ctx context.Context, l *lab) (bench.Section, error) { return l.measureVisible(ctx) }},
	}
}

func names() []string { return bench.Names(sections()) }

// lab is where the sections of one run are measured.
type lab struct {
	o       options
	dir     string // for whatever is needed on the way
	targets *corpus.Targets
}

const method = `PostgreSQL, the serving side and the replica share the machine, and the serving side and the replica a process, with HTTP between them as between two
machines. Replicas lie on the disk and have the settings of an edge. PostgreSQL has fsync and all other settings of durability as in production.
`

// measure makes the sections, and writes each down when it is complete.
func measure(ctx context.Context, o options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	l := &lab{o: o}
	if l.targets, err = corpus.ReadTargets(o.Targets); err != nil {
		return err
	}
	dir, remove, err := o.TempDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	l.dir = dir
	return bench.Run(ctx, &o.Options, bench.Study[*lab]{Title: "Replication", Method: method, Sections: sections(), Goals: setGoals}, l)
}

// setGoals holds the figures of a section against what the project has set itself. A
// goal is the most that a figure may be, so that rates are told as times.
func setGoals(s *bench.Section) {
	goal := func(what, name, measure string, most float64) {
		if m := s.Find(name, measure); m != nil {
			s.Goals = append(s.Goals, bench.Goal{What: what, Most: most, Figure: m.Summary.Median})
		}
	}
	goal("µs for a link from PostgreSQL (400,000 links/s)", fromPostgres, recordTime, 1e6/400_000)
	goal("µs for a link from a replica (900,000 links/s)", fromReplica, recordTime, 1e6/900_000)
	goal("µs for a change of the tail (250,000 changes/s)", theTail, recordTime, 1e6/250_000)
	for _, c := range []string{whenIdle, underLoad} {
		goal("p50 in ms, "+c, c, p50, 10)
		goal("p99 in ms, "+c, c, p99, 50)
	}
}

const (
	recordTime = "µs/record"
	recordRate = "records/s"
	recordCPU  = "µs CPU/record"
)
