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

// source gives an edge snapshots, as a control plane or another edge does. It makes one, for the first who asks, and sends the same bytes to
// all others: making them is another machine's work, and here it would take the client's processor.
type source struct {
	db     *replica.DB
	server *replication.Server
	web    *http.Server

	mu     sync.Mutex
	header http.Header
	made   []byte // nil: none was asked for yet
}

func newSource(o serveOptions) (_ app, err error) {
	s := &source{}
	if s.db, err = openReplica(o.Dir, 0, nil); err != nil {
		return app{}, err
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

func (s *source) Serve(ln net.Listener) error {
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.server.Run(ctx) }()
	err := s.web.Serve(ln)
	cancel()
	<-ran //nolint:errcheck // that it was cancelled
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown cuts off who follows.
func (s *source) Shutdown(context.Context) error { return s.web.Close() }

func (s *source) snapshot(w http.ResponseWriter, r *http.Request) {
	if first := r.URL.Query().Get("first"); first != "" && first != "0" {
		s.server.Snapshot(w, r) // somebody goes on
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
	_, _ = w.Write(s.made) // or whoever asked is gone
}

// recording keeps what is answered.
type recording struct {
	http.ResponseWriter
	made bytes.Buffer
	err  error // whoever asked is gone
}

func (r *recording) Write(b []byte) (int, error) {
	r.made.Write(b)
	n, err := r.ResponseWriter.Write(b)
	r.err = errors.Join(r.err, err)
	return n, err
}

// Unwrap is for http.ResponseController.
func (r *recording) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// afresh is a replica of which its follower thinks that it is empty.
type afresh struct{ *replica.DB }

func (afresh) Cluster() (replication.Cluster, bool) { return replication.Cluster{}, false }

func (afresh) Position() waypost.Position { return waypost.Position{} }

// takeSnapshot installs a snapshot of the source in the place of what the edge has, while that serves.
func (e *edgeApp) takeSnapshot(ctx context.Context) error {
	const look = 2 * time.Millisecond
	f, err := replication.NewFollower(replication.FollowConfig{
		URL: e.o.Source, Sink: afresh{e.replica},
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
			return fmt.Errorf("following: %w", err)
		case <-tick.C:
		}
		status := f.Status()
		if status.Failures > 0 {
			err = fmt.Errorf("taking a snapshot: %w", status.Err)
		}
		if status.Snapshots > 0 || err != nil {
			cancel()
			<-ended //nolint:errcheck // that it was cancelled
			return err
		}
	}
}
