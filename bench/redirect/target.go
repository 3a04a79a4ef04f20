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

// target is a server that runs, as one process or several.
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

// startSelf starts this program as a server and waits for its address.
func (l *lab) startSelf(ctx context.Context, args ...string) (*target, error) {
	return l.startServer(ctx, l.apart != nil, args...)
}

// startSource starts what gives edges snapshots, in the clients' half.
func (l *lab) startSource(ctx context.Context, links int) (*target, error) {
	dir, err := l.replica(ctx, links)
	if err != nil {
		return nil, err
	}
	t, err := l.startServer(ctx, false, "-kind", kindSource, "-dir", dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	ended := t.closed
	t.closed = func() error { return errors.Join(ended(), os.RemoveAll(dir)) }
	return t, nil
}

// startServer is startSelf in the server's half, if apart, or else where this process is.
func (l *lab) startServer(ctx context.Context, apart bool, args ...string) (_ *target, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, append([]string{partServe}, args...)...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("making pipes: %w", err)
	}
	start := cmd.Start
	if apart {
		start = func() error { return l.apart.Start(cmd.Start) }
	}
	if err := start(); err != nil {
		return nil, fmt.Errorf("starting a server: %w", err)
	}
	t := &target{pids: []int{cmd.Process.Pid}, in: in, out: bufio.NewReader(out)}
	t.closed = func() error {
		err := in.Close()
		if err := errors.Join(err, cmd.Wait()); err != nil {
			return fmt.Errorf("stopping a server: %w", err)
		}
		return nil
	}
	if t.addr, err = t.line(); err != nil {
		return nil, errors.Join(fmt.Errorf("the server did not start: %w", err), t.stop())
	}
	return t, nil
}

func (t *target) line() (string, error) {
	line, err := t.out.ReadString('\n')
	return strings.TrimSpace(line), err
}

// begin sends a command to one of this program's servers; its answer comes from
// finish.
func (t *target) begin(words ...string) error {
	if _, err := io.WriteString(t.in, strings.Join(words, " ")+"\n"); err != nil {
		return fmt.Errorf("asking a server to %s: %w", words[0], err)
	}
	return nil
}

func (t *target) finish() (string, error) {
	line, err := t.line()
	if err != nil {
		return "", fmt.Errorf("reading a server's answer: %w", err)
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

// metric gives the value of an edge's metric.
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

// startEndless starts the one without timeouts.
func (l *lab) startEndless(ctx context.Context) (*target, error) {
	return l.startSelf(ctx, "-kind", kindEndless)
}

// startBare starts the server that all are compared with.
func (l *lab) startBare(ctx context.Context) (*target, error) {
	return l.startSelf(ctx, "-kind", kindBare)
}

// startUncounted starts an edge that records no clicks.
func (l *lab) startUncounted(ctx context.Context, links int) (*target, error) {
	dir, err := l.replica(ctx, links)
	if err != nil {
		return nil, err
	}
	t, err := l.startEdgeIn(ctx, links, dir, "")
	if err != nil {
		return nil, err
	}
	ended := t.closed
	t.closed = func() error { return errors.Join(ended(), os.RemoveAll(dir)) }
	if err := t.loaded(ctx); err != nil {
		return nil, errors.Join(err, t.stop())
	}
	return t, nil
}

// startEdge starts an edge on a replica of its own, with a journal.
func (l *lab) startEdge(ctx context.Context, links int, flags ...string) (*target, error) {
	dir, err := l.replica(ctx, links)
	if err != nil {
		return nil, err
	}
	journal, err := os.MkdirTemp(l.dir, "clicks-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for clicks: %w", err)
	}
	t, err := l.startEdgeIn(ctx, links, dir, journal, flags...)
	if err != nil {
		return nil, err
	}
	ended := t.closed
	t.closed = func() error {
		dropped, err := t.metric("waypost_clicks_dropped_total")
		if err == nil && dropped > 0 {
			err = fmt.Errorf("%.0f clicks were dropped, so that the figures are too good", dropped)
		}
		return errors.Join(err, ended(), os.RemoveAll(dir), os.RemoveAll(journal))
	}
	return t, nil
}

func (l *lab) startEdgeIn(ctx context.Context, links int, dir, journal string, flags ...string) (*target, error) {
	args := []string{"-kind", kindEdge, "-dir", dir, "-journal", journal, "-ship", l.sink.url, "-links", fmt.Sprint(links), "-targets", l.o.Targets}
	if l.source != nil {
		args = append(args, "-source", "http://"+l.source.addr)
	}
	return l.startSelf(ctx, append(args, flags...)...)
}

// external is a program that is not this one.
type external struct {
	name  string
	args  []string
	ready func(ctx context.Context) error // is called until it gives nil
	grace time.Duration                   // for that
	env   []string
}

// start runs the program, and waits until it answers. Its output is shown only when
// it does not.
func (e external) start(ctx context.Context, dir string) (_ *target, err error) {
	log, err := os.Create(filepath.Join(dir, filepath.Base(e.name)+".log"))
	if err != nil {
		return nil, fmt.Errorf("making a log: %w", err)
	}
	cmd := exec.CommandContext(ctx, e.name, e.args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.Env = log, log, dir, append(os.Environ(), e.env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", e.name, err), log.Close())
	}
	var status error // says nothing once it was sent a signal
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		status = cmd.Wait()
	}()
	t := &target{pids: []int{cmd.Process.Pid}, closed: func() error {
		err := cmd.Process.Signal(os.Interrupt)
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
