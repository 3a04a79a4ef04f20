package replication_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/replication"
	"waypost/replication/replicationtest"
)

func TestTheHighestVersionThatBothSpeakIsChosen(t *testing.T) {
	server, err := replication.NewServer(replication.ServerConfig{Source: replicationtest.NewSource(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		source   []uint16
		follower string // "": it says nothing
		chosen   string
		detail   string // of the refusal; "": there is none
	}{
		"the same":                      {[]uint16{1}, "1", "1", ""},
		"from before it was asked":      {[]uint16{1}, "", "1", ""},
		"of the future, and compatible": {[]uint16{1}, "1, 2,3", "1", ""},
		"both of several":               {[]uint16{1, 2, 3}, "2,1", "2", ""},
		"of the future":                 {[]uint16{1}, "2, 3", "1", "the source speaks version 1 of the replication protocol, and the follower 2, 3: upgrade the source, which is the control plane"},
		"of the past":                   {[]uint16{2, 3}, "", "2, 3", "the source speaks version 2, 3 of the replication protocol, and the follower 1: upgrade the follower, which is the edge"},
		"of both":                       {[]uint16{2}, "1,3", "2", "the source speaks version 2 of the replication protocol, and the follower 1, 3: upgrade the older of the two"},
		"of nothing":                    {[]uint16{1}, "latest", "1", "the source speaks version 1 of the replication protocol, and the follower : it names none that can be read"},
	} {
		for path, handler := range map[string]http.HandlerFunc{replication.PathStream: server.Stream, replication.PathSnapshot: server.Snapshot, replication.PathSums: server.Sums} {
			t.Run(name+path, func(t *testing.T) {
				server.Speak(c.source...)
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
				if c.follower != "" {
					r.Header.Set(replication.HeaderProtocol, c.follower)
				}
				w := httptest.NewRecorder()
				handler(w, r)
				require.Equal(t, c.chosen, w.Header().Get(replication.HeaderProtocol))
				if c.detail == "" {
					require.Equal(t, http.StatusServiceUnavailable, w.Code, "it got as far as to learn that nothing runs here")
					return
				}
				require.Equal(t, http.StatusNotAcceptable, w.Code)
				require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
				var problem map[string]any
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &problem))
				require.Equal(t, map[string]any{
					"type": "urn:waypost:problem:protocol", "title": "No version of the protocol in common", "status": 406.0, "detail": c.detail,
				}, problem)
			})
		}
	}
}

func TestAFollowerThatSharesNoVersionSaysWhichIsToBeUpgraded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		follow := func(fatal bool, versions ...uint16) *replication.Follower {
			f, err := replication.NewFollower(replication.FollowConfig{
				URL: "http://source", Sink: replicationtest.NewSink(), Client: w.client(t), Logger: slog.New(slog.DiscardHandler),
				Fatal: func(error) bool { return fatal },
			})
			require.NoError(t, err)
			f.Speak(versions...)
			return f
		}
		err := follow(true, 2).Run(t.Context())
		require.ErrorIs(t, err, replication.ErrProtocol)
		require.ErrorContains(t, err, "the source speaks version 1 of the replication protocol, and the follower 2: upgrade the source")

		future := follow(false, 1, 2)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- future.Run(ctx) }()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.True(t, future.Status().Connected, "a follower of the future that still speaks version 1 follows")
		stop()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

func TestAFollowerThatIsSentAwayIsToldWhy(t *testing.T) {
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
