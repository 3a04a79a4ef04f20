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

// footprint measures the disk and memory of a link, and the time from the start of an
// edge to its first redirect.
func (l *lab) footprint(ctx context.Context, links int) (s bench.Section, err error) {
	s.Title = fmt.Sprintf("Disk, memory and start with %s links", bench.Grouped(links))
	s.Notes = []string{"targets of 90 bytes on average; the edge has one processor"}
	for _, build := range []string{l.self, l.o.Before} {
		if build == "" {
			continue
		}
		suffix := ""
		if build != l.self {
			suffix = ", before"
		}
		cases, err := l.footprintOf(ctx, build, links)
		if err != nil {
			return s, err
		}
		for _, c := range cases {
			if suffix != "" {
				c.Base, c.What = c.Name, ""
			}
			c.Name += suffix
			s.Cases = append(s.Cases, c)
		}
	}
	if links >= million {
		s.AddGoal(diskPerLink, "figure", 75)
		s.AddGoal(memoryPerLink, "figure", 130)
		s.AddGoal(startWarm, "figure", 2)
		s.AddGoal(startCold, "figure", 2)
	}
	return s, nil
}

const (
	diskPerLink   = "disk, bytes per link"
	memoryPerLink = "memory, bytes per link"
	startWarm     = "start to first redirect, s"
	startCold     = "the same, files not in memory, s"
)

func (l *lab) footprintOf(ctx context.Context, build string, links int) ([]bench.Case, error) {
	const fewLinks = 1000
	without, _, err := l.memoryUnderLoad(ctx, build, fewLinks)
	if err != nil {
		return nil, err
	}
	with, table, err := l.memoryUnderLoad(ctx, build, links)
	if err != nil {
		return nil, err
	}
	dir, err := l.replica(ctx, build, links, "")
	if err != nil {
		return nil, err
	}
	disk, err := diskBytes(dir)
	if err != nil {
		return nil, err
	}
	var warm, cold []float64
	for range min(3, l.o.Rounds) {
		for _, forget := range []bool{true, false} {
			seconds, err := l.timeStart(ctx, edgeOptions{build: build, links: links, ship: l.sink.url}, dir, forget)
			if err != nil {
				return nil, err
			}
			if forget {
				cold = append(cold, seconds)
			} else {
				warm = append(warm, seconds)
			}
		}
	}
	one := func(name, what string, rounds ...float64) bench.Case {
		return bench.Case{Name: name, What: what, Measures: []bench.Measure{{Name: "figure", Compared: l.o.Before != "", Rounds: rounds}}}
	}
	perLink := func(bytes int64) float64 { return float64(bytes) / float64(links) }
	return []bench.Case{
		one(diskPerLink, "the sizes of all files of a replica that a snapshot made, after compaction.", perLink(disk)),
		one(memoryPerLink, fmt.Sprintf("the memory of an edge under load (Pss), less that of an edge with %s links.", bench.Grouped(fewLinks)), perLink(with-without)),
		one("memory of the edge, MB", "the same, with nothing taken off.", float64(with)/1e6),
		one("lookup table, bytes per link", "as the table counts them.", table/float64(links)),
		one(startWarm, "from the start of the process to the first 302 for a client that tries all the time.", warm...),
		one(startCold, "the system was told before to forget the replica's files.", cold...),
	}, nil
}

// memoryUnderLoad returns the memory of an edge after some seconds of load, once it has
// stopped growing, and the bytes of its lookup table.
func (l *lab) memoryUnderLoad(ctx context.Context, build string, links int) (memory int64, table float64, err error) {
	t, err := l.startEdge(ctx, edgeOptions{build: build, links: links, ship: l.sink.url})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	length := 5 * time.Second
	if l.o.Try {
		length = time.Second
	}
	if _, err := l.visit(ctx, &contender{target: t, access: corpus.Uniform, links: links, headers: corpus.Browser}, length); err != nil {
		return 0, 0, err
	}
	if table, err = t.metric("waypost_replica_lookup_bytes"); err != nil {
		return 0, 0, err
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	same := 0
	for end := time.Now().Add(time.Minute); same < 4 && time.Now().Before(end); {
		now, err := bench.Memory(t.pids...)
		if err != nil {
			return 0, 0, err
		}
		if change := now - memory; max(change, -change) < 1<<20+now/500 {
			same++
		} else {
			same = 0
		}
		memory = now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		}
	}
	return memory, table, nil
}

// timeStart returns the seconds from the start of an edge to its first redirect.
func (l *lab) timeStart(ctx context.Context, o edgeOptions, dir string, forget bool) (seconds float64, err error) {
	if forget {
		if err := forgetFiles(dir); err != nil {
			return 0, err
		}
	}
	begun := time.Now()
	t, err := l.startEdgeIn(ctx, dir, o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	client := &http.Client{
		Timeout:       time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	url := "http://" + t.addr + "/" + string(corpus.AppendCode(nil, uint64(o.links/2)))
	for {
		status, err := getOnce(ctx, client, url)
		passed := time.Since(begun)
		if err == nil && status == http.StatusFound {
			l.o.Logf("first redirect after %s", passed.Round(time.Millisecond))
			return passed.Seconds(), nil
		}
		if passed > time.Minute {
			return 0, fmt.Errorf("no redirect within a minute: status %d: %w", status, err)
		}
	}
}

func getOnce(ctx context.Context, client *http.Client, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// forgetFiles asks the system to drop the files of a directory from its memory.
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
		return fmt.Errorf("drop files from memory: %w", err)
	}
	return nil
}
