package replica_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// signed configures a server whose heartbeats and batches a control plane has signed.
func signed(t *testing.T, s *replicationtest.Source, heartbeat time.Duration) replication.ServerConfig {
	t.Helper()
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	signer, err := replication.NewSigner([32]byte{1: 7}, head.Cluster, 1)
	require.NoError(t, err)
	return replication.ServerConfig{Source: s, Signer: signer, ServerLimits: replication.ServerLimits{Heartbeat: heartbeat}}
}

// pinning returns a trust that has pinned nothing, and whose disk is never full.
func pinning(t *testing.T) *replication.Trust {
	t.Helper()
	trust, err := replication.NewTrust(nil, func([]byte) error { return nil })
	require.NoError(t, err)
	return trust
}

// follows runs a follower until the test ends.
func follows(t *testing.T, cfg replication.FollowConfig) *replication.Follower {
	t.Helper()
	cfg.Logger, cfg.Silence = slog.New(slog.DiscardHandler), time.Hour
	cfg.BackoffMin, cfg.SnapshotBackoffMin = time.Millisecond, time.Millisecond
	f, err := replication.NewFollower(cfg)
	require.NoError(t, err)
	t.Cleanup(run(t, f.Run))
	return f
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, 60*time.Second, time.Millisecond, what)
}

// hearing counts heartbeats.
type hearing struct {
	*replica.DB
	heartbeats atomic.Int64
}

func (h *hearing) Heartbeat(head replication.Head) error {
	h.heartbeats.Add(1)
	return h.DB.Heartbeat(head)
}

// A relay that takes no changes stays a source for the followers below it. The heads that
// it receives meanwhile do not replace the signature of its position.
func TestRelay_IsFollowedWhileItHoldsDeletions(t *testing.T) {
	for name, came := range map[string]func(*replicationtest.Source){
		"by a snapshot": func(*replicationtest.Source) {},
		"by a batch":    func(s *replicationtest.Source) { s.Commit(replicationtest.Link("more", "https://more.example/")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := replicationtest.NewSource()
			for i := range 100 {
				s.Commit(replicationtest.Link(linkCode(i), "https://example.com/"))
			}
			cfg := guarded(vfs.NewMem())
			cfg.LogBytes = 8 << 20
			relay, trust := &hearing{DB: open(t, cfg)}, pinning(t)
			up := follows(t, replication.FollowConfig{URL: serveWith(t, signed(t, s, time.Millisecond), nil), Sink: relay, Trust: trust})
			until(t, "it holds all", func() bool { return relay.Position().Seq == 100 && up.Status().Connected })
			came(s)
			at, err := s.Head(t.Context())
			require.NoError(t, err)
			until(t, "it holds all", func() bool { return relay.Position() == at.Position })
			for i := range 50 {
				s.Commit(deleted(linkCode(i)))
			}
			until(t, "it holds the deletions back", func() bool { return up.Status().Held != nil })
			position, heard := relay.Position(), relay.heartbeats.Load()
			until(t, "it hears of others", func() bool { return relay.heartbeats.Load() > heard+300 })
			require.Equal(t, position, relay.Position())

			below := replicationtest.NewSink()
			down := follows(t, replication.FollowConfig{
				URL: serveWith(t, replication.ServerConfig{
					Source: relay.DB, Trust: trust, ServerLimits: replication.ServerLimits{Heartbeat: 10 * time.Millisecond},
				}, nil),
				Sink: below, Trust: pinning(t),
			})
			require.Eventually(t, func() bool { return below.Position() == position && down.Status().Connected },
				60*time.Second, time.Millisecond, "%v", down)
			require.Equal(t, 1, down.Status().Snapshots)
		})
	}
}

// filling is a source that fills the follower's disk during a snapshot.
type filling struct {
	*replicationtest.Source
	once sync.Once
	fill func()
}

func (s *filling) Snapshot(ctx context.Context, first, last uint16, visit func([]byte) error) (replication.Head, error) {
	if first >= waypost.Slots/2 {
		s.once.Do(s.fill)
	}
	return s.Source.Snapshot(ctx, first, last, visit)
}

func TestFollower_ResumesWhenTheDiskHasRoom(t *testing.T) {
	fs := vfs.NewMem()
	cfg := config(fs)
	cfg.MinFree = replica.MinFree{Bytes: 1 << 30}
	f := newFleet(t, cfg, 300)
	f.db.Shrink()
	var free, total atomic.Int64
	const enough = 2 << 30
	total.Store(100 << 30)
	free.Store(enough)
	f.db.SetSpace(&free, &total)
	low := func() bool { return errors.Is(f.db.Degraded(), replica.ErrLowDisk) }
	f.follow(t)
	f.settle(t)
	store := f.db.LiveStore()

	free.Store(1)
	until(t, "the disk is low", low)
	f.Commit(replicationtest.Link("waits", "https://waits.example/"))
	until(t, "the follower says so", func() bool { return errors.Is(f.follower.Status().Err, replication.ErrNoRoom) })
	require.Equal(t, "https://example.com/7", f.target(t, linkCode(7)))
	require.Empty(t, f.target(t, "waits"))
	free.Store(enough)
	f.settle(t)
	require.Equal(t, "https://waits.example/", f.target(t, "waits"))
	require.Equal(t, store, f.db.LiveStore())
	f.stop()

	// A snapshot keeps its tables.
	f.Commit(replicationtest.Link("more", "https://more.example/"))
	f.Trim()
	progress := func() bool {
		names, err := fs.List("/replica")
		if err != nil {
			return false
		}
		for _, name := range names {
			if strings.HasPrefix(name, "restore-") {
				_, err = fs.Stat("/replica/" + name + "/PROGRESS")
				return err == nil
			}
		}
		return false
	}
	full := make(chan struct{})
	source := &filling{Source: f.Source, fill: func() {
		defer close(full)
		for deadline := time.Now().Add(time.Minute); !progress() && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		free.Store(1)
		for deadline := time.Now().Add(time.Minute); !low() && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
	}}
	f.SetWidth(256)
	f.serveSource(t, source)
	f.requests()
	f.follow(t)
	select {
	case <-full:
	case <-time.After(time.Minute):
		t.Fatal("nobody takes a snapshot")
	}
	until(t, "the follower says so", func() bool { return errors.Is(f.follower.Status().Err, replication.ErrNoRoom) })
	require.Equal(t, "https://example.com/7", f.target(t, linkCode(7)))
	require.Equal(t, store, f.db.LiveStore())
	f.requests()
	free.Store(enough)
	f.settle(t)
	require.NotEqual(t, store, f.db.LiveStore())
	require.Equal(t, "https://more.example/", f.target(t, "more"))
	furthest := 0
	for _, asked := range f.requests() {
		var first int
		if _, err := fmt.Sscanf(asked, replication.PathSnapshot+"?first=%d", &first); err == nil {
			furthest = max(furthest, first)
		}
	}
	require.GreaterOrEqual(t, furthest, 256, "the snapshot is resumed")
}
