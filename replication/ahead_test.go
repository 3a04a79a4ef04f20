package replication_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/replication"
	"waypost/replication/replicationtest"
)

// gauged is a source that counts its readings of slots under way and notes their ranges.
type gauged struct {
	*replicationtest.Source
	mu          sync.Mutex
	now, most   int
	hold        chan struct{} // closed once most readings are under way; nil: none waits
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

// linksOf makes a source of n links, which do not compress.
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

// limited is a source that reads only a few slots within the time of one reading.
type limited struct {
	*replicationtest.Source
	slots int
	time  time.Duration
	ended int
}

func (s *limited) Snapshot(ctx context.Context, first, last uint16, visit func([]byte) error) (replication.Head, error) {
	if err := s.read(ctx, first, last); err != nil {
		return replication.Head{}, err
	}
	return s.Source.Snapshot(ctx, first, last, visit)
}

func (s *limited) Sums(ctx context.Context, first, last uint16) ([]replication.Sum, replication.Head, error) {
	if err := s.read(ctx, first, last); err != nil {
		return nil, replication.Head{}, err
	}
	return s.Source.Sums(ctx, first, last)
}

func (s *limited) read(ctx context.Context, first, last uint16) error {
	takes := s.time / time.Duration(s.slots) * time.Duration(int(last)-int(first)+1)
	if err := sleepFor(ctx, min(takes, s.time)); err != nil {
		return err
	}
	if takes > s.time {
		s.ended++
		return errors.New("canceling statement due to statement timeout")
	}
	return nil
}

func sleepFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestRangesThatTakeTooLongAreReadInHalves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &limited{Source: linksOf(100), slots: 256, time: time.Minute}
		s.SetWidth(1024)
		w := newWorld(t, func(c *replication.ServerConfig) { c.Source, c.MaxSnapshots = s, 1 })
		w.source = s.Source
		e := follow(t, w.network, nil)
		time.Sleep(30 * time.Minute)
		e.requireEqual(t, s.Source)
		require.Equal(t, 1, e.Status().Snapshots)
		require.Equal(t, 2, s.ended)

		var sums []byte
		done := make(chan error, 1)
		go func() {
			response, err := w.network.client(t).Get("http://source" + replication.PathSums + "?first=0")
			if err == nil {
				sums, err = io.ReadAll(response.Body)
				_ = response.Body.Close()
			}
			done <- err
		}()
		require.NoError(t, <-done)
		require.NotEmpty(t, sums)
		require.Equal(t, 4, s.ended)
	})
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
