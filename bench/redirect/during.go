//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"waypost/bench"
)

// during measures how long answers take at half load while the edge is at work.
func during(ctx context.Context, l *lab, links int) (_ bench.Section, err error) {
	edge, err := l.startEdge(ctx, links)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, edge.stop()) }()
	if _, err := l.steadyMemory(ctx, edge); err != nil {
		return bench.Section{}, err
	}
	rate, err := l.halfRate(ctx, edge, links)
	if err != nil {
		return bench.Section{}, err
	}
	quiet := &paced{name: "quiet", what: "nothing but redirects.", target: edge, rate: rate}
	changes := &paced{name: "2,000 changes/s", base: quiet.name, what: "links get new targets, 20 in a transaction, evenly spaced.", target: edge, rate: rate, during: []string{"changes", "2000", "5s"}}
	catchUp := &paced{name: "catching up", base: quiet.name, what: "the same as fast as the replica takes them, with the flushes and compactions that this causes.", target: edge, rate: rate, during: []string{"changes", "0", "10s"}}
	snapshot := &paced{name: "snapshot", base: quiet.name, what: "a whole snapshot is installed and swapped in.", target: edge, rate: rate, during: []string{"snapshots", "1s"}}
	cases := []*paced{quiet, changes, catchUp, snapshot}

	// A snapshot of ten million links takes its time.
	rounds := min(2, l.o.Rounds)
	if links > million {
		rounds = 1
	}
	tables := 0
	for range rounds {
		for _, c := range cases {
			before := l.tables()
			if err := l.pace(ctx, c, links); err != nil {
				return bench.Section{}, err
			}
			if c == catchUp {
				tables += newIn(l.tables(), before)
			}
		}
	}
	s, err := pacedSection(fmt.Sprintf("Latency at half load while the edge is at work, %s links, uniform", count(links)), links, rounds, cases)
	s.Notes = append(s.Notes,
		fmt.Sprintf("Changes applied while catching up: %s, with %d tables written.", strings.Join(catchUp.answers, ", "), tables),
		fmt.Sprintf("Changes applied at 2,000 a second: %s. Snapshots installed: %s.", strings.Join(changes.answers, ", "), strings.Join(snapshot.answers, ", ")))
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
