package replication_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/replication"
	"waypost/replication/replicationtest"
)

// gated is a source whose slots are read only when the test lets them be, a range for each token.
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

// newQueue is a world with one snapshot at a time, of which each range waits for a token.
func newQueue(t *testing.T, width int, change func(*replication.ServerConfig)) (*world, *gated) {
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

// asking counts the requests for snapshots.
type asking struct {
	http.RoundTripper
	mu    sync.Mutex
	asked []string
}

func (a *asking) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == replication.PathSnapshot {
		a.mu.Lock()
		a.asked = append(a.asked, r.URL.RawQuery)
		a.mu.Unlock()
	}
	return a.RoundTripper.RoundTrip(r)
}

func (a *asking) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.asked...)
}

// comes begins to follow by a name, and waits until it has asked.
func (w *world) comes(t *testing.T, node string) (*edge, *asking) {
	var asks *asking
	e := follow(t, w.network, func(c *replication.FollowConfig) {
		c.Node = node
		asks = &asking{RoundTripper: c.Client.Transport}
		c.Client.Transport = asks
	})
	synctest.Wait()
	return e, asks
}

// turns requires so many snapshots under way, and so many that wait.
func (w *world) turns(t *testing.T, running, waiting int) {
	t.Helper()
	synctest.Wait()
	require.EqualValues(t, running, w.metric("turns"), "running")
	require.EqualValues(t, waiting, w.metric("waiting"), "waiting")
}

// beat waits until whoever waits was told its place anew.
func beat() {
	time.Sleep(1100 * time.Millisecond)
	synctest.Wait()
}

// caller is a request for a snapshot.
type caller struct {
	*http.Response
	text bytes.Buffer // what came, once it has ended
	end  chan struct{}
	stop context.CancelFunc
}

// knock asks for a snapshot as a node does.
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

// frames are what has come until the end.
func (c *caller) frames(t *testing.T) []string {
	t.Helper()
	<-c.end
	types, err := replication.ReadFrames(&c.text)
	require.ErrorIs(t, err, io.EOF)
	return types
}

func TestSnapshotsAreTakenInTheOrderInWhichTheyWereAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, s := newQueue(t, 4096, nil)
		var edges []*edge
		var asks []*asking
		for i := range 4 {
			e, a := w.comes(t, fmt.Sprintf("edge-%d", i))
			edges, asks = append(edges, e), append(asks, a)
		}
		time.Sleep(time.Minute) // far longer than a follower bears silence
		w.turns(t, 1, 3)
		for i, e := range edges {
			st := e.Status()
			require.True(t, st.Restoring)
			require.Equal(t, i, st.Wait.Place)
			if i > 0 {
				require.Equal(t, 3, st.Wait.Of)
				require.InDelta(t, time.Minute, time.Since(st.Wait.Since), float64(time.Second))
				require.Less(t, time.Since(st.Wait.HeardAt), 2*time.Second)
			}
		}
		later := s.Commit(replicationtest.Link("late", "https://late.example/"))
		for i, e := range edges {
			s.gate <- struct{}{}
			e.await(t, later)
			e.requireEqual(t, s.Source)
			w.turns(t, min(1, 3-i), max(0, 2-i))
			beat()
			for j, o := range edges {
				st := o.Status()
				require.NoError(t, st.Err)
				require.Zero(t, st.Failures)
				require.Len(t, asks[j].requests(), 1, "edge %d", j)
				require.Equal(t, j > i, o.sink.Position().IsZero())
				require.Equal(t, max(0, j-i-1), st.Wait.Place)
			}
		}
		require.EqualValues(t, 4, w.metric("snapshots_total"))
		require.Zero(t, w.metric("turned_away_total"))
	})
}

func TestAWaiterThatLeavesFreesItsPlaceAndOneTooManyIsAskedToComeAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, s := newQueue(t, 4096, func(c *replication.ServerConfig) { c.MaxWaiting = 2 })
		var edges []*edge
		for i := range 3 {
			e, _ := w.comes(t, fmt.Sprintf("edge-%d", i))
			edges = append(edges, e)
		}
		w.turns(t, 1, 2)
		another := w.knock(t, "another")
		require.Equal(t, http.StatusServiceUnavailable, another.StatusCode)
		require.Equal(t, "1", another.Header.Get("Retry-After"))
		<-another.end
		require.Contains(t, another.text.String(), "too many wait already")

		late, asks := w.comes(t, "late")
		time.Sleep(time.Minute)
		require.ErrorContains(t, late.Status().Err, "too many wait already")
		edges[1].stop()
		w.turns(t, 1, 1)
		beat()
		require.Equal(t, 1, edges[2].Status().Wait.Place)
		time.Sleep(10 * time.Second)
		w.turns(t, 1, 2)
		require.Equal(t, 2, late.Status().Wait.Place, "who was refused has come again")
		before := len(asks.requests())
		for range 3 {
			s.gate <- struct{}{}
		}
		for _, e := range []*edge{edges[0], edges[2], late} {
			e.requireEqual(t, s.Source)
		}
		require.Len(t, asks.requests(), before)
		require.Greater(t, w.metric("turned_away_total"), 5.0)
		require.True(t, edges[1].sink.Position().IsZero())
	})
}

func TestASnapshotThatFailsLetsTheNextOneInAndDoesNotLoseItsTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, s := newQueue(t, 512, nil)
		first, _ := w.comes(t, "first")
		second, _ := w.comes(t, "second")
		third, _ := w.comes(t, "third")
		for range 3 {
			s.gate <- struct{}{}
		}
		synctest.Wait()
		first.stop() // as a process that is killed
		w.turns(t, 1, 1)
		beat()
		require.Zero(t, second.Status().Wait.Place)
		require.Equal(t, 1, third.Status().Wait.Place)

		time.Sleep(20 * time.Second)
		again, asks := w.comes(t, "first")
		w.turns(t, 1, 2)
		beat()
		require.Equal(t, 1, again.Status().Wait.Place, "before those who came later")
		require.Equal(t, 2, third.Status().Wait.Place)
		for _, e := range []*edge{second, again, third} {
			require.True(t, e.sink.Position().IsZero())
			for range 8 {
				s.gate <- struct{}{}
			}
			e.requireEqual(t, s.Source)
			require.Equal(t, 1, e.Status().Snapshots)
		}
		require.Len(t, asks.requests(), 1)
	})
}

func TestANodeThatStaysAwayForLongBeginsAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := newQueue(t, 4096, nil)
		w.knock(t, "busy")
		restless := w.knock(t, "restless")
		patient, _ := w.comes(t, "patient")
		require.Equal(t, 2, patient.Status().Wait.Place)
		restless.hangUp()
		w.turns(t, 1, 1)
		time.Sleep(31 * time.Second)
		w.knock(t, "restless")
		beat()
		w.turns(t, 1, 2)
		require.Equal(t, 1, patient.Status().Wait.Place)
	})
}

func TestANodeWhoseTurnsFailTooOftenBeginsAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := newQueue(t, 4096, nil)
		restless := w.knock(t, "restless")
		times := 0
		for ; times < 20; times++ {
			other := w.knock(t, "other "+strconv.Itoa(times))
			restless.hangUp()
			beat()
			later := w.knock(t, "later "+strconv.Itoa(times))
			restless = w.knock(t, "restless")
			other.hangUp()
			beat()
			w.turns(t, 1, 1)
			begun := w.metric("snapshots_total")
			later.hangUp()
			beat()
			if w.metric("snapshots_total") > begun { // it was the turn of the later one, and is not any more
				break
			}
		}
		require.Equal(t, 8, times)
	})
}

func TestATurnIsKeptOnceForANodeThatAsksAnewAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := newQueue(t, 4096, nil)
		resumes := w.knock(t, "resumes")
		other, _ := w.comes(t, "other")
		resumes.hangUp()
		w.turns(t, 0, 1)
		time.Sleep(900 * time.Millisecond)
		resumes = knock(t, w.network, replication.PathSnapshot+"?first=7", "resumes")
		w.turns(t, 1, 1)
		beat()
		require.Equal(t, 1, other.Status().Wait.Place)
		resumes.hangUp()
		knock(t, w.network, replication.PathSnapshot+"?first=7", "resumes")
		w.turns(t, 1, 1)
		beat()
		require.Zero(t, other.Status().Wait.Place, "it has had nothing, twice")
	})
}

func TestATurnThatIsKeptIsOthersAfterASecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, s := newQueue(t, 512, nil)
		gone := w.knock(t, "gone")
		next := w.knock(t, "next")
		w.comes(t, "other")
		gone.hangUp()
		w.turns(t, 0, 2)
		beat()
		w.turns(t, 1, 1)
		s.gate <- struct{}{}
		w.turns(t, 1, 1)
		next.hangUp() // it has had a range
		w.turns(t, 1, 0)
	})
}

func TestWhoIsCutOffWhileItWaitsKeepsItsPlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := newQueue(t, 4096, nil)
		w.knock(t, "busy")
		cut := w.knock(t, "cut")
		patient, _ := w.comes(t, "patient")
		for range 12 {
			time.Sleep(time.Minute)
			cut.hangUp()
			cut = w.knock(t, "cut")
			beat()
			require.Equal(t, 2, patient.Status().Wait.Place)
		}
	})
}

func TestAQueueThatIsFullHasRoomForThoseWhoComeBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := newQueue(t, 4096, func(c *replication.ServerConfig) { c.MaxWaiting = 1 })
		w.knock(t, "busy")
		one := w.knock(t, "one")
		one.hangUp()
		other := w.knock(t, "other")
		require.Equal(t, http.StatusServiceUnavailable, w.knock(t, "stranger").StatusCode)
		require.Equal(t, http.StatusOK, w.knock(t, "one").StatusCode)
		w.turns(t, 1, 2)
		other.hangUp()
		w.knock(t, "one")
		require.Equal(t, http.StatusServiceUnavailable, w.knock(t, "stranger").StatusCode)
		w.turns(t, 1, 1)
	})
}

func TestANodeThatHadAllGoesOnFromItsPlaceOnlyForSomethingOfIt(t *testing.T) {
	for query, at := range map[string]int{"?slots=0-63": 1, "?first=0": 2} {
		t.Run(query, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, s := newQueue(t, 4096, nil)
				one := w.knock(t, "one")
				w.knock(t, "two")
				three, _ := w.comes(t, "three")
				s.gate <- struct{}{}
				<-one.end
				knock(t, w.network, replication.PathSnapshot+query, "one")
				w.turns(t, 1, 2)
				beat()
				require.Equal(t, 3-at, three.Status().Wait.Place)
			})
		})
	}
}

func TestANodeThatAsksAgainHasOnePlaceAndOneTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, s := newQueue(t, 4096, func(c *replication.ServerConfig) { c.MaxSnapshots, c.MaxWaiting = 2, 3 })
		one := w.knock(t, "one")
		waits := knock(t, w.network, replication.PathSnapshot+"?first=7", "one")
		w.turns(t, 1, 1)
		next := knock(t, w.network, replication.PathSnapshot+"?first=8", "one")
		w.turns(t, 1, 1)
		require.Equal(t, []string{"wait", "bye"}, waits.frames(t))

		two := w.knock(t, "two")
		w.turns(t, 2, 1)
		w.knock(t, "three")
		two.hangUp()
		beat()
		w.turns(t, 2, 1) // it is not the turn of one that has one
		one.hangUp()
		w.turns(t, 2, 0)
		for range 2 {
			s.gate <- struct{}{}
		}
		types := next.frames(t)
		require.Equal(t, "wait", types[0])
		require.Equal(t, "end", types[len(types)-1])
		require.EqualValues(t, 4, w.metric("snapshots_total"))
	})
}

func TestWhoNobodyKnowsHasAPlaceForEachRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := newQueue(t, 4096, nil)
		for range 3 {
			w.knock(t, "")
		}
		w.turns(t, 1, 2)
	})
}

func TestASnapshotThatTakesLongGivesWayToThoseWhoWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, s := newQueue(t, 512, func(c *replication.ServerConfig) { c.Turn = time.Minute })
		slow, asks := w.comes(t, "slow")
		time.Sleep(2 * time.Minute)
		for range 2 {
			s.gate <- struct{}{}
		}
		w.turns(t, 1, 0) // nobody waits
		other, _ := w.comes(t, "other")
		require.Equal(t, 1, other.Status().Wait.Place)
		third, _ := w.comes(t, "third")
		s.gate <- struct{}{}
		time.Sleep(time.Second)
		w.turns(t, 1, 2)
		require.Equal(t, 2, slow.Status().Wait.Place)
		for _, e := range []*edge{other, third} {
			for range 8 {
				s.gate <- struct{}{}
			}
			e.requireEqual(t, s.Source)
		}
		for range 5 {
			s.gate <- struct{}{}
		}
		slow.requireEqual(t, s.Source)
		require.Equal(t, []string{"first=0", "first=1536"}, asks.requests(), "it goes on where it was")
		require.Equal(t, 1, slow.sink.Restores())
	})
}

func TestANodeThatAsksAgainBeforeItEndsItsTurnDoesNotBeginItAnew(t *testing.T) {
	for name, hold := range map[string]time.Duration{"often": 50 * time.Second, "once": 3 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, _ := newQueue(t, 512, func(c *replication.ServerConfig) { c.Turn = time.Minute })
				greedy := w.knock(t, "greedy")
				other, _ := w.comes(t, "other")
				begun := time.Now()
				for other.Status().Wait.Place > 0 && time.Since(begun) < 10*time.Minute {
					next := knock(t, w.network, replication.PathSnapshot+"?first=1", "greedy")
					time.Sleep(hold)
					greedy.hangUp()
					greedy = next
					beat()
				}
				require.Less(t, time.Since(begun), time.Minute+hold)
			})
		})
	}
}

func TestTheTimeOfATurnGoesOnWhereItWasCutOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, s := newQueue(t, 512, func(c *replication.ServerConfig) { c.Turn = time.Minute })
		cut := w.knock(t, "cut")
		time.Sleep(40 * time.Second)
		cut.hangUp()
		cut = knock(t, w.network, replication.PathSnapshot+"?first=512", "cut")
		other, _ := w.comes(t, "other")
		w.turns(t, 1, 1)
		time.Sleep(10 * time.Second)
		s.gate <- struct{}{}
		w.turns(t, 1, 1)
		time.Sleep(20 * time.Second)
		require.Equal(t, 1, other.Status().Wait.Place)
		s.gate <- struct{}{}
		beat()
		require.Zero(t, other.Status().Wait.Place)
		require.Equal(t, "bye", last(cut.frames(t)))
	})
}

func last(frames []string) string { return frames[len(frames)-1] }

func TestWaitersAreSentAwayWhenTheServerDrains(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := newQueue(t, 4096, nil)
		w.knock(t, "first")
		second := w.knock(t, "second")
		w.turns(t, 1, 1)
		require.NoError(t, w.server.Drain(t.Context()))
		require.Equal(t, []string{"wait", "bye"}, second.frames(t))
		w.turns(t, 0, 0)
	})
}

func TestAWaiterWhoseSourceIsNoneAnyMoreGoesElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, s := newQueue(t, 4096, nil)
		w.knock(t, "first")
		second := w.knock(t, "second")
		s.Fail(replication.ErrNoSource)
		time.Sleep(3 * time.Second)
		types := second.frames(t)
		require.Equal(t, "bye", types[len(types)-1])
		w.turns(t, 1, 0)
	})
}

func TestAWaiterThatIsRevokedIsSentAwayAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := newQueue(t, 4096, nil)
		w.knock(t, "first")
		gate := newNetwork()
		var revoke context.CancelCauseFunc
		gate.serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithCancelCause(r.Context())
			defer cancel(nil)
			revoke = cancel
			w.server.Snapshot(rw, r.WithContext(ctx))
		}))
		second := knock(t, gate, replication.PathSnapshot, "second")
		w.turns(t, 1, 1)
		at := time.Now()
		revoke(&replication.EndError{Text: "revoked"})
		w.turns(t, 1, 0)
		<-second.end
		require.Contains(t, second.text.String(), "revoked")
		require.Zero(t, time.Since(at))
	})
}

func TestAWaiterThatReadsNothingIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := newQueue(t, 4096, nil)
		w.knock(t, "first")
		conn, err := w.dial(t.Context(), "", "") // the pipe has no buffer at all
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: source\r\n\r\n", replication.PathSnapshot)
		require.NoError(t, err)
		w.turns(t, 1, 1)
		time.Sleep(11 * time.Second)
		w.turns(t, 1, 0)
		require.EqualValues(t, 1, w.metric("followers_dropped_total"))
	})
}

// renaming gives frames of waiting a type that nobody knows, as they are for a follower from before there were any.
type renaming struct{ http.ResponseWriter }

func (w renaming) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w renaming) Write(b []byte) (int, error) {
	const wait, unknown = 10, 200
	if b[4] == wait {
		_, err := w.ResponseWriter.Write(replication.Frame(unknown, 0, b[12:]))
		return len(b), err
	}
	return w.ResponseWriter.Write(b)
}

func TestAFollowerThatKnowsNoQueuesWaitsAsWell(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, s := newQueue(t, 4096, nil)
		w.knock(t, "first")
		old := newNetwork()
		old.serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == replication.PathStream {
				w.server.Stream(rw, r)
				return
			}
			w.server.Snapshot(renaming{rw}, r)
		}))
		e := follow(t, old, nil)
		time.Sleep(time.Minute)
		w.turns(t, 1, 1)
		require.NoError(t, e.Status().Err)
		require.Zero(t, e.Status().Wait)
		for range 2 {
			s.gate <- struct{}{}
		}
		e.requireEqual(t, s.Source)
		require.EqualValues(t, 2, w.metric("snapshots_total"))
	})
}

func TestAFollowerOfASourceWithoutAQueueComesAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, s := newQueue(t, 4096, nil)
		old := newNetwork()
		refused := 0
		old.serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == replication.PathStream:
				w.server.Stream(rw, r)
			case refused < 10:
				refused++
				rw.Header().Set("Retry-After", "1")
				http.Error(rw, "too many snapshots at once", http.StatusServiceUnavailable)
			default:
				w.server.Snapshot(rw, r)
			}
		}))
		e := follow(t, old, nil)
		s.gate <- struct{}{}
		e.requireEqual(t, s.Source)
		require.Equal(t, 10, refused)
	})
}

func TestAReplicaServesAndTellsOfItWhileItWaitsToBeReplaced(t *testing.T) {
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
		require.Equal(t, 1, e.Status().Wait.Place)
		require.Equal(t, before, sink.Position())
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "waiting for its turn"))
		first.hangUp()
		s.gate <- struct{}{}
		e.requireEqual(t, s.Source)
		require.Zero(t, e.Status().Wait)
	})
}

func TestTheStreamTellsHowManyWouldGoFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := newQueue(t, 4096, nil)
		for i := range 4 {
			probe, err := replication.Ask(t.Context(), replication.FollowConfig{
				URL: "http://source", Sink: replicationtest.NewSink(), Client: w.client(t), Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			require.Equal(t, i, probe.Queue)
			w.knock(t, strconv.Itoa(i))
		}
	})
}
