package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// hangups returns the SIGHUPs of a server. A SIGHUP that comes because the terminal was
// closed ends the context instead. The caller has to call stop.
func (p serverCommands) hangups(ctx context.Context) (_ context.Context, requests <-chan os.Signal, stop func()) {
	signal.Reset(syscall.SIGHUP) // SIGHUP stops other commands
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ctx, requests, end := p.divide(ctx, hangups)
	return ctx, requests, func() { signal.Stop(hangups); end() }
}

// ignoreHangups logs each SIGHUP that asks for something. The caller has to call stop.
func (p serverCommands) ignoreHangups(ctx context.Context, log *slog.Logger) (_ context.Context, stop func()) {
	ctx, requests, end := p.hangups(ctx)
	logging, done := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-logging.Done():
				return
			case <-requests:
				log.Warn("ignoring SIGHUP: a control plane reads its configuration only when it starts, and certificates when their files change")
			}
		}
	})
	return ctx, func() { done(); running.Wait(); end() }
}

// divide passes hangups on, unless one comes because the terminal was closed. The caller
// has to call stop.
func (p serverCommands) divide(ctx context.Context, hangups <-chan os.Signal) (_ context.Context, requests <-chan os.Signal, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	passed, had := make(chan os.Signal, 1), p.interactive()
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case sig := <-hangups:
				if had && !p.interactive() {
					cancel()
					return
				}
				select {
				case passed <- sig:
				default: // asked for already
				}
			}
		}
	})
	return ctx, passed, func() { cancel(); running.Wait() }
}
