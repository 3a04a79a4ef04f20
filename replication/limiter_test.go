package replication_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/replication"
	"waypost/replication/replicationtest"
)

// gated is a source whose slots are read only when the test lets them be, a range for
// each token.
type gated struct {
	*replicationtest.Source
	gate chan struct{}
}

func newGated(width int) *gated {
	s := &gated{Source: linksOf(20), gate: make(chan struct{})}
	s.SetWidth(width)
	return s
}

func (s *gated) Snapshot(ctx context.Context, first, last uint16, visit func([]byte) error) (replication.Head, error) {
	select {
	case <-s.gate:
		return s.Source.Snapshot(ctx, first, last, visit)
	case <-ctx.Done():
		return replication.Head{}, ctx.Err()
	}
}

// newBusy makes a world with one snapshot at a time, of which each range waits for a
// token.
func newBusy(t *testing.T, width int, change func(*replication.ServerConfig)) (*world, *gated) {
	s := newGated(width)
	w := newWorld(t, func(c *replication.ServerConfig) {
		c.Source, c.MaxSnapshots = s, 1
		if change != nil {
			change(c)
		}
	})
	w.source = s.Source
	synctest.Wait()
	return w, s
}

// running requires that many snapshots under way.
func (w *world) running(t *testing.T, running int) {
	t.Helper()
	synctest.Wait()
	require.EqualValues(t, running, w.metric("transfers"))
}

// caller is a request for a snapshot, sent without a follower.
type caller struct {
	*http.Response
	text bytes.Buffer // the body, once it has ended
	end  chan struct{}
	stop context.CancelFunc
}

// knock asks for a snapshot as a node.
func knock(t *testing.T, n *network, path, node string) *caller {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://source"+path, http.NoBody)
	require.NoError(t, err)
	r.Header.Set(replication.HeaderNode, node)
	c := &caller{end: make(chan struct{}), stop: cancel}
	c.Response, err = n.client(t).Do(r)
	require.NoError(t, err)
	go func() {
		defer close(c.end)
		_, _ = io.Copy(&c.text, c.Body) // until its end, or until it hangs up
		_ = c.Body.Close()
	}()
	t.Cleanup(c.hangUp)
	synctest.Wait()
	return c
}

func (w *world) knock(t *testing.T, node string) *caller {
	t.Helper()
	return knock(t, w.network, replication.PathSnapshot, node)
}

func (c *caller) hangUp() {
	c.stop()
	<-c.end
	synctest.Wait()
}

// frames waits for the end and returns the types of all frames.
func (c *caller) frames(t *testing.T) []string {
	t.Helper()
	<-c.end
	types, err := replication.ReadFrames(&c.text)
	require.ErrorIs(t, err, io.EOF)
	return types
}

func TestServer_RefusesMoreSnapshotsThanItMayServe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, s := newBusy(t, 4096, nil)
		first := w.knock(t, "first")
		w.running(t, 1)
		second := w.knock(t, "second")
		require.Equal(t, http.StatusServiceUnavailable, second.StatusCode)
		require.Equal(t, "1", second.Header.Get("Retry-After"))
		require.Equal(t, "1", second.Header.Get(replication.HeaderBusy))
		require.EqualValues(t, 1, w.metric("transfers_refused_total"))

		first.hangUp()
		w.running(t, 0)
		third := w.knock(t, "third")
		require.Equal(t, http.StatusOK, third.StatusCode)
		s.gate <- struct{}{}
		frames := third.frames(t)
		require.Equal(t, "end", frames[len(frames)-1])
		w.running(t, 0)
	})
}

func TestServer_EndsALongSnapshotInFavourOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, s := newBusy(t, 512, func(c *replication.ServerConfig) { c.Turn = time.Minute })
		slow := w.knock(t, "slow")
		time.Sleep(2 * time.Minute)
		s.gate <- struct{}{}
		w.running(t, 1) // no other has asked
		w.knock(t, "other")
		s.gate <- struct{}{}
		frames := slow.frames(t)
		require.Equal(t, "bye", frames[len(frames)-1])
		w.running(t, 0)
	})
}

func TestFollower_GoesOnWhereALongSnapshotEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, s := newBusy(t, 512, func(c *replication.ServerConfig) { c.Turn = time.Minute })
		slow := follow(t, w.network, nil)
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		w.knock(t, "other")
		s.gate <- struct{}{}
		synctest.Wait()
		w.running(t, 0)
		close(s.gate)
		slow.requireEqual(t, s.Source)
		require.Equal(t, 1, slow.sink.Restores())
		require.Equal(t, 1, slow.Status().Snapshots)
		require.EqualValues(t, 2, w.metric("snapshots_total"))
	})
}

// hurried is a source that takes a moment for each range.
type hurried struct {
	*replicationtest.Source
	reading, most atomic.Int64
}

func (s *hurried) Snapshot(ctx context.Context, first, last uint16, visit func([]byte) error) (replication.Head, error) {
	s.most.Store(max(s.most.Load(), s.reading.Add(1))) // about: it only has to notice far too many
	defer s.reading.Add(-1)
	time.Sleep(100 * time.Millisecond)
	return s.Source.Snapshot(ctx, first, last, visit)
}

func TestFollower_AHerdIsFilledWithoutAFlood(t *testing.T) {
	const herd, atOnce = 500, 4
	bubble(t, func(t *testing.T) {
		s := &hurried{Source: linksOf(5)}
		s.SetWidth(4096)
		w := newWorld(t, func(c *replication.ServerConfig) { c.Source, c.MaxSnapshots = s, atOnce })
		w.source = s.Source
		synctest.Wait()
		begun := time.Now()
		var edges []*edge
		for range herd {
			edges = append(edges, follow(t, w.network, nil))
		}
		for _, e := range edges {
			e.requireEqual(t, s.Source)
			require.Equal(t, 1, e.Status().Snapshots)
			require.Zero(t, e.Status().Failures)
			require.False(t, e.Status().Wait.Waits())
		}
		took := time.Since(begun)
		require.Less(t, took, 3*herd/atOnce*100*time.Millisecond, "tokens are in use most of the time")
		require.LessOrEqual(t, s.most.Load(), int64(atOnce))
		require.EqualValues(t, herd, w.metric("snapshots_total"))
		require.Less(t, w.metric("transfers_refused_total"), herd*(took.Seconds()+1), "each asks once a second at most")
	})
}

func TestServer_RefusesWhileItsSourceIsNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, s := newBusy(t, 4096, nil)
		s.Fail(replication.ErrNoSource)
		time.Sleep(3 * time.Second)
		refused := w.knock(t, "one")
		require.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
		require.Empty(t, refused.Header.Get(replication.HeaderBusy))
	})
}

func TestFollower_ServesAndSaysSoWhileItsSourceIsBusy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, sink := newGated(4096), replicationtest.NewSink()
		replicationtest.Take(t, s.Source, sink)
		before := sink.Position()
		s.Commit(replicationtest.Link("late", "https://late.example/"))
		s.Trim()
		w := newWorld(t, func(c *replication.ServerConfig) { c.Source, c.MaxSnapshots = s, 1 })
		synctest.Wait()
		first := w.knock(t, "first")
		var log bytes.Buffer
		e := follow(t, w.network, func(c *replication.FollowConfig) {
			c.Sink, c.Logger = sink, slog.New(slog.NewTextHandler(&log, nil))
		})
		e.sink = sink
		time.Sleep(time.Minute)
		require.True(t, e.Status().Wait.Waits())
		require.InDelta(t, time.Minute, time.Since(e.Status().Wait.Since), float64(time.Second))
		require.Less(t, time.Since(e.Status().Wait.HeardAt), 3*time.Second)
		require.Equal(t, before, sink.Position())
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "waiting for a busy source"))
		first.hangUp()
		s.gate <- struct{}{}
		e.requireEqual(t, s.Source)
		require.Zero(t, e.Status().Wait)
	})
}

func TestServer_SaysOnTheStreamThatItIsBusy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := newBusy(t, 4096, nil)
		for _, busy := range []bool{false, true} {
			probe, err := replication.Look(t.Context(), replication.FollowConfig{
				URL: "http://source", Sink: replicationtest.NewSink(), Client: w.client(t), Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			require.Equal(t, busy, probe.Busy)
			w.knock(t, "one")
		}
	})
}
