package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/internal/datadir"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// counted is a changelog in memory.
type counted struct{ *replicationtest.Source }

func (counted) Count(context.Context) (uint64, error) { return 0, nil }

// gated is a changelog without news while it is shut.
type gated struct {
	counted
	shut atomic.Bool
}

func (g *gated) Read(ctx context.Context, after waypost.Position, maxRecords int) (replication.Batch, error) {
	if g.shut.Load() {
		return replication.Batch{Epoch: after.Epoch, AtHead: true}, nil
	}
	return g.counted.Read(ctx, after, maxRecords)
}

// serveSource serves a source until the test ends.
func serveSource(t *testing.T, source replication.Source) *replication.Server {
	t.Helper()
	server, err := replication.NewServer(replication.ServerConfig{
		Source: source, Logger: slog.New(slog.DiscardHandler), ServerLimits: replication.ServerLimits{Heartbeat: 50 * time.Millisecond},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		if err := server.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); work.Wait() })
	return server
}

// openOwn opens an own replica that follows a source until the test ends. Ranges returns
// how many ranges of slots came from it.
func openOwn(t *testing.T, source replication.Source) (own *ownReplica, ranges func() float64) {
	t.Helper()
	dir, err := datadir.Open(t.TempDir(), datadir.Control, 0o700)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dir.Close()) })
	require.NoError(t, os.WriteFile(dir.Path("replica.key"), []byte("torn"), 0o600)) // which is no reason to have none
	registry := prometheus.NewRegistry()
	own, err = openOwnReplica(dir, "control-eu", "eu", slog.New(slog.DiscardHandler), registry)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, own.close()) })
	stream := serveSource(t, source)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { own.run(ctx, stream) })
	t.Cleanup(func() { cancel(); work.Wait() })
	return own, func() float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "waypost_replica_snapshot_ranges_total" {
				return f.GetMetric()[0].GetCounter().GetValue()
			}
		}
		require.FailNow(t, "there is no such metric")
		return 0
	}
}

func TestChangelog_ServesNoSlotsFromBeforeItsHead(t *testing.T) {
	const last, limit = waypost.Slots - 1, time.Minute
	until := func(is func() bool) {
		t.Helper()
		require.Eventually(t, is, limit, time.Millisecond)
	}
	source := counted{replicationtest.NewSource()}
	commit := func(n int) waypost.Position {
		return source.Commit(replicationtest.Link(fmt.Sprintf("code%d", n), "https://example.com/"))
	}
	behind := &gated{counted: source}
	own, ranges := openOwn(t, behind)
	c := &changelog{origin: source, own: own, wait: time.Millisecond}
	at := commit(1)
	until(func() bool { return own.db.Position() == at })
	until(func() bool { // the replica may not be verified yet
		head, err := c.Snapshot(t.Context(), 0, last, func([]byte) error { return nil })
		return err == nil && head.Position == at && ranges() > 0
	})

	behind.shut.Store(true)
	at = commit(2)
	before, records := ranges(), 0
	head, err := c.Snapshot(t.Context(), 0, last, func([]byte) error { records++; return nil })
	require.NoError(t, err)
	require.Equal(t, at, head.Position, "that of PostgreSQL")
	require.Equal(t, 2, records)
	sink, ctx := replicationtest.NewSink(), t.Context()
	routes := http.NewServeMux()
	server := serveSource(t, c)
	routes.HandleFunc(replication.PathStream, server.Stream)
	routes.HandleFunc(replication.PathSnapshot, server.Snapshot)
	web := httptest.NewServer(routes)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	edge, err := replication.NewFollower(replication.FollowConfig{URL: web.URL, Sink: sink, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	following, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { _ = edge.Run(following) }) // until its context ends
	t.Cleanup(func() { stop(); work.Wait() })
	until(func() bool { return sink.Position() == at })
	require.Equal(t, 1, sink.Restores(), "at the first try")
	require.NotEqual(t, at, own.db.Position())
	require.InDelta(t, before, ranges(), 0)

	patient := &changelog{origin: source, own: own, wait: limit}
	asked := make(chan replication.Head, 1)
	work.Go(func() {
		head, err := patient.Snapshot(ctx, 0, last, func([]byte) error { return nil })
		if err != nil {
			t.Error(err)
		}
		asked <- head
	})
	behind.shut.Store(false)
	require.Equal(t, at, (<-asked).Position)
	require.InDelta(t, before+1, ranges(), 0, "from the replica, which has come there")
}
