package node

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/edge/sources"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// withheld is a source that sends slots only once it is allowed to.
type withheld struct {
	*replicationtest.Source
	allowed chan struct{}
}

func (s withheld) Snapshot(ctx context.Context, first, last uint16, visit func([]byte) error) (h replication.Head, err error) {
	select {
	case <-s.allowed:
		return s.Source.Snapshot(ctx, first, last, visit)
	case <-ctx.Done():
		return h, ctx.Err()
	}
}

func TestEdgeNode_ReportsThatItsSourceIsBusy(t *testing.T) {
	source := withheld{replicationtest.NewSource(), make(chan struct{})}
	web := httptest.NewServer(changelogServer(t, replication.ServerConfig{
		Source: source, ServerLimits: replication.ServerLimits{MaxSnapshots: 1},
	}))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	until := func(is func() bool) {
		t.Helper()
		require.Eventually(t, is, 60*time.Second, time.Millisecond)
	}
	first, _ := followerOf(t, web.URL, replicationtest.NewSink(), nil)
	until(func() bool { return first.Status().Restoring && !first.Status().HeardAt.IsZero() })

	log := slog.New(slog.DiscardHandler)
	e := &edge{
		clicks: &recorder{}, store: relayed(t), log: log, gossip: &gossiper{}, registry: prometheus.NewRegistry(),
		freshness: freshness{start: time.Now()},
	}
	home := replication.FollowConfig{URL: web.URL, Sink: e.store, Silence: time.Minute, Logger: log}
	e.sources = sources.New(sources.Config{URLs: []string{web.URL}, Follow: home})
	var err error
	e.following, err = newFollowing(replication.Status{}, func(replication.Status) (*replication.Follower, error) {
		return replication.NewFollower(home)
	})
	require.NoError(t, err)
	e.registerMetrics()
	waits := func() (waits float64) {
		families, err := e.registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "waypost_replica_waits" {
				waits = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return waits
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.following.run(ctx) }()
	until(func() bool { return e.following.Status().Wait.Waits() })
	detail, _ := e.ready(t.Context())
	status, ok := detail.(readiness)
	require.True(t, ok)
	require.True(t, status.Restoring)
	require.Positive(t, status.WaitSeconds)
	require.Equal(t, "waiting", e.state().Replica)
	require.EqualValues(t, 1, waits())

	close(source.allowed)
	until(func() bool { return e.following.Status().Connected })
	detail, _ = e.ready(t.Context())
	status, ok = detail.(readiness)
	require.True(t, ok)
	require.Zero(t, status.WaitSeconds)
	require.Equal(t, "following", e.state().Replica)
	require.Zero(t, waits())

	lag := func(age time.Duration) *uint64 {
		e.freshness.at.Store(int64(time.Since(e.freshness.start) - age))
		detail, _ := e.ready(t.Context())
		status, ok := detail.(readiness)
		require.True(t, ok)
		return status.Lag
	}
	until(func() bool { return lag(0) != nil && *lag(0) == 0 })
	require.Nil(t, lag(maxAge+time.Second), "it has not heard what it lacks")
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}
