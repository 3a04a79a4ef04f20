package replication_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/replication"
	"waypost/replication/replicationtest"
)

// gauged is a source of which is known how many readings of slots go on, and of which ranges.
type gauged struct {
	*replicationtest.Source
	mu          sync.Mutex
	now, most   int
	hold        chan struct{} // closed once most readings are under way; nil: nobody waits
	awaited     int
	first, last []int
}

func (s *gauged) Snapshot(ctx context.Context, first, last uint16, visit func([]byte) error) (replication.Head, error) {
	s.mu.Lock()
	s.first, s.last = append(s.first, int(first)), append(s.last, int(last))
	s.now++
	if s.most = max(s.most, s.now); s.hold != nil && s.now == s.awaited {
		close(s.hold)
		s.awaited = -1
	}
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.now--; s.mu.Unlock() }()
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return replication.Head{}, ctx.Err()
		}
	}
	return s.Source.Snapshot(ctx, first, last, visit)
}

// linksOf makes a source of so many links, which do not compress.
func linksOf(n int) *replicationtest.Source {
	s := replicationtest.NewSource()
	s.SetWidth(64)
	for i := range n {
		s.Commit(replicationtest.Link(fmt.Sprintf("code%04d", i), fmt.Sprintf("https://example.com/%016x%016x", rand.Uint64(), rand.Uint64())))
	}
	return s
}

func TestTwoRangesOfASnapshotAreReadAtOnceWhileThereIsRoom(t *testing.T) {
	for atOnce, most := range map[int]int{1: 1, 4: 2} {
		bubble(t, func(t *testing.T) {
			s := &gauged{Source: linksOf(100), hold: make(chan struct{}), awaited: most}
			w := newWorld(t, func(c *replication.ServerConfig) { c.Source, c.MaxSnapshots = s, atOnce })
			w.source = s.Source
			follow(t, w.network, nil).requireEqual(t, s.Source)
			require.Equal(t, most, s.most)
			require.Len(t, s.first, 4096/64)
		})
	}
}

func TestRangesThatHoldTooMuchAreReadInHalves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &gauged{Source: linksOf(400)}
		s.SetWidth(1024)
		w := newWorld(t, func(c *replication.ServerConfig) { c.Source, c.HeldBytes = s, 12<<10 })
		w.source = s.Source
		e := follow(t, w.network, nil)
		e.requireEqual(t, s.Source)
		require.Equal(t, 1, e.Status().Snapshots)
		require.EqualValues(t, 1, w.metric("snapshots_total"), "over one connection")
		require.Greater(t, len(s.first), 8)
		require.Less(t, len(s.first), 200, "what was too wide once is not tried again")
	})
}
