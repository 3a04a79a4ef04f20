//go:build linux

// Command write measures the way of a link from its creation to an edge, and of a click
// back: creates, imports, the lag from a commit to an edge, snapshots, and the counting
// of clicks in PostgreSQL. README.md of package bench says how to run it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
)

func main() { bench.Main("write", measure, os.Args[1:]) }

// lab holds what the sections of a run share.
type lab struct {
	o       bench.Options
	waypost string        // the command; built when empty
	length  time.Duration // of each case of lasting
	dir     string
	targets *corpus.Targets
}

// sized returns the size of a measurement, or of the attempt with -try.
func sized[T any](l *lab, full, try T) T {
	if l.o.Try {
		return try
	}
	return full
}

// measure runs the benchmark.
func measure(ctx context.Context, args []string) (err error) {
	const longest = 3 * time.Hour
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	l := &lab{}
	flags := l.o.Flags("write")
	flags.StringVar(&l.waypost, "waypost", "", "the command waypost; empty: it is built")
	flags.DurationVar(&l.length, "length", 10*time.Minute, "how long clicks are sent in each case of lasting")
	if err := l.o.Parse(flags, args); err != nil {
		return err
	}
	if l.targets, err = corpus.ReadTargets(l.o.Targets); err != nil {
		return err
	}
	if l.dir, err = l.o.TempDir(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	return l.o.Run(ctx, []bench.Part{
		{Name: "create", Measure: l.create},
		{Name: "import", Measure: l.importing},
		{Name: "lag", Measure: l.lag},
		{Name: "snapshot", Measure: l.snapshot},
		{Name: "clicks", Measure: l.clicks},
		{Name: "lasting", Full: true, Measure: l.lasting},
	})
}

// subdir makes a directory of its own for a section.
func (l *lab) subdir(name string) (string, error) {
	dir := filepath.Join(l.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make a directory: %w", err)
	}
	return dir, nil
}

// startSystem starts a whole system.
func (l *lab) startSystem(ctx context.Context, name string) (*bench.System, error) {
	dir, err := l.subdir(name)
	if err != nil {
		return nil, err
	}
	if l.waypost == "" {
		if l.waypost, err = bench.BuildWaypost(ctx, l.dir); err != nil {
			return nil, err
		}
	}
	return bench.StartSystem(ctx, l.waypost, dir)
}

// figures are the measures of a case over its rounds. CPU is that of all processes.
type figures struct {
	wall, cpu, postgres []float64 // µs for each thing
	p50, p99            []float64 // ms
}

// add notes a round in which that number of things were done.
func (f *figures) add(things int, took, product, postgres time.Duration) {
	each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(things) }
	f.wall, f.cpu, f.postgres = append(f.wall, each(took)), append(f.cpu, each(product+postgres)), append(f.postgres, each(postgres))
}

// measures returns the columns of the table, for a thing with that name.
func (f *figures) measures(thing string) []bench.Measure {
	rates := make([]float64, len(f.wall))
	for i, w := range f.wall {
		rates[i] = float64(int(1e6 / w))
	}
	all := []bench.Measure{
		{Name: thing + "s per second", Rounds: rates},
		{Name: "µs per " + thing, Compared: true, Rounds: f.wall},
		{Name: "CPU µs per " + thing, Compared: true, Rounds: f.cpu},
		{Name: "of which PostgreSQL's", Rounds: f.postgres},
	}
	if len(f.p50) > 0 {
		all = append(all, bench.Measure{Name: "p50 ms", Rounds: f.p50}, bench.Measure{Name: "p99 ms", Rounds: f.p99})
	}
	return all
}
