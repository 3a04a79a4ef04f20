//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
)

// source serves snapshots to an edge, as a control plane or another edge does. It makes
// one for the first request and sends the same bytes to all others: making them is the
// work of another machine, and would take the client's processor here.
type source struct {
	db     *replica.DB
	server *replication.Server
	web    *http.Server

	mu     sync.Mutex
	header http.Header
	made   []byte // nil before the first request
}

func newSource(o serveOptions) (_ app, err error) {
	s := &source{}
	if s.db, err = openReplica(o.Dir, nil); err != nil {
		return app{}, err
	}
	if err := s.verified(context.Background()); err != nil {
		return app{}, errors.Join(err, s.db.Close())
	}
	if s.server, err = replication.NewServer(replication.ServerConfig{Source: s.db}); err != nil {
		return app{}, errors.Join(err, s.db.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+replication.PathStream, s.server.Stream)
	mux.HandleFunc("GET "+replication.PathSnapshot, s.snapshot)
	s.web = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return app{answering: s, close: s.db.Close}, nil
}

// verified waits until the replica has verified its records: before, it is no source.
func (s *source) verified(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		_, _, err := s.db.Sums(ctx, 0, 0)
		if !errors.Is(err, replication.ErrNoSource) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func (s *source) Serve(ln net.Listener) error {
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.server.Run(ctx) }()
	err := s.web.Serve(ln)
	cancel()
	<-ran //nolint:errcheck // it was cancelled
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown closes all connections.
func (s *source) Shutdown(context.Context) error { return s.web.Close() }

func (s *source) snapshot(w http.ResponseWriter, r *http.Request) {
	if first := r.URL.Query().Get("first"); first != "" && first != "0" {
		s.server.Snapshot(w, r) // a follower resumes
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil {
		made := &recording{ResponseWriter: w}
		s.server.Snapshot(made, r)
		if made.err == nil {
			s.header, s.made = w.Header().Clone(), made.made.Bytes()
		}
		return
	}
	for name, values := range s.header {
		w.Header()[name] = values
	}
	_, _ = w.Write(s.made) // or the follower is gone
}

// recording keeps a copy of the answer.
type recording struct {
	http.ResponseWriter
	made bytes.Buffer
	err  error // the follower is gone
}

func (r *recording) Write(b []byte) (int, error) {
	r.made.Write(b)
	n, err := r.ResponseWriter.Write(b)
	r.err = errors.Join(r.err, err)
	return n, err
}

// Unwrap is for http.ResponseController.
func (r *recording) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// seeminglyEmpty is a replica that its follower believes to be empty.
type seeminglyEmpty struct{ *replica.DB }

func (seeminglyEmpty) Cluster() (replication.Cluster, bool) { return replication.Cluster{}, false }

func (seeminglyEmpty) Position() waypost.Position { return waypost.Position{} }

// takeSnapshot replaces the links of the edge by a snapshot of the source while the edge
// serves.
func (e *edgeApp) takeSnapshot(ctx context.Context) error {
	const look = 2 * time.Millisecond
	f, err := replication.NewFollower(replication.FollowConfig{
		URL: e.o.Source, Sink: seeminglyEmpty{e.replica},
		SnapshotBackoffMin: time.Hour, SnapshotBackoffMax: time.Hour, // the replica seems empty after it, too
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("follow: %w", err)
		case <-tick.C:
		}
		status := f.Status()
		if status.Failures > 0 {
			err = fmt.Errorf("take a snapshot: %w", status.Err)
		}
		if status.Snapshots > 0 || err != nil {
			cancel()
			<-ended //nolint:errcheck // it was cancelled
			return err
		}
	}
}
