//go:build linux

// Command write measures the way of a link from its creation to an edge: creates, imports
// and the lag from a commit to an edge. README.md of package bench says how to run it.
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
)

func main() { bench.Main("write", measure, os.Args[1:]) }

// lab holds the values that the sections of a run share.
type lab struct {
	o       bench.Options
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
	if err := l.o.Parse(l.o.Flags("write"), args); err != nil {
		return err
	}
	if l.targets, err = corpus.ReadTargets(l.o.Targets); err != nil {
		return err
	}
	if l.dir, err = bench.TempDir(""); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	return l.o.Run(ctx, []bench.Part{
		{Name: "create", Measure: l.create},
		{Name: "import", Measure: l.importing},
		{Name: "lag", Measure: l.lag},
	})
}

// startSystem starts a whole system.
func (l *lab) startSystem(ctx context.Context) (*bench.System, error) {
	dir, err := bench.TempDir(l.dir)
	if err != nil {
		return nil, err
	}
	binary, err := bench.BuildWaypost(ctx, dir)
	if err != nil {
		return nil, err
	}
	return bench.StartSystem(ctx, "", binary, dir)
}

// figures holds the measures of a case over its rounds. cpu counts all processes.
type figures struct {
	wall, cpu, postgres []float64 // µs for each thing
	p50, p99            []float64 // ms
}

// timed adds a round in which do made a number of things. CPU reads the time of the
// processes at work; the time that do returns comes on top.
func (f *figures) timed(cpu func() (product, postgres bench.CPU, err error), do func() (int, time.Duration, error)) error {
	product, postgres, err1 := cpu()
	start := time.Now()
	things, more, err2 := do()
	took := time.Since(start)
	productAfter, postgresAfter, err3 := cpu()
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(things) }
	ofPostgres := postgresAfter.Since(postgres)
	f.wall, f.postgres = append(f.wall, each(took)), append(f.postgres, each(ofPostgres))
	f.cpu = append(f.cpu, each(productAfter.Since(product)+ofPostgres+more))
	return nil
}

// millis returns a quantile in ms.
func millis(times []time.Duration, q float64) float64 {
	return bench.Quantile(times, q).Seconds() * 1e3
}

// measures returns the columns of the table, for a thing with that name.
func (f *figures) measures(thing string) []bench.Measure {
	rates := make([]float64, len(f.wall))
	for i, w := range f.wall {
		rates[i] = float64(int(1e6 / w))
	}
	all := []bench.Measure{
		{Name: thing + "s per second", Rounds: rates},
		{Name: "µs per " + thing, Rounds: f.wall},
		{Name: "CPU µs per " + thing, Rounds: f.cpu},
		{Name: "of which PostgreSQL's", Rounds: f.postgres},
	}
	if len(f.p50) > 0 {
		all = append(all, bench.Measure{Name: "p50 ms", Rounds: f.p50}, bench.Measure{Name: "p99 ms", Rounds: f.p99})
	}
	return all
}
