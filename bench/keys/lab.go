//go:build linux

package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"waypost/bench"
)

func sections() []bench.Part[*lab] {
	return []bench.Part[*lab]{
		{Name: "issue-1", Measure: func(ctx context.Context, l *lab) (bench.Section, error) { return l.issue(ctx, 1) }},
		{Name: "issue-2", Measure: func(ctx context.Context, l *lab) (bench.Section, error) { return l.issue(ctx, 2) }},
		{Name: "create", Measure: func(ctx context.Context, l *lab) (bench.Section, error) { return l.create(ctx) }},
	}
}

func names() []string { return bench.Names(sections()) }

// lab is where the sections of one run are measured.
type lab struct {
	o  options
	db *database
}

const method = `PostgreSQL is one of its own, with fsync and all other settings of durability as in production, on the same machine. Time is what a clock on the wall
shows, and grows when others use the machine; CPU is the user and system time of this program, or of PostgreSQL's processes, divided by
what was done in that round. Rounds of the cases of a table take turns, so that each is compared with its base of the same
moment; a ratio is the median of those comparisons. The goal for a key is held against CPU, garbage collection and leasing included, because that is the time of
one goroutine on a machine that nobody else uses, or more.
`

// measure makes the sections, and writes each down when it is complete.
func measure(ctx context.Context, o options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	dir, remove, err := o.TempDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	l := &lab{o: o}
	if l.db, err = startDatabase(ctx, filepath.Join(dir, "postgres")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.db.Stop()) }()
	return bench.Run(ctx, &o.Options, bench.Study[*lab]{Title: "Keys", Method: method, Sections: sections(), Goals: setGoals}, l)
}
