//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"waypost/bench"
)

// section is a part of the measurements that can be made by itself.
type section struct {
	name string
	run  func(ctx context.Context, l *lab) (bench.Section, error)
}

func sections() []section {
	return []section{
		{"issue-1", func(ctx context.Context, l *lab) (bench.Section, error) { return l.issue(ctx, 1) }},
		{"issue-2", func(ctx context.Context, l *lab) (bench.Section, error) { return l.issue(ctx, 2) }},
		{"create", func(ctx context.Context, l *lab) (bench.Section, error) { return l.create(ctx) }},
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
	o  options
	db *database
}

func (l *lab) log(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
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
	dir, err := os.MkdirTemp(o.Temp, "waypost-bench-")
	if err != nil {
		return fmt.Errorf("making a directory for PostgreSQL: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l := &lab{o: o}
	if l.db, err = startDatabase(ctx, filepath.Join(dir, "postgres")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.db.stop()) }()
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
	out.Settings = append(out.Settings, bench.Setting{Name: "load of the machine at the end, over a minute", Value: load()})
	l.log("section %s took %s", s.name, time.Since(start).Round(time.Second))
	fmt.Printf("\n%s\n", out.Markdown())
	if l.o.Try {
		return nil
	}
	report, err := bench.Read(l.o.Out, "keys")
	if err != nil {
		return err
	}
	report.Title, report.Method = "Keys", method
	report.Put(out, names())
	return report.Write(l.o.Out)
}

// load is how many processes want to run, on average of the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	minute, _, _ := strings.Cut(string(text), " ")
	return minute
}
