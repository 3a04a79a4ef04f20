package node

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/replication"
	"waypost/replication/replicationtest"
)

func TestAFollowerThatIsHeldAppliesNothingUntilItMayGoOn(t *testing.T) {
	source, sink := replicationtest.NewSource(), replicationtest.NewSink()
	server, err := replication.NewServer(replication.ServerConfig{Source: source})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	serving, following := make(chan error, 1), make(chan error, 1)
	go func() { serving <- server.Run(ctx) }()
	var connections atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc(replication.PathStream, func(w http.ResponseWriter, r *http.Request) { connections.Add(1); server.Stream(w, r) })
	mux.HandleFunc(replication.PathSnapshot, server.Snapshot)
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)

	f, err := newFollowing(true, replication.Status{}, func(replication.Status) (*replication.Follower, error) {
		return replication.NewFollower(replication.FollowConfig{URL: web.URL, Sink: sink, Silence: time.Minute})
	})
	require.NoError(t, err)
	go func() { following <- f.run(ctx) }()
	await := func(seq uint64) {
		t.Helper()
		require.Eventually(t, func() bool { return f.Status().Connected && f.Status().Position.Seq == seq }, 60*time.Second, time.Millisecond)
	}
	source.Commit(replicationtest.Link("code0001", "https://example.com/1"))
	require.Zero(t, connections.Load(), "it begins held")
	f.resume()
	f.resume() // once more is once
	await(1)
	for seq := uint64(2); seq < 5; seq++ {
		require.NoError(t, f.hold(t.Context()))
		before := connections.Load()
		source.Commit(replicationtest.Link("code0001", "https://example.com/2"))
		require.Equal(t, seq-1, sink.Position().Seq)
		require.Equal(t, before, connections.Load())
		f.resume()
		await(seq)
	}

	ended, stop := context.WithCancel(t.Context())
	stop()
	if err := f.hold(ended); err != nil {
		require.ErrorIs(t, err, context.Canceled)
	} else {
		f.resume() // it was held before the end was seen
	}
	source.Commit(replicationtest.Link("code0001", "https://example.com/3"))
	await(5)
	cancel()
	require.ErrorIs(t, <-following, context.Canceled)
	require.ErrorIs(t, <-serving, context.Canceled)
}
