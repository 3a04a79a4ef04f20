//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"waypost/bench"
)

// importing imports a file between two rounds of plain INSERTs.
func (l *lab) importing(ctx context.Context) (out bench.Section, err error) {
	const imported, by100 = "waypost import", "INSERTs by 100"
	firstLinks, links, plainLinks, connections := 2000, sized(l, 500_000, 2000), sized(l, 100_000, 1000), 4
	s, err := l.startSystem(ctx, "import")
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	p, err := l.newPlain(ctx, s.State.DatabaseURL, connections)
	if err != nil {
		return out, err
	}
	defer p.pool.Close()
	if _, _, err := l.importFile(ctx, s, firstLinks); err != nil {
		return out, err
	}
	// A control plane makes statistics of the links a few seconds after the first links of
	// an installation, and never again.
	for made := false; !made; time.Sleep(100 * time.Millisecond) {
		if err := p.pool.QueryRow(ctx, `SELECT reltuples >= 0 FROM pg_class WHERE oid = 'link'::regclass`).Scan(&made); err != nil {
			return out, fmt.Errorf("wait for statistics: %w", err)
		}
	}
	var inserts, imports figures
	insert := func() (int, time.Duration, error) { return plainLinks, 0, p.by100(ctx, plainLinks, connections) }
	if err := errors.Join(
		inserts.timed(s.CPU, insert),
		imports.timed(s.CPU, func() (int, time.Duration, error) { return l.importFile(ctx, s, links) }),
		inserts.timed(s.CPU, insert),
	); err != nil {
		return out, err
	}
	// The import is one round, compared with the INSERTs before and after it.
	for _, f := range []*[]float64{&imports.wall, &imports.cpu, &imports.postgres} {
		*f = append(*f, (*f)[0])
	}
	out = bench.Section{
		Title: fmt.Sprintf("Importing %d links", links),
		Notes: []string{
			fmt.Sprintf("the import once, %d INSERTs before it and as many after it, over %d connections", plainLinks, connections),
			"time until both edges have applied the last link; CPU of all processes, the client's too",
			fmt.Sprintf("%d links came before, and PostgreSQL's first statistics of the table", firstLinks),
		},
		Cases: []bench.Case{
			{Name: by100, What: "links and their entries of the changelog, 100 of each in a transaction.", Measures: inserts.measures("link")},
			{
				Name: imported, What: "from CSV to links on two edges: the command, the API with its checks, keys, the changelog, the stream.",
				Base: by100, Measures: imports.measures("link"),
			},
		},
	}
	out.AddGoal(imported, "µs per link", 1e6/40_000)
	out.AddRatioGoal(imported, "µs per link", 2)
	return out, nil
}

// importFile imports that number of links, waits until both edges have them, and returns
// the CPU time of the command.
func (l *lab) importFile(ctx context.Context, s *bench.System, links int) (int, time.Duration, error) {
	file := filepath.Join(l.dir, fmt.Sprintf("%d.csv", links))
	text := []byte("original_url\n")
	for i := range links {
		text = append(l.targets.Append(append(text, '"'), uint64(i)), "\"\n"...)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return 0, 0, fmt.Errorf("make a file of links: %w", err)
	}
	cmd := exec.CommandContext(ctx, s.Binary, "import", file, "--unchecked", "--data-dir", s.DataDir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("import: %w\n%s", err, out)
	}
	return links, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), s.AwaitEdges(ctx)
}
