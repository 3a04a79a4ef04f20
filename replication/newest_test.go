package replication_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/replication"
	"waypost/replication/replicationtest"
)

// doubting is a sink that finds out about itself, when it is told to, that it differs.
type doubting struct {
	*replicationtest.Sink
	doubts chan struct{}
}

func (s doubting) Apply(ctx context.Context, b *replication.Batch) error {
	select {
	case <-s.doubts:
		return replication.ErrDiverged
	default:
		return s.Sink.Apply(ctx, b)
	}
}

// A follower takes no slots of a head that is older than the newest one that it has seen
// signed. The stream's hello and heartbeats may be that old.
func TestSlotsComeWithANewerHeadThanTheHeartbeats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source, kept := replicationtest.NewSource(), &trustFile{}
		source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		w := signing(t, source, 1, func(c *replication.ServerConfig) { c.Heartbeat = time.Hour })
		sink := doubting{replicationtest.NewSink(), make(chan struct{}, 1)}
		e := follow(t, w.network, func(c *replication.FollowConfig) {
			c.Sink, c.Trust, c.Silence = sink, kept.trust(t), 24*time.Hour
		})
		e.sink = sink.Sink
		e.requireEqual(t, source)
		source.Commit(replicationtest.Link("bbbb", "https://b.example/"))
		e.requireEqual(t, source)

		sink.doubts <- struct{}{}
		at := source.Commit(replicationtest.Link("cccc", "https://c.example/"))
		e.await(t, at)
		e.requireEqual(t, source)
		require.Equal(t, 2, e.Status().Snapshots)
		require.Less(t, time.Since(e.Status().HeardAt), time.Minute)
	})
}

// stuck is a source whose head is not told for a while, as when PostgreSQL hangs.
type stuck struct {
	*replicationtest.Source
	until chan struct{} // nil: it is told
}

func (s *stuck) Head(ctx context.Context) (replication.Head, error) {
	select {
	case <-s.until:
	case <-ctx.Done():
		return replication.Head{}, ctx.Err()
	}
	return s.Source.Head(ctx)
}

func TestASourceThatHangsKeepsNobodyWaitingForSlotsSoLongThatHeGoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source := &stuck{replicationtest.NewSource(), make(chan struct{}, 1)}
		at := source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		source.until <- struct{}{} // once: for the server to begin with
		w := newWorld(t, func(c *replication.ServerConfig) { c.Source = source })
		synctest.Wait()
		e := follow(t, w.network, nil)
		e.await(t, at)
		require.NoError(t, e.Status().Err)
		require.InDelta(t, 1, w.metric("snapshots_total"), 0)
	})
}
