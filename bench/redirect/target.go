//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"waypost/bench"
)

// target is a running server of one process or several.
type target struct {
	addr string
	pids []int // of the processes that answer
	stop func() error

	in  io.WriteCloser // of this program's own servers
	out *bufio.Reader
}

// startServer starts a build of this program as a server on the servers' processor, and
// waits for its address.
func (l *lab) startServer(build, kind string, args ...string) (*target, error) {
	cmd := bench.Command(l.processors.Server, build, append([]string{partServe, "-kind", kind}, args...)...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	t := &target{pids: []int{cmd.Process.Pid}, in: in, out: bufio.NewReader(out)}
	t.stop = func() error { return errors.Join(in.Close(), cmd.Wait()) }
	addr, err := t.out.ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the server did not start: %w", err), t.stop())
	}
	t.addr = strings.TrimSpace(addr)
	return t, nil
}

// metric returns the value of an edge's metric.
func (t *target) metric(name string) (float64, error) {
	_, err := io.WriteString(t.in, "metric "+name+"\n")
	if err != nil {
		return 0, fmt.Errorf("ask a server for a metric: %w", err)
	}
	line, err := t.out.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("read a metric: %w", err)
	}
	return strconv.ParseFloat(strings.TrimSpace(strings.TrimPrefix(line, "ok ")), 64)
}

// startEdge starts an edge of a build on the replica in a directory, with a journal of
// clicks. Stopping it fails when it has dropped clicks.
func (l *lab) startEdge(build, dir string) (*target, error) {
	return l.startServer(build, kindEdge, "-dir", dir, "-journal", dir+"-clicks", "-ship", l.ship)
}

// newEdgeWith starts an edge of a build on a new replica, and waits until its lookup
// table is loaded.
func (l *lab) newEdgeWith(ctx context.Context, build string, links int, flags ...string) (*target, error) {
	dir, err := l.replica(ctx, build, links, flags...)
	if err != nil {
		return nil, err
	}
	t, err := l.startEdge(build, dir)
	if err != nil {
		return nil, err
	}
	if err := t.awaitTable(ctx); err != nil {
		return nil, errors.Join(err, t.stop())
	}
	return t, nil
}

// awaitTable waits until an edge has loaded its lookup table, as far as that has room.
func (t *target) awaitTable(ctx context.Context) error {
	before := -1.0
	for same := 0; same < 20; {
		complete, err1 := t.metric("waypost_replica_lookup_complete")
		entries, err2 := t.metric("waypost_replica_lookup_entries")
		if err := errors.Join(err1, err2, ctx.Err()); err != nil || complete == 1 {
			return err
		}
		if same++; entries != before {
			before, same = entries, 0
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

// startOther starts another program on the servers' processor, in a directory, and writes
// its output to a log there.
func (l *lab) startOther(dir, name string, args ...string) (*target, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("make a log: %w", err)
	}
	cmd := bench.Command(l.processors.Server, path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, dir
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	return &target{pids: []int{cmd.Process.Pid}, stop: func() error {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended, or been killed
		_ = cmd.Wait()
		return log.Close()
	}}, nil
}

// freeAddr returns a loopback address that is free at the moment.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return ln.Addr().String(), ln.Close()
}

// awaitAnswer asks until a code leads to a URL, for a minute, and returns when it did.
func awaitAnswer(ctx context.Context, addr, code, url string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for ; ; time.Sleep(time.Millisecond) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/"+code, http.NoBody)
		if err != nil {
			return time.Time{}, err
		}
		if res, err := client.Do(req); err == nil {
			if err := res.Body.Close(); err == nil && res.Header.Get("Location") == url {
				return time.Now(), nil
			}
		}
		if ctx.Err() != nil {
			return time.Time{}, fmt.Errorf("%s does not lead to %s: %w", code, url, ctx.Err())
		}
	}
}
