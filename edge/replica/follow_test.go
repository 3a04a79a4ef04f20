package replica_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// following runs a follower of url into db until stop is called.
func following(t *testing.T, url string, db *replica.DB) (stop func()) {
	t.Helper()
	return run(t, func(ctx context.Context) error {
		return replication.Follow(ctx, replication.FollowConfig{URL: url, Sink: db, Logger: slog.New(slog.DiscardHandler), Silence: time.Hour})
	})
}

func run(t *testing.T, follow func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- follow(ctx) }()
	return func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

// serve serves a source until the test ends. Requests for which admit returns a status
// get that status.
func serve(t *testing.T, s replication.Source, admit func(*http.Request) (status int)) (url string) {
	t.Helper()
	cfg := replication.ServerConfig{Source: s, ServerLimits: replication.ServerLimits{Heartbeat: 50 * time.Millisecond}}
	return serveWith(t, cfg, admit)
}

func serveWith(t *testing.T, cfg replication.ServerConfig, admit func(*http.Request) (status int)) (url string) {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	_, relays := cfg.Source.(replication.Relay)
	if relays {
		cfg.Via = func() []string { return []string{"relay"} }
	}
	server, err := replication.NewServer(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- server.Run(ctx) }()
	if !relays { // which may hold nothing yet; all others are ready before the first request
		until(t, "the server is ready", func() bool {
			w := httptest.NewRecorder()
			server.Sums(w, httptest.NewRequestWithContext(ctx, http.MethodGet, replication.PathSums+"?first=4095", http.NoBody))
			return w.Code != http.StatusServiceUnavailable
		})
	}
	mux := http.NewServeMux()
	for path, h := range map[string]http.HandlerFunc{
		replication.PathStream: server.Stream, replication.PathSnapshot: server.Snapshot, replication.PathSums: server.Sums,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if admit != nil {
				if status := admit(r); status != 0 {
					http.Error(w, "no", status)
					return
				}
			}
			h(w, r)
		})
	}
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ran, context.Canceled)
		require.NoError(t, server.Drain(context.WithoutCancel(t.Context())))
		web.Close()
	})
	return web.URL
}

func TestDB_FollowsOverHTTPAcrossRestarts(t *testing.T) {
	s := replicationtest.NewSource()
	web := serve(t, s, nil)

	cfg := replica.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}
	for run := range 3 {
		db, err := replica.Open(cfg)
		require.NoError(t, err)
		require.Equal(t, run == 0, db.Position().IsZero())
		store := ""
		if run > 0 {
			store = db.LiveStore()
		}
		stop := following(t, web, db)
		for i := range 100 {
			s.Commit(replicationtest.Link(fmt.Sprintf("code%03d", i), fmt.Sprintf("https://%d.example/", run)))
		}
		head, err := s.Head(t.Context())
		require.NoError(t, err)
		require.Eventually(t, func() bool { return db.Position() == head.Position }, 60*time.Second, time.Millisecond)
		replicationtest.RequireEqual(t, s, db)
		if run > 0 {
			require.Equal(t, store, db.LiveStore(), "it continued from its position")
		}
		stop()
		require.NoError(t, db.Close())
	}
}

func TestDB_TakesManyLargeBatches(t *testing.T) {
	db, s := filled(t, replica.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for round := range 100 { // past every size that a memtable grows through
		s.Commit(big(12, round)...)
		b := replicationtest.Next(t, s, db)
		require.NoError(t, db.Apply(ctx, &b))
	}
}
