// Package services runs the services of a process: it starts them in the order of a list,
// and stops them in the reverse order.
package services

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
)

// Service is one part of a process, such as a listener or a background job.
type Service struct {
	Name string // for the log

	// Run works until its context ends. An error before that stops all services, and
	// returning nil stops none. A nil Run means that there is only something to stop.
	Run func(ctx context.Context) error

	// Stop asks Run to finish, or does the remaining work at the end. The context of Run
	// ends when Stop has returned. The context of Stop never ends.
	Stop func(ctx context.Context) error
}

// Stage holds services that stop at the same time. A stage begins to stop when all
// services of the stages after it have ended.
type Stage []Service

// ErrStop is returned by a service to stop all services without a failure.
var ErrStop = errors.New("stop all services")

// Run starts all services, and stops them when ctx ends or one of them fails. It returns
// when all have ended, with the errors of the failed ones.
func Run(ctx context.Context, log *slog.Logger, stages ...Stage) error {
	lasting := context.WithoutCancel(ctx)
	ctx, end := context.WithCancel(ctx)
	defer end()
	var started [][]*process
	for _, stage := range stages {
		var processes []*process
		for _, s := range stage {
			processes = append(processes, start(lasting, s, end))
		}
		started = append(started, processes)
	}
	<-ctx.Done()
	var errs []error
	for _, processes := range slices.Backward(started) {
		var stopping sync.WaitGroup
		for _, p := range processes {
			stopping.Go(func() { p.stop(lasting, log) })
		}
		stopping.Wait()
		for _, p := range processes {
			errs = append(errs, p.err)
		}
	}
	return errors.Join(errs...)
}

// process is a service that was started.
type process struct {
	Service
	cancel context.CancelFunc
	ended  chan struct{} // closed when Run has returned
	err    error         // of Run; valid when ended is closed
}

func start(ctx context.Context, s Service, fail func()) *process {
	p := &process{Service: s, ended: make(chan struct{})}
	ctx, p.cancel = context.WithCancel(ctx)
	if s.Run == nil {
		close(p.ended)
		return p
	}
	go func() {
		defer close(p.ended)
		err := s.Run(ctx)
		if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return
		}
		if !errors.Is(err, ErrStop) {
			p.err = err
		}
		fail()
	}()
	return p
}

func (p *process) stop(ctx context.Context, log *slog.Logger) {
	var err error
	if p.Stop != nil {
		err = p.Stop(ctx)
	}
	p.cancel()
	<-p.ended
	p.err = errors.Join(p.err, err)
	log.Debug("ended a service", "service", p.Name)
}
