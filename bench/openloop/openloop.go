//go:build linux

// Package openloop sends HTTP requests at fixed times, regardless of the answers, and
// measures from the time at which a request was due. A server that stalls is charged with
// all requests that come meanwhile, and not only with those of a client in a closed loop
// (coordinated omission).
//
// It sends one request at a time on a connection, after one that is not counted; when all
// connections are busy, requests wait their turn with their clock running. One thread
// does all the work, with epoll and timers of nanoseconds, because Go's own timers are
// coarser than the measured times. On a processor of its own the thread need not sleep,
// so that neither falling asleep nor waking up is measured.
package openloop

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// Config is one run.
type Config struct {
	Addr        string  // IPv4 address and port
	Rate        float64 // requests per second, evenly spaced
	Connections int     // 1 to 4096
	Duration    time.Duration
	Drain       time.Duration                  // how long to wait for the last answers; 10 s
	Request     func(dst []byte, n int) []byte // appends request number n
	Status      int                            // that every answer must have
	Awake       bool                           // it never sleeps: it has a processor of its own
}

// maxRequests bounds what a run keeps in memory.
const maxRequests = 50_000_000

// Run makes one run. An answer that is wrong, or does not come, is an error.
func Run(ctx context.Context, c Config) (*Result, error) {
	total := int(c.Rate * c.Duration.Seconds())
	if total < 1 || total > maxRequests || c.Connections < 1 || c.Connections > 4096 {
		return nil, fmt.Errorf("a run of %d requests over %d connections", total, c.Connections)
	}
	if c.Drain == 0 {
		c.Drain = 10 * time.Second
	}
	// The thread's timers are made exact; it ends with the goroutine.
	done := make(chan error, 1)
	result := &Result{waits: make([]time.Duration, 0, total), late: make([]time.Duration, 0, total)}
	// No garbage is collected meanwhile, because a pause of the client would look like
	// one of the server.
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	go func() {
		runtime.LockOSThread()
		done <- c.run(ctx, total, result)
	}()
	if err := <-done; err != nil {
		return nil, err
	}
	return result, nil
}

func (c Config) run(ctx context.Context, total int, result *Result) (err error) {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("making timers exact: %w", err)
	}
	l, err := newLoop(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	l.result = result
	if err := l.greet(ctx); err != nil {
		return err
	}
	return l.run(ctx, total)
}
