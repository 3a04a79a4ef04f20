//go:build linux

package main

import (
	"context"
	"errors"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
)

func sections() []bench.Part[*lab] {
	return []bench.Part[*lab]{
		{Name: "import", Measure: func(ctx context.Context, l *lab) (bench.Section, error) { return l.measureImport(ctx) }},
		{Name: "creates", Measure: func(ctx context.Context, l *lab) (bench.Section, error) { return l.measureCreates(ctx) }},
		{Name: "list", Measure: func(ctx context.Context, l *lab) (bench.Section, error) { return l.measureLists(ctx) }},
	}
}

func names() []string { return bench.Names(sections()) }

// lab is where the sections of one run are measured.
type lab struct {
	o       options
	dir     string // for whatever is needed on the way
	targets *corpus.Targets
}

const method = `A whole system runs for imports and creates, as ` + "`waypost dev`" + ` starts it: PostgreSQL with fsync and all other settings of durability as in production, a
control plane, edges of two regions, each a process of its own; clients share the machine. Plain INSERTs go to copies of the product's
tables, with the same columns, constraints and indexes but without its triggers, over connections of pgx, each transaction committed durably.
`

// measure makes the sections, and writes each down when it is complete.
func measure(ctx context.Context, o options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Hour)
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
	return bench.Run(ctx, &o.Options, bench.Study[*lab]{Title: "Links", Method: method, Sections: sections(), Goals: setGoals}, l)
}

// setGoals holds the figures of a section against what the project has set itself. A
// goal is the most that a figure may be, so that rates are told as times.
func setGoals(s *bench.Section) {
	goal := func(what string, most, figure float64) {
		s.Goals = append(s.Goals, bench.Goal{What: what, Most: most, Figure: figure})
	}
	if m := s.Find(imported, linkTime); m != nil {
		goal("µs for an imported link (30,000 links/s)", 1e6/30_000, m.Summary.Median)
		if m.Ratio != nil {
			goal("time for an imported link over that of plain INSERTs by 100", 2, m.Ratio.Median)
		}
	}
	for _, name := range []string{peakControl, peakEdge, peakClient} {
		if m := s.Find(imported, name); m != nil {
			goal(name, 300, m.Summary.Median)
		}
	}
	if m := s.Find(overHTTP, linkTime); m != nil && m.Ratio != nil {
		goal("time for a create over that of a plain INSERT", 1, m.Ratio.Median)
	}
	if m := s.Find(overHTTP, p99); m != nil {
		goal("p99 of a create in ms", 10, m.Summary.Median)
	}
}
