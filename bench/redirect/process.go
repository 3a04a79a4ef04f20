//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// target is a running server of one process or several.
type target struct {
	addr   string
	pids   []int // of the processes that answer
	closed func() error

	// Of this program's own servers:
	in  io.WriteCloser
	out *bufio.Reader
}

// stop ends the server and waits for it. It may be called on nil.
func (t *target) stop() error {
	if t == nil {
		return nil
	}
	return t.closed()
}

// startServer starts a build of this program as a server and waits for its address. The
// server has the processor of servers, except the source of snapshots.
func (l *lab) startServer(ctx context.Context, build, kind string, args ...string) (*target, error) {
	cmd := exec.CommandContext(ctx, build, append([]string{partServe, "-kind", kind}, args...)...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	start := func() error { return l.processors.Start(cmd.Start) }
	if kind == kindSource {
		start = cmd.Start
	}
	if err := start(); err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	t := &target{pids: []int{cmd.Process.Pid}, in: in, out: bufio.NewReader(out)}
	t.closed = func() error {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			return fmt.Errorf("stop a server: %w", err)
		}
		return nil
	}
	var err error
	if t.addr, err = t.line(); err != nil {
		return nil, errors.Join(fmt.Errorf("the server did not start: %w", err), t.stop())
	}
	return t, nil
}

func (t *target) line() (string, error) {
	line, err := t.out.ReadString('\n')
	return strings.TrimSpace(line), err
}

// begin sends a command to a server of this program; finish returns its answer.
func (t *target) begin(words ...string) error {
	if _, err := io.WriteString(t.in, strings.Join(words, " ")+"\n"); err != nil {
		return fmt.Errorf("ask a server to %s: %w", words[0], err)
	}
	return nil
}

func (t *target) finish() (string, error) {
	line, err := t.line()
	if err != nil {
		return "", fmt.Errorf("read a server's answer: %w", err)
	}
	answer, ok := strings.CutPrefix(line, "ok ")
	if !ok {
		return "", fmt.Errorf("the server answers: %s", line)
	}
	return answer, nil
}

func (t *target) ask(words ...string) (string, error) {
	if err := t.begin(words...); err != nil {
		return "", err
	}
	return t.finish()
}

// metric returns the value of an edge's metric.
func (t *target) metric(name string) (float64, error) {
	text, err := t.ask("metric", name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// loaded waits until an edge has loaded its lookup table, as far as that has room.
func (t *target) loaded(ctx context.Context) error {
	const still = 20
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	before, same := -1.0, 0
	for same < still {
		complete, err := t.metric("waypost_replica_lookup_complete")
		if err != nil || complete == 1 {
			return err
		}
		entries, err := t.metric("waypost_replica_lookup_entries")
		if err != nil {
			return err
		}
		if entries == before {
			same++
		} else {
			before, same = entries, 0
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// edgeOptions say how an edge is started.
type edgeOptions struct {
	build  string
	links  int
	ship   string // where clicks go
	source string // URL of the source of snapshots; "" for none
	rules  string // those of all links; "": none
}

// startEdge starts an edge on a replica of its own, with a journal of clicks, and waits
// until it has loaded its lookup table.
func (l *lab) startEdge(ctx context.Context, o edgeOptions) (*target, error) {
	dir, err := l.replica(ctx, o.build, o.links, o.rules)
	if err != nil {
		return nil, err
	}
	t, err := l.startEdgeIn(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	ended := t.closed
	t.closed = func() error { return errors.Join(ended(), os.RemoveAll(dir), os.RemoveAll(dir+"-clicks")) }
	if err := t.loaded(ctx); err != nil {
		return nil, errors.Join(err, t.stop())
	}
	return t, nil
}

// startEdgeIn starts an edge on the replica in a directory, which stays. Stopping it
// fails when it has dropped clicks.
func (l *lab) startEdgeIn(ctx context.Context, dir string, o edgeOptions) (*target, error) {
	t, err := l.startServer(ctx, o.build, kindEdge, "-dir", dir, "-journal", dir+"-clicks", "-ship", o.ship,
		"-links", strconv.Itoa(o.links), "-targets", l.o.Targets, "-source", o.source)
	if err != nil {
		return nil, err
	}
	ended := t.closed
	t.closed = func() error {
		dropped, err := t.metric("waypost_clicks_dropped_total")
		if err == nil && dropped > 0 {
			err = fmt.Errorf("%.0f clicks were dropped, so that the figures are too good", dropped)
		}
		return errors.Join(err, ended())
	}
	return t, nil
}

// startSource starts a source of snapshots, on the clients' processors.
func (l *lab) startSource(ctx context.Context, build string, links int) (*target, error) {
	dir, err := l.replica(ctx, build, links, "")
	if err != nil {
		return nil, err
	}
	return l.startServer(ctx, build, kindSource, "-dir", dir)
}

// external describes a program that is not this one.
type external struct {
	name  string
	args  []string
	ready func(ctx context.Context) error // called until it returns nil
	grace time.Duration                   // until then
}

// start runs the program on the servers' processor, and waits until it answers. Its
// output is shown only when it does not.
func (l *lab) startExternal(ctx context.Context, dir string, e external) (_ *target, err error) {
	log, err := os.Create(filepath.Join(dir, filepath.Base(e.name)+".log"))
	if err != nil {
		return nil, fmt.Errorf("make a log: %w", err)
	}
	cmd := exec.CommandContext(ctx, e.name, e.args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := l.processors.Start(cmd.Start); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", e.name, err), log.Close())
	}
	var status error // meaningless once the program was sent a signal
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		status = cmd.Wait()
	}()
	t := &target{pids: []int{cmd.Process.Pid}, closed: func() error {
		err := cmd.Process.Signal(os.Interrupt)
		if errors.Is(err, os.ErrProcessDone) {
			err = nil
		}
		<-ended
		return errors.Join(err, log.Close())
	}}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(e.grace); ; {
		err := e.ready(ctx)
		if err == nil {
			return t, nil
		}
		select {
		case <-ended:
			text, readErr := os.ReadFile(log.Name())
			return nil, errors.Join(fmt.Errorf("%s has ended: %w: %.1000s", e.name, status, text), readErr, log.Close())
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), t.stop())
		case <-tick.C:
		}
		if time.Now().After(end) {
			return nil, errors.Join(fmt.Errorf("%s does not answer: %w", e.name, err), t.stop())
		}
	}
}
