//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"waypost/bench"
)

const (
	// compacting is long enough for some flushes, after which level 0 is compacted.
	compacting = 30 * time.Second

	duringRound = 5 * time.Second
)

// during measures how long answers take at half load while the edge is at work.
func during(ctx context.Context, l *lab, links int) (_ bench.Section, err error) {
	together, err := l.setApart()
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, together()) }()
	if l.source, err = l.startSource(ctx, links); err != nil {
		return bench.Section{}, err
	}
	defer func() {
		err = errors.Join(err, l.source.stop())
		l.source = nil
	}()
	edge, err := l.startEdge(ctx, links)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, edge.stop()) }()
	if err := edge.loaded(ctx); err != nil {
		return bench.Section{}, err
	}
	if _, err := edge.ask("snapshots", "1ms"); err != nil { // makes what later ones are given
		return bench.Section{}, fmt.Errorf("the first snapshot: %w", err)
	}
	rate, err := l.halfRate(ctx, edge, links)
	if err != nil {
		return bench.Section{}, err
	}
	quiet := &paced{name: "quiet", what: "nothing but redirects.", target: edge, rate: rate, round: duringRound}
	changes := &paced{name: "2,000 changes/s", base: quiet.name, what: "links get new targets, 20 in a transaction, evenly spaced.", target: edge, rate: rate, round: duringRound, during: []string{"changes", "2000", "5s"}}
	steady := &paced{name: "5,000 changes/s", base: quiet.name, what: "as many as it keeps up with beside these redirects, for so long that tables are flushed and compacted.", target: edge, rate: rate, round: duringRound, during: []string{"changes", "5000", compacting.String()}}
	compact := &paced{name: "20,000 changes/s", base: quiet.name, what: "more than it keeps up with: after a while they are 5 s old, and go first.", target: edge, rate: rate, round: duringRound, during: []string{"changes", "20000", compacting.String()}}
	snapshot := &paced{name: "snapshot", base: quiet.name, what: "a whole snapshot is taken over HTTP from a source that is another process, installed and swapped in.", target: edge, rate: rate, round: duringRound, during: []string{"snapshots", "1s"}}
	cases := []*paced{quiet, changes, steady, compact, snapshot}

	// A snapshot of ten million links takes its time.
	rounds := min(5, l.o.Rounds)
	if links > million {
		rounds = 1
	}
	type turnover struct{ came, went int }
	tables := map[*paced]*turnover{steady: {}, compact: {}}
	for range rounds {
		for _, c := range cases {
			before := l.tables()
			if err := l.pace(ctx, c, links); err != nil {
				return bench.Section{}, err
			}
			if t := tables[c]; t != nil {
				after := l.tables()
				t.came, t.went = t.came+newIn(after, before), t.went+newIn(before, after)
			}
		}
	}
	s, err := l.pacedSection(fmt.Sprintf("Latency at half load while the edge is at work, %s links, uniform", count(links)), links, rounds, cases)
	s.Notes = append(s.Notes,
		fmt.Sprintf("Tables that were not there before, after a round: %d at 5,000 changes/s, %d at 20,000. Tables of before that were gone: %d, %d.",
			tables[steady].came, tables[compact].came, tables[steady].went, tables[compact].went),
		fmt.Sprintf("Changes applied: %s; %s; %s. Snapshots installed: %s.", strings.Join(changes.answers, ", "),
			strings.Join(steady.answers, ", "), strings.Join(compact.answers, ", "), strings.Join(snapshot.answers, ", ")))
	for _, c := range cases[1:] {
		goal(&s, c.name, measureP99, "p99 over the quiet one, "+c.name, 2.00)
	}
	return s, err
}

// tables lists the tables of all replicas that are open for servers.
func (l *lab) tables() map[string]bool {
	found, err := filepath.Glob(filepath.Join(l.dir, "clone-*", "store-*", "*.sst"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	out := map[string]bool{}
	for _, name := range found {
		out[name] = true
	}
	return out
}

func newIn(now, before map[string]bool) (n int) {
	for name := range now {
		if !before[name] {
			n++
		}
	}
	return n
}
