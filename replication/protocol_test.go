package replication_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/replication"
	"waypost/replication/replicationtest"
)

func TestFollower_RefusesAnotherVersionOfTheProtocol(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		n.serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", replication.ContentType)
			_, _ = w.Write(replication.Frame(1, 0, []byte{2, 0, 1, 2, 3})) // a hello of version 2
		}))
		err := replication.Follow(t.Context(), replication.FollowConfig{
			URL: "http://source", Sink: replicationtest.NewSink(), Client: n.client(t), Logger: slog.New(slog.DiscardHandler),
			Fatal: func(error) bool { return true },
		})
		require.ErrorIs(t, err, replication.ErrProtocol)
		require.ErrorContains(t, err, "it speaks 2, this node 1")
	})
}

func TestFollower_LogsWhyItIsSentAway(t *testing.T) {
	var log bytes.Buffer
	bubble(t, func(t *testing.T) {
		source := replicationtest.NewSource()
		server, err := replication.NewServer(replication.ServerConfig{Source: source, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- server.Run(running) }()
		var end atomic.Pointer[context.CancelCauseFunc] // of the newest stream
		var shut atomic.Bool
		n := newNetwork()
		n.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if shut.Load() {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusForbidden)
				_, _ = w.Write([]byte(`{"detail": "make a\u001b token"}`))
				return
			}
			ctx, cancel := context.WithCancelCause(r.Context())
			defer cancel(nil)
			if r.URL.Path == replication.PathSnapshot {
				server.Snapshot(w, r)
				return
			}
			end.Store(&cancel)
			server.Stream(w, r.WithContext(ctx))
		}))
		e := follow(t, n, func(c *replication.FollowConfig) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		source.Commit(replicationtest.Link("code0001", "https://example.com/1"))
		e.requireEqual(t, source)
		shut.Store(true)
		at := time.Now()
		(*end.Load())(&replication.EndError{Text: "you are\nrevoked"})
		synctest.Wait()
		require.Zero(t, time.Since(at), "at once")
		require.False(t, e.Status().Connected)
		require.ErrorContains(t, e.Status().Err, "said bye: you are revoked")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.ErrorIs(t, e.Status().Err, replication.ErrUnauthorized)
		require.ErrorContains(t, e.Status().Err, "(HTTP 403): make a  token")
		require.EqualValues(t, 1, e.Status().Position.Seq, "what it has it keeps")
		stop()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}
