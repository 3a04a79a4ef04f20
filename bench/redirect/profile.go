//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
)

// profile shows where the CPU time of redirects goes.
func profile(ctx context.Context, l *lab, links int) (_ bench.Section, err error) {
	edge, err := l.startEdge(ctx, links)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, edge.stop()) }()
	if err := edge.loaded(ctx); err != nil {
		return bench.Section{}, err
	}
	// The load begins before and ends after.
	const length = 10 * time.Second
	file := filepath.Join(l.dir, "profile")
	visited := make(chan error, 1)
	go func() {
		_, err := l.visit(ctx, edge, load{corpus.Uniform, links, corpus.Browser}, length+4*time.Second)
		visited <- err
	}()
	select {
	case <-time.After(3 * time.Second):
	case <-ctx.Done():
	}
	_, askErr := edge.ask("profile", length.String(), file)
	if err := errors.Join(askErr, <-visited); err != nil {
		return bench.Section{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return bench.Section{}, fmt.Errorf("finding this program: %w", err)
	}
	out, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-nodecount=45", self, file).Output()
	if err != nil {
		return bench.Section{}, fmt.Errorf("reading the profile: %w", err)
	}
	text := string(out)
	if at := strings.Index(text, "Duration:"); at >= 0 {
		text = text[at:] // without the names of files
	}
	return bench.Section{
		Title:    fmt.Sprintf("Where the time goes, %s links, uniform", count(links)),
		Settings: l.settings(links)[:1],
		Notes:    []string{fmt.Sprintf("`go tool pprof -top` of %s of an edge under wrk's load, with a browser's headers and the clicks journaled.", length)},
		Listing:  text,
	}, nil
}
