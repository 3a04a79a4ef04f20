//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"waypost/bench"
)

const (
	imported   = "waypost links import"
	plainBy100 = "INSERTs by 100"
)

// importRun imports a file between two rounds of plain INSERTs.
type importRun struct {
	*lab
	system *bench.System
	plain  *plain

	firstLinks, links, plainLinks, connections int

	inserts, imports figures
}

func (l *lab) importing(ctx context.Context) (_ bench.Section, err error) {
	r := &importRun{lab: l, firstLinks: 2000, links: sized(l, 500_000, 2000), plainLinks: sized(l, 100_000, 1000), connections: 4}
	if r.system, err = l.startSystem(ctx, "import"); err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, r.system.Stop()) }()
	if r.plain, err = l.newPlain(ctx, r.system.State.DatabaseURL, r.connections); err != nil {
		return bench.Section{}, err
	}
	defer r.plain.pool.Close()
	if err := r.measure(ctx); err != nil {
		return bench.Section{}, err
	}
	return r.table()
}

func (r *importRun) measure(ctx context.Context) error {
	first, file := filepath.Join(r.dir, "first.csv"), filepath.Join(r.dir, "links.csv")
	if err := errors.Join(r.writeLinks(first, r.firstLinks), r.writeLinks(file, r.links)); err != nil {
		return err
	}
	if _, err := r.importFile(ctx, first); err != nil {
		return err
	}
	if err := r.plain.awaitStatistics(ctx); err != nil {
		return err
	}
	insert := func() (time.Duration, error) { return 0, r.plain.by100(ctx, r.plainLinks, r.connections) }
	if err := r.round(&r.inserts, r.plainLinks, insert); err != nil {
		return err
	}
	if err := r.round(&r.imports, r.links, func() (client time.Duration, err error) {
		if client, err = r.importFile(ctx, file); err != nil {
			return 0, err
		}
		return client, r.system.AwaitEdges(ctx)
	}); err != nil {
		return err
	}
	return r.round(&r.inserts, r.plainLinks, insert)
}

// importFile runs the command, and returns its CPU time.
func (r *importRun) importFile(ctx context.Context, file string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, r.system.Binary, "links", "import", file, "--data-dir", r.system.DataDir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("import: %w\n%s", err, out)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// round adds a round in which links are made to f. The CPU time that do returns comes on
// top of that of the system.
func (r *importRun) round(f *figures, links int, do func() (time.Duration, error)) error {
	product, postgres, err := r.system.CPU()
	if err != nil {
		return err
	}
	start := time.Now()
	client, err := do()
	if err != nil {
		return err
	}
	took := time.Since(start)
	productAfter, postgresAfter, err := r.system.CPU()
	if err != nil {
		return err
	}
	f.add(links, took, productAfter.Since(product)+client, postgresAfter.Since(postgres))
	r.o.Logf("%d links in %s", links, took)
	return nil
}

func (r *importRun) table() (bench.Section, error) {
	// The import is one round, compared with the INSERTs before and after it.
	for _, f := range []*[]float64{&r.imports.wall, &r.imports.cpu, &r.imports.postgres} {
		*f = append(*f, (*f)[0])
	}
	out := bench.Section{
		Title: fmt.Sprintf("Importing %d links", r.links),
		Notes: []string{
			fmt.Sprintf("the import once, %d INSERTs before it and as many after it, over %d connections", r.plainLinks, r.connections),
			"time until both edges have applied the last link; CPU of all processes, the client's too",
			fmt.Sprintf("%d links came before, and PostgreSQL's first statistics of the table", r.firstLinks),
		},
		Cases: []bench.Case{
			{Name: plainBy100, What: "links and their entries of the changelog, 100 of each in a transaction.", Measures: r.inserts.measures("link")},
			{Name: imported, What: "from CSV to links on two edges: the command, the API with its checks, keys, the changelog, the stream.", Base: plainBy100, Measures: r.imports.measures("link")},
		},
	}
	state := &r.system.State
	for name, pid := range map[string]int{"the control plane": int(state.Control.PID), "an edge": int(state.Edges[0].PID)} {
		peak, err := bench.PeakMemory(pid)
		if err != nil {
			return bench.Section{}, err
		}
		out.Notes = append(out.Notes, fmt.Sprintf("peak memory of %s: %.0f MB", name, math.Round(float64(peak)/(1<<20))))
	}
	slices.Sort(out.Notes)
	out.AddGoal(imported, "µs per link", 1e6/40_000)
	out.AddRatioGoal(imported, "µs per link", 2)
	return out, nil
}

// writeLinks makes a file to import.
func (l *lab) writeLinks(name string, n int) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("make a file of links: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	line := []byte("original_url\n")
	for i := range n {
		if _, err := w.Write(line); err != nil {
			return fmt.Errorf("write links: %w", err)
		}
		line = append(l.targets.Append(append(line[:0], '"'), uint64(i)), "\"\n"...)
	}
	_, err = w.Write(line)
	return errors.Join(err, w.Flush())
}
