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

	"github.com/jackc/pgx/v5"

	"waypost/bench"
)

// importing imports a file.
func (l *lab) importing(ctx context.Context) (out bench.Section, err error) {
	const imported = "waypost import"
	firstLinks, links := 2000, sized(l, 500_000, 2000)
	s, err := l.startSystem(ctx)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	conn, err := pgx.Connect(ctx, s.State.DatabaseURL)
	if err != nil {
		return out, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, _, err := l.importFile(ctx, s, firstLinks); err != nil {
		return out, err
	}
	// A control plane makes statistics of the links a few seconds after the first links of
	// an installation, and never again.
	for made := false; !made; time.Sleep(100 * time.Millisecond) {
		if err := conn.QueryRow(ctx, `SELECT reltuples >= 0 FROM pg_class WHERE oid = 'link'::regclass`).Scan(&made); err != nil {
			return out, fmt.Errorf("wait for statistics: %w", err)
		}
	}
	var f figures
	if err := f.timed(s.CPU, func() (int, time.Duration, error) { return l.importFile(ctx, s, links) }); err != nil {
		return out, err
	}
	out = bench.Section{
		Title: fmt.Sprintf("Importing %d links", links),
		Notes: []string{
			"time until both edges have applied the last link; CPU of all processes, the client's too",
			fmt.Sprintf("%d links came before, and PostgreSQL's first statistics of the table", firstLinks),
		},
		Cases: []bench.Case{{
			Name: imported, What: "from CSV to links on two edges: the command, the API with its checks, keys, the changelog, the stream.",
			Measures: f.measures("link"),
		}},
	}
	out.AddGoal(imported, "µs per link", 1e6/40_000)
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
