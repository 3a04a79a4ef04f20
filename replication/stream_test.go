package replication_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

func TestAnEmptyFollowerTakesASnapshotAndThenFollows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for i := range 200 {
			w.source.Commit(replicationtest.Link(fmt.Sprintf("code%d", i), "https://example.com/"))
		}
		e := follow(t, w.network, nil)
		e.requireEqual(t, w.source)
		for i := range 50 {
			e.await(t, w.source.Commit(replicationtest.Link(fmt.Sprintf("code%d", i), "https://changed.example/")))
		}
		e.requireEqual(t, w.source)
		status := e.Status()
		require.Equal(t, 1, status.Snapshots)
		require.True(t, status.Connected)
		require.NoError(t, status.Err)
		lag, ok := status.Lag()
		require.True(t, ok)
		require.Zero(t, lag)
		require.EqualValues(t, 1, w.metric("snapshots_total"))
	})
}

func TestAFollowerThatWasAwayGoesOnFromItsPosition(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(c *replication.ServerConfig) { c.RingFrames, c.ReadRecords = 3, 4 })
		e := follow(t, w.network, nil)
		e.await(t, w.source.Commit(replicationtest.Link("aaaa", "https://a.example/")))
		w.cut(true)
		for i := range 100 {
			w.source.Commit(replicationtest.Link(fmt.Sprintf("code%d", i), "https://example.com/"))
			time.Sleep(20 * time.Millisecond) // a frame each
		}
		w.cut(false)
		e.requireEqual(t, w.source)
		require.Equal(t, 1, e.Status().Snapshots)
	})
}

func TestCutsWhileChangesPourIn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(c *replication.ServerConfig) { c.RingFrames = 5 })
		e := follow(t, w.network, nil)
		for i := range 400 {
			w.source.Commit(replicationtest.Link(fmt.Sprintf("code%d", i%90), fmt.Sprintf("https://%d.example/", i)))
			if i%3 == 0 {
				time.Sleep(7 * time.Millisecond)
			}
			if i%50 == 49 {
				w.cut(false)
			}
		}
		e.requireEqual(t, w.source)
		require.Equal(t, 1, e.Status().Snapshots, "cuts never cost a snapshot")
	})
}

func TestAFrameIsEncodedOnceForAllFollowers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		var edges []*edge
		for range 20 {
			e := follow(t, w.network, nil)
			e.requireEqual(t, w.source)
			edges = append(edges, e)
		}
		synctest.Wait()
		encoded, reads := w.metric("frames_encoded_total"), w.source.Reads()
		for range 10 {
			p := w.source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
			for _, e := range edges {
				e.await(t, p)
			}
		}
		require.EqualValues(t, encoded+10, w.metric("frames_encoded_total"))
		require.Equal(t, 10, w.source.Reads()-reads, "the source is read once for each change, for all followers")
		require.EqualValues(t, 20, w.metric("followers"))
	})
}

func TestChangesThatComeCloseTogetherArePassedOnTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		e := follow(t, w.network, nil)
		e.requireEqual(t, w.source)
		time.Sleep(time.Second)
		reads, begun := w.source.Reads(), time.Now()
		e.await(t, w.source.Commit(replicationtest.Link("aaaa", "https://a.example/")))
		require.Zero(t, time.Since(begun), "the first does not wait")
		for range 20 {
			time.Sleep(time.Millisecond)
			w.source.Commit(replicationtest.Link("aaaa", "https://b.example/"))
		}
		last, begun := w.source.Commit(replicationtest.Link("aaaa", "https://c.example/")), time.Now()
		e.await(t, last)
		require.LessOrEqual(t, time.Since(begun), 5*time.Millisecond)
		require.LessOrEqual(t, w.source.Reads()-reads, 6)
	})
}

func TestASlowFollowerIsDroppedAndHoldsNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(c *replication.ServerConfig) { c.RingBytes = 2 << 20 })
		e := follow(t, w.network, nil)
		e.requireEqual(t, w.source)
		head, err := w.source.Head(t.Context())
		require.NoError(t, err)

		// One that connects and never reads: the pipe has no buffer at all.
		conn, err := w.dial(t.Context(), "", "")
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "GET %s?after=%s HTTP/1.1\r\nHost: source\r\n\r\n", replication.PathStream, head.Position)
		require.NoError(t, err)
		synctest.Wait()
		require.EqualValues(t, 2, w.metric("followers"))

		for i := range 30 {
			e.await(t, w.source.Commit(replicationtest.Link(fmt.Sprintf("code%d", i), "https://a.example/")))
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 1, w.metric("followers"))
		require.EqualValues(t, 1, w.metric("followers_dropped_total"))
		require.True(t, e.Status().Connected)
	})
}

func TestServer_SlowFollowersBehindTheRingHoldNeitherMemoryNorOthers(t *testing.T) {
	const limit, slow = 1 << 20, 20
	large := func(code string) waypost.Record {
		target := make([]byte, 6000) // which compression makes little smaller
		for i := range target {
			target[i] = byte('!' + rand.IntN(90))
		}
		return replicationtest.Link(code, "https://example.com/"+string(target))
	}
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(c *replication.ServerConfig) { c.RingFrames, c.CatchUpBytes = 1, limit })
		e := follow(t, w.network, nil)
		e.requireEqual(t, w.source)
		e.stop()
		from := e.sink.Position()
		for i := range 400 { // each reading is longer than the limit
			w.source.Commit(large(fmt.Sprintf("code%d", i)))
		}
		var whole []waypost.Record // a frame that no follower gets while others hold the limit
		for i := range 150 {
			whole = append(whole, large(fmt.Sprintf("whole%d", i)))
		}
		w.source.Commit(whole...)
		w.source.Commit(large("last"))
		synctest.Wait()

		for range slow {
			conn, err := w.dial(t.Context(), "", "")
			require.NoError(t, err)
			_, err = fmt.Fprintf(conn, "GET %s?after=%s HTTP/1.1\r\nHost: source\r\n\r\n", replication.PathStream, from)
			require.NoError(t, err)
			_, err = io.ReadFull(conn, make([]byte, 16<<10)) // and no more
			require.NoError(t, err)
		}
		synctest.Wait()
		require.EqualValues(t, slow, w.metric("followers"))
		require.False(t, w.server.HasRoom(limit/2))

		again := follow(t, w.network, func(c *replication.FollowConfig) { c.Sink = e.sink })
		again.sink = e.sink
		synctest.Wait()
		require.Equal(t, from.Seq+400, e.sink.Position().Seq, "the slow ones do not hold it up")
		again.requireEqual(t, w.source)
		require.Zero(t, again.Status().Snapshots)
		require.EqualValues(t, slow, w.metric("followers_dropped_total"))
		synctest.Wait()
		require.True(t, w.server.HasRoom(limit))
	})
}

func TestAOneWayCutIsNoticedByTheMissingHeartbeats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		e := follow(t, w.network, nil)
		e.requireEqual(t, w.source)
		w.mute()
		p := w.source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		start := time.Now()
		e.await(t, p)
		require.Less(t, time.Since(start), 7*time.Second)
		require.Greater(t, time.Since(start), 4*time.Second)
		require.Equal(t, 1, e.Status().Snapshots)
	})
}

func TestFollower_LeavesAFrameThatDoesNotEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source, sink := replicationtest.NewSource(), replicationtest.NewSink()
		replicationtest.Take(t, source, sink)
		head, err := source.Head(t.Context())
		require.NoError(t, err)
		// As after damage to a frame's length: what comes next looks like its payload.
		hang := serveFrames(t, replication.HelloFrame(head), replication.HeaderFrame(2, 16<<20))
		e := follow(t, hang.network, func(c *replication.FollowConfig) { c.Sink = sink })
		synctest.Wait()
		require.True(t, e.Status().Connected)
		start := time.Now()
		for e.Status().Connected && time.Since(start) < time.Minute {
			hang.send(replication.HeartbeatFrame(head))
			time.Sleep(time.Second)
			synctest.Wait()
		}
		require.LessOrEqual(t, time.Since(start), 6*time.Second)
		require.ErrorContains(t, e.Status().Err, "fell silent")
	})
}

func TestFollower_WaitsForALargeFrameThatComesSlowly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source, sink := replicationtest.NewSource(), replicationtest.NewSink()
		replicationtest.Take(t, source, sink)
		head, err := source.Head(t.Context())
		require.NoError(t, err)
		slow := serveFrames(t, replication.HelloFrame(head))
		e := follow(t, slow.network, func(c *replication.FollowConfig) { c.Sink = sink })
		synctest.Wait()
		for frame := replication.Frame(99, 0, make([]byte, 1<<20)); len(frame) > 0; { // of a type that is skipped
			part := min(len(frame), 15<<10)
			slow.send(frame[:part])
			frame = frame[part:]
			time.Sleep(time.Second)
		}
		slow.send(replication.HeartbeatFrame(head))
		synctest.Wait()
		require.True(t, e.Status().Connected, "%v", e.Status().Err)
		require.Zero(t, time.Since(e.Status().HeardAt))
	})
}

// frames is a source that sends what it is given.
type frames struct {
	*network
	more chan []byte
}

// serveFrames serves a source that begins each connection with some frames.
func serveFrames(t *testing.T, first ...[]byte) *frames {
	t.Helper()
	f := &frames{network: newNetwork(), more: make(chan []byte)}
	f.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", replication.ContentType)
		next := bytes.Join(first, nil)
		for {
			if _, err := w.Write(next); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case next = <-f.more:
			case <-r.Context().Done():
				return
			}
		}
	}))
	return f
}

func (f *frames) send(b []byte) { f.more <- b }

func TestHeartbeatsKeepAQuietStreamConnected(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		e := follow(t, w.network, nil)
		e.requireEqual(t, w.source)
		connected := w.metric("snapshots_total")
		time.Sleep(time.Minute)
		synctest.Wait()
		status := e.Status()
		require.True(t, status.Connected)
		require.Less(t, time.Since(status.HeardAt), 3*time.Second)
		require.Less(t, time.Since(status.AdvancedAt), 3*time.Second)
		require.Equal(t, connected, w.metric("snapshots_total"))
	})
}

func TestATrimmedLogLeadsToASnapshot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(c *replication.ServerConfig) { c.RingFrames = 1 })
		e := follow(t, w.network, nil)
		e.await(t, w.source.Commit(replicationtest.Link("aaaa", "https://a.example/")))
		w.cut(true)
		for range 5 {
			w.source.Commit(replicationtest.Link("bbbb", "https://b.example/"))
			time.Sleep(150 * time.Millisecond)
		}
		w.source.Commit(replicationtest.Purge("aaaa"))
		w.source.Trim()
		time.Sleep(150 * time.Millisecond)
		w.cut(false)
		e.requireEqual(t, w.source)
		require.Equal(t, 2, e.Status().Snapshots)
		require.EqualValues(t, 1, w.metric("resets_total"))
	})
}

func TestAnotherHistoryLeadsToASnapshotWhileConnected(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		e := follow(t, w.network, nil)
		e.await(t, w.source.Commit(replicationtest.Link("aaaa", "https://a.example/")))
		w.source.NewHistory()
		w.source.Commit(replicationtest.Link("bbbb", "https://b.example/"))
		e.requireEqual(t, w.source)
		require.Equal(t, 2, e.Status().Snapshots)
	})
}

func TestADivergedReplicaTakesASnapshotButNeverInAHurry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		e := follow(t, w.network, nil)
		e.requireEqual(t, w.source)
		w.source.Lie() // no snapshot will ever agree with this source
		w.source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Greater(t, e.sink.Restores(), 5)
		require.Less(t, e.sink.Restores(), 30)
		require.ErrorIs(t, e.Status().Err, replication.ErrDiverged)
		require.Equal(t, 1, e.Status().Snapshots)
	})
}

func TestWhileTheSourceIsAwayFollowersStayAndSeeItsAge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		e := follow(t, w.network, nil)
		p := w.source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		e.await(t, p)
		w.source.Fail(errors.New("the database is away"))
		time.Sleep(30 * time.Second)
		synctest.Wait()
		status := e.Status()
		require.True(t, status.Connected)
		require.Less(t, time.Since(status.HeardAt), 3*time.Second)
		require.Greater(t, time.Since(status.AdvancedAt), 25*time.Second)
		require.EqualValues(t, 1, w.metric("followers"))
		w.source.Fail(nil)
		e.await(t, w.source.Commit(replicationtest.Link("bbbb", "https://b.example/")))
	})
}

func TestASnapshotWaitsForASourceThatIsAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		time.Sleep(2 * time.Second)
		w.source.Fail(errors.New("the database is away"))
		e := follow(t, w.network, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.True(t, e.Status().Restoring)
		w.source.Fail(nil)
		e.requireEqual(t, w.source)
		require.EqualValues(t, 1, w.metric("snapshots_total"), "the connection was kept by heartbeats")
	})
}

func TestDrainingSaysByeAndRefusesNewFollowers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		e := follow(t, w.network, nil)
		e.requireEqual(t, w.source)
		require.NoError(t, w.server.Drain(t.Context()))
		synctest.Wait()
		require.Zero(t, w.metric("followers"))
		require.ErrorContains(t, e.Status().Err, "bye")
		res, err := w.client(t).Get("http://source" + replication.PathStream)
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		require.NotEmpty(t, res.Header.Get("Retry-After"))
		require.NoError(t, res.Body.Close())
	})
}

func TestTheEndOfRunSaysByeToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		e := follow(t, w.network, nil)
		e.requireEqual(t, w.source)
		w.stop()
		synctest.Wait()
		require.Zero(t, w.metric("followers"))
		require.ErrorContains(t, e.Status().Err, "bye")
	})
}

func TestDrainGivesUpOnAFollowerThatDoesNotTakeItsBye(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		time.Sleep(time.Second)
		conn, err := w.dial(t.Context(), "", "")
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: source\r\n\r\n", replication.PathSnapshot)
		require.NoError(t, err)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, w.server.Drain(ctx), context.DeadlineExceeded)
		require.NoError(t, w.server.Drain(t.Context()), "the write deadline ends it")
	})
}

func TestATransactionTooLargeToSendLeadsToASnapshot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		e := follow(t, w.network, nil)
		e.requireEqual(t, w.source)
		var many []waypost.Record
		for i := range 1500 {
			many = append(many, replicationtest.Link(fmt.Sprintf("code%d", i), "https://example.com/"+strings.Repeat("x", 24000)))
		}
		w.source.Commit(many...)
		e.requireEqual(t, w.source)
		require.Equal(t, 2, e.Status().Snapshots)
	})
}

func TestBadRequestsAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		synctest.Wait()
		for _, path := range []string{
			replication.PathStream + "?after=nonsense", replication.PathSnapshot + "?first=4096",
			replication.PathSnapshot + "?first=-1", replication.PathSnapshot + "?first=x",
			replication.PathSums + "?first=4096", replication.PathSnapshot + "?slots=4096", replication.PathSnapshot + "?slots=3,2",
			replication.PathSnapshot + "?slots=3,", replication.PathSnapshot + "?slots=3-2", replication.PathSnapshot + "?slots=3,3",
			replication.PathSnapshot + "?slots=" + strings.Join(everySecond(257), ","),
		} {
			res, err := w.client(t).Get("http://source" + path)
			require.NoError(t, err)
			require.Equal(t, http.StatusBadRequest, res.StatusCode, path)
			require.NoError(t, res.Body.Close())
		}
		res, err := w.client(t).Get("http://source" + replication.PathStream)
		require.NoError(t, err)
		types, err := replication.ReadFrames(res.Body)
		require.Equal(t, []string{"hello", "reset"}, types)
		require.ErrorContains(t, err, "EOF")
		require.NoError(t, res.Body.Close())
	})
}

func TestNarrowAndUnevenRangesMakeTheSameSnapshot(t *testing.T) {
	for _, width := range []int{1, 3, 64, 4096, 100000} {
		bubble(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.source.SetWidth(width)
			for i := range 50 {
				w.source.Commit(replicationtest.Link(fmt.Sprintf("code%d", i), "https://example.com/"))
			}
			follow(t, w.network, nil).requireEqual(t, w.source)
		})
	}
}

func TestAPositionOfAnotherHistoryIsKnownByItsStampAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		synctest.Wait()
		p := w.source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		time.Sleep(time.Second) // it is a boundary of the shared frames
		w.source.Commit(replicationtest.Link("bbbb", "https://b.example/"))
		time.Sleep(time.Second)
		p.Stamp ^= 1
		res, err := w.client(t).Get("http://source" + replication.PathStream + "?after=" + p.String())
		require.NoError(t, err)
		types, err := replication.ReadFrames(res.Body)
		require.ErrorContains(t, err, "EOF")
		require.Equal(t, []string{"hello", "heartbeat", "reset"}, types)
		require.NoError(t, res.Body.Close())
	})
}

func TestAFollowerBetweenSharedFramesComesToTakeThem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(c *replication.ServerConfig) { c.ReadRecords = 4 })
		synctest.Wait()
		sink := replicationtest.NewSink()
		for i := range 100 { // in frames of four
			if i == 2 {
				replicationtest.Take(t, w.source, sink)
			}
			w.source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		}
		time.Sleep(time.Second)
		before := w.source.Reads()
		e := follow(t, w.network, func(c *replication.FollowConfig) { c.Sink = sink })
		e.sink = sink
		e.requireEqual(t, w.source)
		require.Less(t, w.source.Reads()-before, 5, "one reading brings it to where the shared frames begin")
	})
}

func TestTooManyFollowersAndSnapshotsAreAskedToComeAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(c *replication.ServerConfig) { c.MaxFollowers, c.MaxSnapshots = 1, 1 })
		e := follow(t, w.network, nil)
		e.requireEqual(t, w.source)
		time.Sleep(time.Second)
		other := follow(t, w.network, nil)
		other.requireEqual(t, w.source) // by its snapshot
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.False(t, other.Status().Connected)
		e.stop()
		other.await(t, w.source.Commit(replicationtest.Link("aaaa", "https://a.example/")))
	})
}
