package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"waypost/internal/failpoint"
)

// process is a running part of the system.
type process interface {
	PID() int
	// Done is closed when the process has ended; Err then says how.
	Done() <-chan struct{}
	Err() error
	// Stop ends the process, cleanly while ctx lasts and by force after it, and
	// waits for its end.
	Stop(ctx context.Context) error
}

// keeper keeps one process running: begin, then end. It owns one goroutine.
type keeper struct {
	name    string
	start   func(ctx context.Context) (process, error)
	changed func(p process) error // p is nil while the process is down
	ended   func(err error)       // when the process ends unasked
	grace   time.Duration         // for a clean stop
	log     *slog.Logger

	stop    context.CancelFunc // nil before begin
	stopped chan error         // gets the outcome of the last stop

	mu  sync.Mutex
	now process // nil while down
}

func (s *system) keeper(
	name string, grace time.Duration, start func(context.Context) (process, error), changed func(process) error,
) *keeper {
	return &keeper{
		name: name, start: start, changed: changed, grace: grace,
		ended: func(err error) { s.noteEnd(name, err) }, log: s.log.With("process", name),
	}
}

// renew asks the process to restart, if it can.
func (k *keeper) renew() {
	p, ok := k.current().(interface{ Renew() error })
	if !ok {
		return // it is down, and starts again anyway
	}
	if err := p.Renew(); err != nil {
		k.log.Error("cannot ask the process to restart", "error", err)
	}
}

// startProcess starts the process for the first time; when that fails there is nothing
// to end. From then on it is started again whenever it dies.
func (k *keeper) startProcess(ctx context.Context) error {
	p, err := k.start(ctx)
	if err != nil {
		return err
	}
	if err := k.set(p); err != nil {
		return errors.Join(err, k.stopNow(ctx, p))
	}
	k.log.Info("started", "pid", p.PID())
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	k.stop, k.stopped = stop, make(chan error, 1)
	go func() { k.stopped <- k.keep(run, p) }()
	return nil
}

// stopProcess stops the process and waits for it.
func (k *keeper) stopProcess() error {
	if k.stop == nil {
		return nil
	}
	k.stop()
	return <-k.stopped
}

// current is the process, nil while it is down.
func (k *keeper) current() process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

func (k *keeper) set(p process) error {
	k.mu.Lock()
	k.now = p
	k.mu.Unlock()
	return k.changed(p)
}

func (k *keeper) keep(ctx context.Context, p process) error {
	for {
		select {
		case <-ctx.Done():
			return k.stopNow(ctx, p)
		case <-p.Done():
		}
		k.log.Error("process ended", "pid", p.PID(), "error", p.Err())
		k.tell(nil)
		k.ended(p.Err())
		if p = k.again(ctx); p == nil {
			return nil
		}
		k.log.Info("started again", "pid", p.PID())
		k.tell(p)
	}
}

// again starts the process until it runs, and returns it; nil once ctx has ended.
func (k *keeper) again(ctx context.Context) process {
	delay := failpoint.Limit("a process is down for", time.Second)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(delay):
		}
		p, err := k.start(ctx)
		if err == nil {
			return p
		}
		if ctx.Err() == nil {
			k.log.Error("cannot start the process", "error", err)
		}
	}
}

// tell is for changes without a waiter.
func (k *keeper) tell(p process) {
	if err := k.set(p); err != nil {
		k.log.Error("cannot write the state", "error", err)
	}
}

func (k *keeper) stopNow(ctx context.Context, p process) error {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.grace)
	defer cancel()
	if err := p.Stop(limit); err != nil {
		return fmt.Errorf("stop %s: %w", k.name, err)
	}
	k.log.Info("stopped")
	return nil
}
