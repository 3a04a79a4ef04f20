//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
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
	rate, err := l.halfRate(ctx, edge, corpus.Uniform, links)
	if err != nil {
		return bench.Section{}, err
	}
	quiet := &paced{name: "quiet", what: "nothing but redirects.", target: edge, rate: rate, round: duringRound}
	changes := &paced{name: "2,000 changes/s", base: quiet.name, what: "links get new targets, 20 in a transaction, evenly spaced.", target: edge, rate: rate, round: duringRound, during: []string{"changes", "2000", "5s"}}
	steady := &paced{name: "5,000 changes/s", base: quiet.name, what: "as many as it keeps up with beside these redirects, for so long that tables are flushed and compacted.", target: edge, rate: rate, round: duringRound, during: []string{"changes", "5000", compacting.String()}}
	compact := &paced{name: "20,000 changes/s", base: quiet.name, what: "more than it keeps up with: after a while they are 5 s old, and go first.", target: edge, rate: rate, round: duringRound, during: []string{"changes", "20000", compacting.String()}}
	snapshot := &paced{name: "snapshot", base: quiet.name, what: "a whole snapshot is taken over HTTP from a source that is another process, installed and swapped in.", target: edge, rate: rate, round: duringRound, during: []string{"snapshots", "1s"}}
	cases := []*paced{quiet, changes, steady, compact, snapshot}
	for _, c := range cases {
		c.access = corpus.Uniform
	}

	// A snapshot of ten million links takes its time.
	rounds := min(5, l.o.Rounds)
	if links > million {
		rounds = max(1, l.o.Rounds/5)
	}
	wrote := map[*paced]*diskWork{steady: {}, compact: {}}
	for range rounds {
		for _, c := range cases {
			before, err1 := edge.diskWork()
			err2 := l.pace(ctx, c, links)
			after, err3 := edge.diskWork()
			if err := errors.Join(err1, err2, err3); err != nil {
				return bench.Section{}, err
			}
			if w := wrote[c]; w != nil {
				w.add(after, before)
			}
		}
	}
	s, err := l.pacedSection(fmt.Sprintf("Latency at half load while the edge is at work, %s links, uniform", count(links)), links, rounds, cases)
	s.Notes = append(s.Notes,
		fmt.Sprintf("In all rounds of 5,000 changes/s: %s. Of 20,000: %s.", wrote[steady], wrote[compact]),
		fmt.Sprintf("Changes applied: %s; %s; %s. Snapshots installed: %s.", strings.Join(changes.answers, ", "),
			strings.Join(steady.answers, ", "), strings.Join(compact.answers, ", "), strings.Join(snapshot.answers, ", ")))
	for _, c := range cases[1:] {
		goal(&s, c.name, measureP99, "p99 over the quiet one, "+c.name, 2.00)
	}
	return s, err
}

// diskWork is what an edge has done in the background with its files.
type diskWork struct{ flushes, compactions, bytes float64 }

func (t *target) diskWork() (w diskWork, err error) {
	for name, to := range map[string]*float64{
		"waypost_replica_flushes_total": &w.flushes, "waypost_replica_compactions_total": &w.compactions, "waypost_replica_table_written_bytes_total": &w.bytes,
	} {
		if *to, err = t.metric(name); err != nil {
			return w, err
		}
	}
	return w, nil
}

// add adds what was done between two looks at it.
func (w *diskWork) add(after, before diskWork) {
	w.flushes += after.flushes - before.flushes
	w.compactions += after.compactions - before.compactions
	w.bytes += after.bytes - before.bytes
}

func (w *diskWork) String() string {
	return fmt.Sprintf("flushes %.0f, compactions %.0f, together %.0f MB", w.flushes, w.compactions, w.bytes/1e6)
}
