//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
	"waypost/bench/wrk"
	"waypost/internal/admin"
)

// edgeProcess is an edge of its own.
type edgeProcess struct {
	process         *exec.Cmd
	addr, adminAddr string
}

// startEdge starts an edge and returns the time from its start until it redirects a
// visitor of the newest link.
func (g *growth) startEdge(ctx context.Context, dir string) (_ *edgeProcess, took time.Duration, err error) {
	status := dir + ".status"
	if err := os.Remove(status); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("start an edge: %w", err)
	}
	log, err := os.Create(dir + ".log")
	if err != nil {
		return nil, 0, fmt.Errorf("start an edge: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	e := &edgeProcess{process: exec.Command(g.s.Binary, "edge", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
		"--region", "us-east-1", "--node", "growth")}
	e.process.Env = append(os.Environ(), "WAYPOST_EDGE_CONTROL_URLS="+g.s.State.API, "WAYPOST_EDGE_TOKEN="+g.token,
		"WAYPOST_EDGE_STRICT_HOSTS=false", "WAYPOST_EDGE_DATA_DIR="+dir, "WAYPOST_EDGE_STATUS_FILE="+status)
	e.process.Stdout, e.process.Stderr = log, log
	began := time.Now()
	if err := e.process.Start(); err != nil {
		return nil, 0, fmt.Errorf("start an edge: %w", err)
	}
	code := string(corpus.AppendCode(nil, uint64(g.links-1)))
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, 0, errors.Join(ctx.Err(), e.stop())
		case <-poll.C:
		}
		if e.addr == "" {
			if now, err := admin.ReadStatus(status); err == nil {
				e.addr, e.adminAddr = now.Addr, now.AdminAddr
			}
			continue
		}
		got, err := g.get(ctx, "http://"+e.addr+"/"+code, "")
		if err == nil && got == http.StatusFound {
			return e, time.Since(began), nil
		}
	}
}

func (e *edgeProcess) stop() error {
	if err := e.process.Process.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("stop an edge: %w", err)
	}
	if err := e.process.Wait(); err != nil {
		return fmt.Errorf("stop an edge: %w", err)
	}
	return nil
}

// visit has wrk follow links, and returns the CPU time of a redirect in µs: at first,
// while the edge fills its table of links, and once it has.
func (g *growth) visit(ctx context.Context, e *edgeProcess) (first, last float64, err error) {
	const visited = 200_000
	dir, err := os.MkdirTemp(g.dir, "wrk-")
	if err != nil {
		return 0, 0, fmt.Errorf("visit links: %w", err)
	}
	random := rand.New(rand.NewPCG(1, uint64(g.links)))
	var codes []byte
	for range visited {
		codes = corpus.AppendCode(codes, random.Uint64N(uint64(g.links)))
	}
	length := 5 * time.Second
	if g.o.Try {
		length = time.Second
	}
	for round := range 2 {
		if round > 0 {
			if err := g.awaitTable(ctx, e); err != nil {
				return 0, 0, err
			}
		}
		before, err := bench.CPUTime(e.process.Process.Pid)
		if err != nil {
			return 0, 0, err
		}
		r, err := wrk.Run(ctx, wrk.Config{
			Addr: e.addr, Dir: dir, Codes: codes, CodeLength: corpus.CodeLength, Head: "GET /", Tail: " HTTP/1.1\r\nHost: localhost\r\n\r\n",
			Connections: 64, Threads: 1, Duration: length,
		})
		if err != nil {
			return 0, 0, err
		}
		after, err := bench.CPUTime(e.process.Process.Pid)
		if err != nil {
			return 0, 0, err
		}
		if r.Requests == 0 || r.Failed+r.Broken > 0 {
			return 0, 0, fmt.Errorf("%d of %d redirects failed, and %d connections", r.Failed, r.Requests, r.Broken)
		}
		first, last = last, after.Since(before).Seconds()*1e6/float64(r.Requests)
	}
	return first, last, nil
}

// awaitTable waits until the edge's table has all links, or has been filled for five
// minutes: it may have no memory for all.
func (g *growth) awaitTable(ctx context.Context, e *edgeProcess) error {
	const longest = 5 * time.Minute
	for began := time.Now(); time.Since(began) < longest; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.adminAddr+"/metrics", http.NoBody)
		if err != nil {
			return err
		}
		res, err := g.client.Do(req)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			return err
		}
		if strings.Contains(string(text), "\nwaypost_replica_lookup_complete 1\n") {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	g.o.Logf("the table of links is not complete")
	return nil
}

// sizeOf adds up the sizes of the files below a directory.
func sizeOf(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a compaction has taken it away
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			total += info.Size()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("add up file sizes: %w", err)
	}
	return total, nil
}
