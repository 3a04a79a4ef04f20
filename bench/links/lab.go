//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
)

// section is a part of the measurements that can be made by itself.
type section struct {
	name string
	run  func(ctx context.Context, l *lab) (bench.Section, error)
}

func sections() []section {
	return []section{
		{"import", func(ctx context.Context, l *lab) (bench.Section, error) { return l.measureImport(ctx) }},
		{"creates", func(ctx context.Context, l *lab) (bench.Section, error) { return l.measureCreates(ctx) }},
		{"list", func(ctx context.Context, l *lab) (bench.Section, error) { return l.measureLists(ctx) }},
	}
}

func names() (out []string) {
	for _, s := range sections() {
		out = append(out, s.name)
	}
	return out
}

// lab is where the sections of one run are measured.
type lab struct {
	o       options
	dir     string // for whatever is needed on the way
	targets *corpus.Targets
}

func (l *lab) log(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
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
	if l.dir, err = os.MkdirTemp(o.Temp, "waypost-bench-"); err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	for _, s := range sections() {
		if slices.Contains(o.Only, s.name) {
			if err := l.measure(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	if o.Try {
		l.log("this was to see that it works, and is not written down")
	}
	return nil
}

func (l *lab) measure(ctx context.Context, s section) error {
	l.log("section %s", s.name)
	start := time.Now()
	out, err := s.run(ctx, l)
	if err != nil {
		return err
	}
	if err := out.Compare(); err != nil {
		return err
	}
	setGoals(&out)
	out.Name, out.Made, out.Command, out.Machine = s.name, time.Now().UTC().Truncate(time.Second), l.o.command, bench.ThisMachine()
	l.log("section %s took %s", s.name, time.Since(start).Round(time.Second))
	fmt.Printf("\n%s\n", out.Markdown())
	if l.o.Try {
		return nil
	}
	report, err := bench.Read(l.o.Out, "links")
	if err != nil {
		return err
	}
	report.Title, report.Method = "Links", method
	report.Put(out, names())
	return report.Write(l.o.Out)
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
