package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// keptHeads is a store that remembers what it is to keep.
type keptHeads struct {
	synced waypost.Position
	err    error

	mu    sync.Mutex
	heads []headSeen
}

func (k *keptHeads) Sync() error              { return nil }
func (k *keptHeads) Synced() waypost.Position { return k.synced }
func (k *keptHeads) keepHead(h headSeen) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.heads = append(k.heads, h)
	}
	return k.err
}

func (k *keptHeads) kept() []headSeen {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.heads)
}

func positionAt(epoch uint32, seq uint64) waypost.Position {
	return waypost.Position{Epoch: waypost.Epoch{Ordinal: epoch}, Seq: seq}
}

// atHead is the status of a follower whose replica is at the head.
func atHead(at time.Time) replication.Status {
	p := positionAt(1, 5)
	return replication.Status{Position: p, Head: replication.Head{Position: p, At: at.UnixMilli()}, HeardAt: at, AdvancedAt: at}
}

func TestAnEdgeThatStartsAgainIsAsOldAsItsReplica(t *testing.T) {
	const days = 72 * time.Hour
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // in each bubble
	for name, c := range map[string]struct {
		seen time.Time
		age  time.Duration
	}{
		"nothing is remembered: it counts from its start":   {},
		"it was at the head days ago":                       {now.Add(-days), days},
		"it was at the head a moment ago":                   {now.Add(-time.Second), time.Second},
		"it was at the head just now":                       {now, 0},
		"the clock was set back: it is no younger than new": {now.Add(time.Hour), 0},
		"it was at the head longer ago than can be counted": {time.Unix(0, 0).AddDate(-500, 0, 0), 1<<62 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f freshness
				f.startAt(time.Now(), headSeen{at: c.seen})
				require.Equal(t, c.age, f.age())
				time.Sleep(2 * time.Second)
				f.noteStatus(replication.Status{})
				require.Equal(t, c.age+2*time.Second, f.age())

				f.noteStatus(atHead(time.Now()))
				require.Zero(t, f.age())
				require.Zero(t, testing.AllocsPerRun(10, func() { f.age() }), "redirects ask")
			})
		})
	}
}

func TestOnlyAReplicaAtTheHeadGetsYounger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f freshness
		f.startAt(time.Now(), headSeen{at: time.Now().Add(-time.Minute).Round(0)})
		for name, change := range map[string]func(*replication.Status){
			"it is behind":                       func(st *replication.Status) { st.Position.Seq-- },
			"the control plane has a new epoch":  func(st *replication.Status) { st.Head.Position = positionAt(2, 5) },
			"it is repaired":                     func(st *replication.Status) { st.Repairing = true },
			"nothing was heard":                  func(st *replication.Status) { st.HeardAt = time.Time{} },
			"nobody knows of when it is":         func(st *replication.Status) { st.AdvancedAt = time.Time{} },
			"a relay has heard of it before":     func(st *replication.Status) { st.AdvancedAt = time.Now().Add(-2 * time.Minute) },
			"it is what was remembered, exactly": func(st *replication.Status) { st.AdvancedAt = time.Now().Add(-time.Minute).Round(0) },
		} {
			st := atHead(time.Now())
			change(&st)
			f.noteStatus(st)
			require.Equal(t, time.Minute, f.age(), name)
			require.Nil(t, f.latest.Load(), name)
		}
		st := atHead(time.Now())
		st.AdvancedAt = time.Now().Add(-10 * time.Second).Round(0)
		f.noteStatus(st)
		require.Equal(t, 10*time.Second, f.age(), "through a relay that is cut off since")

		// With nothing remembered, one that is cut off reports that the replica is older than
		// this process.
		var other freshness
		other.startAt(time.Now(), headSeen{})
		st.AdvancedAt = time.Now().Add(-time.Hour).Round(0)
		other.noteStatus(st)
		require.Equal(t, time.Hour, other.age())
	})
}

func TestTheAgeIsKeptAtOnceAndThenEveryTenSecondsWhileItMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f freshness
		f.startAt(time.Now(), headSeen{})
		store, log := &keptHeads{synced: positionAt(1, 5)}, slog.New(slog.DiscardHandler)
		var cut atomic.Bool
		var heard time.Time
		last := func() headSeen { all := store.kept(); return all[len(all)-1] }
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.watch(ctx, func() replication.Status {
			if !cut.Load() {
				heard = time.Now().Truncate(time.Second) // as the origin is heard of
			}
			return atHead(heard)
		})
		go f.run(ctx, func() { f.save(store, log) })
		synctest.Wait()
		require.Len(t, store.kept(), 1, "a crash now must not make it younger")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, store.kept(), 7)
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
			synctest.Wait()
			// What a process that starts after a crash would say.
			var next freshness
			next.startAt(time.Now(), last())
			require.GreaterOrEqual(t, next.age(), f.age())
			require.LessOrEqual(t, next.age()-f.age(), keepEvery+time.Second)
		}
		cut.Store(true)
		time.Sleep(2 * keepEvery)
		synctest.Wait()
		n := len(store.kept())
		require.Equal(t, heard.UnixMilli(), last().at.UnixMilli())
		require.Equal(t, heard.UnixMilli(), last().origin)
		time.Sleep(time.Hour)
		f.save(store, log)
		require.Len(t, store.kept(), n, "nothing is written while nothing is heard")
	})
}

func TestWhatACrashWouldTakeBackIsNotKeptAndAFullDiskIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f freshness
		f.startAt(time.Now(), headSeen{})
		var said bytes.Buffer
		store, log := new(keptHeads), slog.New(slog.NewTextHandler(&said, nil))
		try := func() { time.Sleep(time.Second); f.noteStatus(atHead(time.Now())); f.save(store, log) }
		for _, store.synced = range []waypost.Position{{}, positionAt(1, 4), positionAt(2, 5)} {
			try()
			require.Empty(t, store.kept(), store.synced)
		}
		store.synced, store.err = positionAt(1, 6), errors.New("no space left")
		try()
		try()
		require.Equal(t, 1, strings.Count(said.String(), "no space left"))
		store.err = nil
		f.save(store, log)
		require.Len(t, store.kept(), 1)
		store.err = errors.New("no space left")
		try()
		require.Equal(t, 2, strings.Count(said.String(), "no space left"), "once more")
	})
}

// TestAControlPlaneThatHearsNothingOfPostgreSQLMakesNoEdgeYoung is with a control plane
// that repeats the head that it has heard last.
func TestAControlPlaneThatHearsNothingOfPostgreSQLMakesNoEdgeYoung(t *testing.T) {
	source := replicationtest.NewSource()
	source.Commit(replicationtest.Link("code", "https://example.com/"))
	web := httptest.NewServer(changelogServer(t, replication.ServerConfig{Source: source}))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	store := relayed(t)
	before, stop := followerOf(t, web.URL, store, nil)
	synced := func(f *replication.Follower) bool { lag, known := f.Status().Lag(); return known && lag == 0 }
	require.Eventually(t, func() bool { return synced(before) }, time.Minute, time.Millisecond)
	source.Fail(errors.New("the database is away"))
	stop()

	seen := headSeen{at: time.Now().Add(-time.Hour), origin: time.Now().UnixMilli()} // nothing of later is heard
	var f freshness
	f.startAt(time.Now(), seen)
	after, err := replication.NewFollower(replication.FollowConfig{
		URL: web.URL, Sink: store, Silence: time.Minute, Logger: slog.New(slog.DiscardHandler), Before: seen.heard(f.start),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = after.Run(ctx) }() // it ends with the context
	t.Cleanup(func() { cancel(); <-ended })
	require.Eventually(t, func() bool { return after.Status().Connected && synced(after) }, time.Minute, time.Millisecond)
	f.noteStatus(after.Status())
	require.GreaterOrEqual(t, f.age(), time.Hour)

	source.Fail(nil)
	require.Eventually(t, func() bool { f.noteStatus(after.Status()); return f.age() < time.Minute }, time.Minute, time.Millisecond)
}
