//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"waypost/bench"
	"waypost/bench/corpus"
)

// footprint measures what links take of disk and memory, and how long an edge takes
// to its first redirect.
func footprint(ctx context.Context, l *lab, links int) (_ bench.Section, err error) {
	const fewLinks = 1000
	few, err := l.startEdge(ctx, fewLinks)
	if err != nil {
		return bench.Section{}, err
	}
	without, err := l.memoryUnderLoad(ctx, few, fewLinks)
	if err := errors.Join(err, few.stop()); err != nil {
		return bench.Section{}, err
	}
	dir, err := l.replica(ctx, links)
	if err != nil {
		return bench.Section{}, err
	}
	disk, err := diskBytes(dir)
	if err != nil {
		return bench.Section{}, err
	}
	journal, err := os.MkdirTemp(l.dir, "clicks-")
	if err != nil {
		return bench.Section{}, fmt.Errorf("making a directory for clicks: %w", err)
	}
	var warm, cold []float64
	for range min(3, l.o.Rounds) {
		for _, forget := range []bool{true, false} {
			seconds, err := l.timeStart(ctx, links, dir, journal, forget)
			if err != nil {
				return bench.Section{}, err
			}
			if forget {
				cold = append(cold, seconds)
			} else {
				warm = append(warm, seconds)
			}
		}
	}
	begun := time.Now()
	t, err := l.startEdgeIn(ctx, links, dir, journal)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	if err := t.loaded(ctx); err != nil {
		return bench.Section{}, err
	}
	loaded := []float64{time.Since(begun).Seconds()}
	with, err := l.memoryUnderLoad(ctx, t, links)
	if err != nil {
		return bench.Section{}, err
	}

	held, err := t.metric("waypost_replica_lookup_entries")
	if err != nil {
		return bench.Section{}, err
	}
	table, err := t.metric("waypost_replica_lookup_bytes")
	if err != nil {
		return bench.Section{}, err
	}

	perLink := float64(with-without) / float64(links)
	one := func(name, what string, rounds ...float64) bench.Case {
		return bench.Case{Name: name, What: what, Measures: []bench.Measure{{Name: "figure", Rounds: rounds}}}
	}
	s := bench.Section{
		Title:    fmt.Sprintf("Disk, memory and start with %s links", count(links)),
		Settings: []bench.Setting{{Name: "links", Value: fmt.Sprintf("%s, targets of 90 bytes on average", count(links))}},
		Cases: []bench.Case{
			one("disk, bytes per link", "the sizes of all files of a replica made by a snapshot, once compaction has ended.", float64(disk)/float64(links)),
			one("memory, bytes per link", fmt.Sprintf("the memory of an edge after 5 s of load (Pss), less that of one with %s links.", count(fewLinks)), perLink),
			one("memory of the edge, MB", "the same, without taking anything off.", float64(with)/1e6),
			one("links in the lookup table", "", held),
			one("lookup table, bytes per link in it", "as it counts itself.", table/max(1, held)),
			one("start to lookup table loaded, s", "from the start of the process, with nothing asked of it meanwhile.", loaded...),
			one("start to first redirect, s", "from the start of the process to the first 302 to a client that tries all the time.", warm...),
			one("the same, files not in memory, s", "the system was told to forget the replica's files before.", cold...),
		},
	}
	if err := s.Compare(); err != nil {
		return bench.Section{}, err
	}
	s.Goals = []bench.Goal{
		{What: "disk bytes per link", Most: 75, Figure: s.Cases[0].Measures[0].Summary.Median},
		{What: "memory bytes per link", Most: 130, Figure: perLink},
		{What: "seconds to the first redirect", Most: 2, Figure: s.Cases[6].Measures[0].Summary.Median},
		{What: "the same, files not in memory", Most: 2, Figure: s.Cases[7].Measures[0].Summary.Median},
	}
	return s, nil
}

// memoryUnderLoad is what a server holds once it has loaded what it loads, and was
// asked for many links.
func (l *lab) memoryUnderLoad(ctx context.Context, t *target, links int) (int64, error) {
	if err := t.loaded(ctx); err != nil {
		return 0, err
	}
	if _, err := l.visit(ctx, t, load{corpus.Uniform, links, corpus.Browser}, 5*time.Second); err != nil {
		return 0, err
	}
	return l.steadyMemory(ctx, t)
}

// timeStart gives the seconds from the start of an edge to its first redirect.
func (l *lab) timeStart(ctx context.Context, links int, dir, journal string, forget bool) (seconds float64, err error) {
	if forget {
		if err := forgetFiles(dir); err != nil {
			return 0, err
		}
	}
	begun := time.Now()
	t, err := l.startEdgeIn(ctx, links, dir, journal)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	client := &http.Client{
		Timeout:       time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	code := corpus.AppendCode(nil, uint64(links/2))
	for {
		status, err := getOnce(ctx, client, t.addr, code)
		passed := time.Since(begun)
		if err == nil && status == http.StatusFound {
			l.o.Log("first redirect after %s", passed.Round(time.Millisecond))
			return passed.Seconds(), nil
		}
		if passed > time.Minute {
			return 0, fmt.Errorf("no redirect within a minute: status %d: %w", status, err)
		}
	}
}

// forgetFiles asks the system to drop what it keeps of files in memory.
func forgetFiles(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(unix.Fdatasync(int(f.Fd())), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
	})
	if err != nil {
		return fmt.Errorf("dropping files from memory: %w", err)
	}
	return nil
}
