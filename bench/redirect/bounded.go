//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
	"waypost/edge/lookup"
)

const (
	// boundedBytes is what the lookup table of ten million links may have, and of fewer in proportion: a quarter of what it
	// takes.
	boundedBytes = 256 << 20

	// besideTable is what docs/operations.md allows for an edge beside its table, in bytes: 256 MiB for Pebble, and as much for
	// the Go heap, which nothing bounds here.
	besideTable = 512 << 20
)

// bounded compares an edge whose lookup table may not have all links with one whose table has, both asked for some links
// far more often than for others, and for codes that no link has.
func bounded(ctx context.Context, l *lab, links int) (_ bench.Section, err error) {
	budget := max(lookup.MinBudget, boundedBytes*int64(links)/tenMillion)
	bare, complete, err := l.startBoth(ctx, links)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, bare.stop(), complete.stop()) }()
	small, err := l.startEdge(ctx, links, "-lookup", strconv.FormatInt(budget, 10))
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, small.stop()) }()
	base := bareCase(bare, load{corpus.Zipfian, links, corpus.Bare})
	base.what = whatBare
	cases := []*contender{base}
	tables := []*table{{target: complete, name: "complete table"}, {target: small, name: "bounded table", budget: float64(budget)}}
	for _, t := range tables {
		if err := t.warm(ctx, l, links); err != nil {
			return bench.Section{}, err
		}
		hit, err := l.edgeCase(t.target, base.load)
		if err != nil {
			return bench.Section{}, err
		}
		miss := &contender{target: t.target, load: load{corpus.Missing, links, corpus.Bare}, expect: expectation{status: 404}}
		hit.name, miss.name, hit.base, miss.base = "hit, "+t.name, "miss, "+t.name, base.name, base.name
		cases = append(cases, hit, miss)
	}
	cases[1].what, cases[2].what = whatEdge, "the same, asked for codes of the right shape that no link has."
	cases[3].what = fmt.Sprintf("the same with a lookup table of %.1f MiB at most.", float64(budget)/(1<<20))
	if err := l.compare(ctx, cases); err != nil {
		return bench.Section{}, err
	}
	s, err := l.report(fmt.Sprintf("CPU with a lookup table that is too small, %s links, Zipf(1.0)", count(links)), links, cases)
	if err != nil {
		return s, err
	}
	for i, t := range tables {
		if err := t.finish(ctx, l, links); err != nil {
			return s, err
		}
		t.report(&s.Cases[1+2*i], &s.Cases[2+2*i])
	}
	(&table{}).report(&s.Cases[0], &bench.Case{}) // which has none
	s.Goals = append(s.Goals,
		bench.Goal{What: "bytes of the bounded table", Most: float64(budget), Figure: tables[1].bytes},
		bench.Goal{What: "memory of its edge, MB (Pss)", Most: float64(budget+besideTable) / 1e6, Figure: float64(tables[1].memory) / 1e6})
	return s, s.Compare()
}

// table is the lookup table of an edge.
type table struct {
	name   string
	target *target
	budget float64 // bytes that it must have been given; 0: any

	bytes     float64    // at most, at some looks
	entries   float64    // in the end
	memory    int64      // of the process, bytes
	fallbacks [2]float64 // of a hundred hits and misses
}

// warm has the edge keep what is asked for often.
func (t *table) warm(ctx context.Context, l *lab, links int) error {
	length := 15 * time.Second
	if l.o.Try {
		length = time.Second
	}
	if err := t.target.loaded(ctx); err != nil {
		return err
	}
	given, err := t.target.metric("waypost_replica_lookup_budget_bytes")
	if err != nil {
		return err
	}
	if t.budget > 0 && given != t.budget {
		return fmt.Errorf("the table may have %.0f bytes, and not %.0f", given, t.budget)
	}
	if _, err := l.steadyMemory(ctx, t.target); err != nil { // the filter of all codes is made
		return err
	}
	if err := t.look(); err != nil {
		return err
	}
	if _, err := l.visit(ctx, t.target, load{corpus.Zipfian, links, corpus.Bare}, length); err != nil {
		return err
	}
	return t.look()
}

// look notes how large the table is.
func (t *table) look() error {
	bytes, err := t.target.metric("waypost_replica_lookup_bytes")
	t.bytes = max(t.bytes, bytes)
	return err
}

// finish takes the figures of the end.
func (t *table) finish(ctx context.Context, l *lab, links int) (err error) {
	for i, access := range []corpus.Access{corpus.Zipfian, corpus.Missing} {
		if t.fallbacks[i], err = t.fallback(ctx, l, load{access, links, corpus.Bare}); err != nil {
			return err
		}
	}
	if err := t.look(); err != nil {
		return err
	}
	if t.entries, err = t.target.metric("waypost_replica_lookup_entries"); err != nil {
		return err
	}
	t.memory, err = l.steadyMemory(ctx, t.target)
	return err
}

// fallback tells of how many in a hundred requests the table could not tell, so that Pebble was asked.
func (t *table) fallback(ctx context.Context, l *lab, load load) (float64, error) {
	const name = "waypost_replica_lookup_fallbacks_total"
	before, err := t.target.metric(name)
	if err != nil {
		return 0, err
	}
	r, err := l.visit(ctx, t.target, load, l.o.Round)
	if err != nil {
		return 0, err
	}
	after, err := t.target.metric(name)
	return 100 * (after - before) / float64(r.Requests), err
}

// report adds the figures to the cases of the edge; to none for the zero table, whose cases get empty ones.
func (t *table) report(hit, miss *bench.Case) {
	for i, c := range []*bench.Case{hit, miss} {
		add := func(name string, figure float64, of bool) {
			m := bench.Measure{Name: name}
			if of && t.target != nil {
				m.Rounds = []float64{figure}
			}
			c.Measures = append(c.Measures, m)
		}
		add("Pebble asked, %", t.fallbacks[i], true)
		add("lookup table, MB", t.bytes/1e6, c == hit)
		add("links in it", t.entries, c == hit)
		add("memory, MB (Pss)", float64(t.memory)/1e6, c == hit)
	}
}
