package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/edge/server"
	"waypost/edge/sources"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// rolledBack leaves a replica in a directory that has lost its newest table: the MANIFEST
// is cut by a byte. The position is newer than that table.
func rolledBack(t *testing.T, source *replicationtest.Source) (cfg replica.Config) {
	t.Helper()
	cfg = replica.Config{Dir: t.TempDir(), CacheBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler)}
	at := func(change func(*replica.DB)) {
		db, err := replica.Open(cfg)
		require.NoError(t, err)
		change(db)
		require.NoError(t, db.Close())
	}
	apply := func(db *replica.DB, links ...waypost.Record) {
		source.Commit(links...)
		b := replicationtest.Next(t, source, db)
		require.NoError(t, db.Apply(t.Context(), &b))
	}
	var links []waypost.Record
	for i := range 100 {
		links = append(links, replicationtest.Link(fmt.Sprintf("code%04d", i), "https://example.com/"))
	}
	at(func(db *replica.DB) {
		source.Commit(links...)
		replicationtest.Take(t, source, db)
		gone := replicationtest.Link("code0007", "")
		gone.State = waypost.Deleted
		apply(db, gone)
	})
	at(func(db *replica.DB) { apply(db, replicationtest.Link("newest", "https://example.com/")) }) // the first WAL is gone
	manifests, err := filepath.Glob(cfg.Dir + "/store-*/MANIFEST-*")
	require.NoError(t, err)
	last := slices.Max(manifests)
	raw, err := os.ReadFile(last)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(last, raw[:len(raw)-1], 0o600))
	return cfg
}

func TestEdgeNode_ADamagedReplicaIsStaleUntilItIsRepaired(t *testing.T) {
	source := replicationtest.NewSource()
	db, err := replica.Open(rolledBack(t, source))
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	s := &store{node: "e1", config: replica.Config{Logger: log}, log: log}
	s.DB = db
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	e := &edge{
		clicks: &recorder{},
		store:  s, log: log, gossip: &gossiper{}, registry: prometheus.NewRegistry(), freshness: freshness{start: time.Now()},
		cfg: Config{Server: server.Config{MaxStaleness: time.Hour}},
	}
	web := httptest.NewServer(changelogServer(t, replication.ServerConfig{Source: source}))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	home := replication.FollowConfig{URL: web.URL, Sink: s, Silence: time.Minute, Logger: log}
	e.sources = sources.New(sources.Config{URLs: []string{web.URL}, Follow: home})
	e.following, err = newFollowing(replication.Status{}, func(replication.Status) (*replication.Follower, error) {
		return replication.NewFollower(home)
	})
	require.NoError(t, err)
	status := func() readiness {
		t.Helper()
		detail, serves := e.ready(t.Context())
		require.True(t, serves, "most links are right")
		return detail.(readiness) //nolint:forcetypeassert // it is one
	}

	require.Eventually(t, func() bool { return status().Status == "stale" }, time.Minute, time.Millisecond)
	now := status()
	require.Contains(t, now.Degraded, "the records on disk are")
	require.Nil(t, now.Lag)
	require.Empty(t, now.Position, "no write counts on it")
	require.True(t, s.Synced().IsZero())
	require.Equal(t, "degraded", e.state().Replica)
	require.Greater(t, e.staleness(), time.Hour, "visitors are told")
	require.Zero(t, testing.AllocsPerRun(10, func() { e.staleness() }), "redirects ask")

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = e.following.run(ctx) }() // nothing is fatal
	t.Cleanup(func() { cancel(); <-ended })
	require.Eventually(t, func() bool {
		e.freshness.noteStatus(e.followed())
		st := status()
		return st.Status == "ready" && st.Connected && st.Lag != nil
	}, time.Minute, time.Millisecond)
	now = status()
	require.Equal(t, 1, now.Repairs)
	require.Zero(t, *now.Lag)
	require.Equal(t, "following", e.state().Replica)
	require.Less(t, e.staleness(), time.Hour)
	var rec waypost.Record
	_, found, err := s.Link(waypost.DefaultDomain, []byte("code0007"), nil, &rec)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, waypost.Deleted, rec.State)
}
