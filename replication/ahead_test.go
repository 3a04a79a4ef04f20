package replication_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/replication"
	"waypost/replication/replicationtest"
)

// gauged is a source that counts its readings of slots under way, and notes where they
// begin.
type gauged struct {
	*replicationtest.Source
	mu        sync.Mutex
	now, most int
	first     []int
}

func (s *gauged) Snapshot(ctx context.Context, first, last uint16, visit func([]byte) error) (replication.Head, error) {
	s.mu.Lock()
	s.first = append(s.first, int(first))
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.now--; s.mu.Unlock() }()
	time.Sleep(time.Millisecond)
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

func TestServer_ReadsOneRangeOfASnapshotWhileItSendsAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &gauged{Source: linksOf(100)}
		w := newWorld(t, func(c *replication.ServerConfig) { c.Source = s })
		w.source = s.Source
		synctest.Wait()
		slow := &deaf{ResponseRecorder: httptest.NewRecorder(), hears: make(chan struct{})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.server.Snapshot(slow, httptest.NewRequestWithContext(t.Context(), http.MethodGet, replication.PathSnapshot, nil))
		}()
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []int{0, 64}, s.first)
		close(slow.hears)
		<-done
		require.Len(t, s.first, 4096/64)
		require.Equal(t, 1, s.most)
	})
}

// deaf is an answer of which nothing is taken before hears is closed, except its first
// frame, the hello.
type deaf struct {
	*httptest.ResponseRecorder
	writes int
	hears  chan struct{}
}

func (d *deaf) Write(b []byte) (int, error) {
	if d.writes++; d.writes > 1 {
		<-d.hears
	}
	return d.ResponseRecorder.Write(b)
}

func (*deaf) SetWriteDeadline(time.Time) error { return nil }

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
