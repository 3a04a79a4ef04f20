//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
)

func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// serve serves a source over HTTP until stop is called.
func serve(ctx context.Context, s replication.Source) (url string, stop func() error, err error) {
	server, err := replication.NewServer(replication.ServerConfig{Source: s, Logger: quiet()})
	if err != nil {
		return "", nil, err
	}
	var listening net.ListenConfig
	ln, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listening: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+replication.PathStream, server.Stream)
	mux.HandleFunc("GET "+replication.PathSnapshot, server.Snapshot)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	ctx, cancel := context.WithCancel(ctx)
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- server.Run(ctx) }()
	go func() { served <- web.Serve(ln) }()
	return "http://" + ln.Addr().String(), func() error {
		cancel()
		<-ran //nolint:errcheck // that it was cancelled
		err := web.Close()
		<-served //nolint:errcheck // that it was closed
		return err
	}, nil
}

// follower is a replica that follows a source.
type follower struct {
	*replica.DB
	dir    string
	cancel context.CancelFunc
	ended  chan error
}

// follow begins an empty replica that follows.
func (l *lab) follow(ctx context.Context, url string) (*follower, error) {
	dir, err := os.MkdirTemp(l.dir, "replica-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	db, err := replica.Open(replica.Config{Dir: filepath.Join(dir, "replica"), Logger: quiet()})
	if err != nil {
		return nil, err
	}
	f := &follower{DB: db, dir: dir}
	f.refollow(ctx, url)
	return f, nil
}

// await waits until the replica is at a position, or beyond.
func (f *follower) await(ctx context.Context, p waypost.Position) error {
	for at := f.Position(); at.Epoch != p.Epoch || at.Seq < p.Seq; at = f.Position() {
		select {
		case err := <-f.ended:
			return fmt.Errorf("following: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Microsecond):
		}
	}
	return nil
}

// leave ends following; the replica stays open.
func (f *follower) leave() {
	f.cancel()
	<-f.ended //nolint:errcheck // that it was cancelled
}

func (f *follower) remove() error {
	return errors.Join(f.Close(), os.RemoveAll(f.dir))
}

// refollow follows a source, of the history of the one before.
func (f *follower) refollow(ctx context.Context, url string) {
	ctx, f.cancel = context.WithCancel(ctx)
	f.ended = make(chan error, 1)
	go func() {
		f.ended <- replication.Follow(ctx, replication.FollowConfig{URL: url, Sink: f.DB, Logger: quiet(), BackoffMin: time.Millisecond})
	}()
}
