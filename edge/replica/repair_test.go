package replica_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// fleet is a source that is served, and a replica that follows it.
type fleet struct {
	*replicationtest.Source
	db       *replica.DB
	follower *replication.Follower
	stop     func()
	url      string

	mu    sync.Mutex
	asked []string // snapshots and sums, by path and query
}

// newFleet begins with links "link00000" and so on, which the replica holds.
func newFleet(t *testing.T, cfg replica.Config, links int) *fleet {
	t.Helper()
	f := &fleet{Source: replicationtest.NewSource()}
	for i := range links {
		f.Commit(replicationtest.Link(linkCode(i), fmt.Sprintf("https://example.com/%d", i)))
	}
	f.serve(t)
	f.db = open(t, cfg)
	replicationtest.Take(t, f.Source, f.db)
	return f
}

// serve starts a server, which knows nothing of the source yet.
func (f *fleet) serve(t *testing.T) {
	t.Helper()
	f.serveSource(t, f.Source)
}

func (f *fleet) serveSource(t *testing.T, s replication.Source) {
	t.Helper()
	f.url = serve(t, s, func(r *http.Request) int {
		f.mu.Lock()
		defer f.mu.Unlock()
		if r.URL.Path != replication.PathStream {
			f.asked = append(f.asked, r.URL.Path+"?"+r.URL.RawQuery)
		}
		return 0
	})
}

func linkCode(i int) string { return fmt.Sprintf("link%05d", i) }

// follow lets the replica follow until stop.
func (f *fleet) follow(t *testing.T) {
	t.Helper()
	var err error
	f.follower, err = replication.NewFollower(replication.FollowConfig{
		URL: f.url, Sink: f.db, Logger: slog.New(slog.DiscardHandler), SnapshotBackoffMin: time.Millisecond, BackoffMin: time.Millisecond,
		HoldRetry: time.Second, Silence: time.Hour,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.follower.Run(ctx) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	t.Cleanup(f.stop)
}

// settle waits until the replica and its follower report the source's state, and compares
// every record.
func (f *fleet) settle(t *testing.T) {
	t.Helper()
	head, err := f.Head(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		st := f.follower.Status()
		return f.db.Position() == head.Position && !f.db.Repairing() && !st.Repairing && st.Position == head.Position
	}, 60*time.Second, time.Millisecond)
	replicationtest.RequireEqual(t, f.Source, f.db)
	requireDigest(t, f.db)
	require.Eventually(t, func() bool { return f.db.Synced() == head.Position }, 60*time.Second, time.Millisecond)
}

// requests returns the requests since the last call.
func (f *fleet) requests() (asked []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked, f.asked = f.asked, nil
	return asked
}

// target returns the target of a link, "" when the link is not live.
func (f *fleet) target(t *testing.T, code string) string {
	t.Helper()
	var r waypost.Record
	_, found, err := f.db.Link(waypost.DefaultDomain, []byte(code), nil, &r)
	require.NoError(t, err)
	if !found || r.State != waypost.Live {
		return ""
	}
	return string(r.Payload)
}

func deleted(code string) waypost.Record {
	r := replicationtest.Link(code, "")
	r.State = waypost.Deleted
	return r
}

func TestRepair_ReplacesOnlyDifferingSlots(t *testing.T) {
	f := newFleet(t, config(vfs.NewMem()), 3000)
	f.follow(t)
	f.settle(t)
	store := f.db.LiveStore()
	restore := f.Backup()
	for i := range 5 { // newer in the lost history than any change of the next one
		f.Commit(replicationtest.Link(linkCode(7), fmt.Sprintf("https://lost.example/%d", i)))
	}
	f.Commit(replicationtest.Link("onlylost", "https://lost.example/"), deleted(linkCode(8)), replicationtest.Purge(linkCode(9)))
	f.settle(t)

	done, reading := make(chan struct{}), sync.WaitGroup{}
	reading.Go(func() { // the replica serves during the repair
		buf := make([]byte, 0, 1024)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			code := linkCode(10 + i%2000)
			var r waypost.Record
			_, found, err := f.db.Link(waypost.DefaultDomain, []byte(code), buf, &r)
			if err != nil || !found || string(r.Payload) != fmt.Sprintf("https://example.com/%d", 10+i%2000) {
				t.Errorf("%s: %v %v %s", code, found, err, r.Payload)
				return
			}
		}
	})
	f.requests()
	restore()
	f.Commit(replicationtest.Link("newone", "https://new.example/"))
	f.settle(t)
	close(done)
	reading.Wait()

	require.Equal(t, "https://example.com/7", f.target(t, linkCode(7)))
	require.Equal(t, "https://example.com/8", f.target(t, linkCode(8)), "its deletion is undone")
	require.Equal(t, "https://example.com/9", f.target(t, linkCode(9)))
	require.Empty(t, f.target(t, "onlylost"))
	require.Equal(t, "https://new.example/", f.target(t, "newone"))

	require.Equal(t, store, f.db.LiveStore(), "no snapshot was taken")
	require.Equal(t, 1, f.follower.Status().Repairs)
	slots := map[uint16]bool{}
	for _, code := range []string{linkCode(7), linkCode(8), linkCode(9), "onlylost"} {
		slots[waypost.Slot(waypost.KindLink, waypost.DefaultDomain, []byte(code))] = true
	}
	newone := waypost.Slot(waypost.KindLink, waypost.DefaultDomain, []byte("newone"))
	replaced := int(f.follower.Status().Repaired)
	require.True(t, replaced == len(slots) || replaced == len(slots)+1 && !slots[newone], "%d slots were replaced", replaced)
	asked := f.requests()
	require.Len(t, asked, 2, "%v", asked)
	require.Contains(t, asked[1], "slots=")
}

// spoilt returns ways to damage a store.
func spoilt() map[string]func(*fleet) error {
	return map[string]func(*fleet) error{
		"a byte of a record": func(f *fleet) error { return f.db.Overwrite(linkCode(7), []byte("not a record")) },
		"another's record":   func(f *fleet) error { return f.db.Overwrite(linkCode(7), f.Rows()[0]) },
		"a record removed":   func(f *fleet) error { return f.db.Remove(linkCode(7)) },
		"a record added": func(f *fleet) error {
			r := replicationtest.Link("added", "https://added.example/")
			r.Revision, r.Stamp = waypost.Revision{Epoch: 1, Seq: 2}, 77
			return f.db.Add(replication.AppendRecord(nil, &r))
		},
	}
}

func TestRepair_MendsDamage(t *testing.T) {
	for name, spoil := range spoilt() {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, config(vfs.NewMem()), 500)
			store := f.db.LiveStore()
			require.NoError(t, spoil(f))
			f.db.Suspect(fmt.Errorf("somebody says so"))
			require.Error(t, f.db.Degraded())
			f.Commit(replicationtest.Link(linkCode(3), "https://changed.example/"))
			f.follow(t)
			f.settle(t)
			require.Equal(t, "https://example.com/7", f.target(t, linkCode(7)))
			require.NoError(t, f.db.Degraded())
			require.Equal(t, store, f.db.LiveStore())
			require.EqualValues(t, 1, f.follower.Status().Repaired)
		})
	}
}

func TestRepair_OfTooMuchBecomesASnapshot(t *testing.T) {
	f := newFleet(t, config(vfs.NewMem()), 10)
	restore := f.Backup()
	for range 8 {
		var rs []waypost.Record
		for range 1000 {
			rs = append(rs, replicationtest.Link(fmt.Sprintf("lost%d", rand.Uint32()), "https://lost.example/"))
		}
		f.Commit(rs...)
		apply(t, f.Source, f.db)
	}
	restore()
	store := f.db.LiveStore()
	f.follow(t)
	f.settle(t)
	require.NotEqual(t, store, f.db.LiveStore())
	require.Zero(t, f.follower.Status().Repairs)
}

func TestRepair_WithAnotherDigestBecomesASnapshot(t *testing.T) {
	f := newFleet(t, config(vfs.NewMem()), 100)
	restore := f.Backup()
	f.Commit(replicationtest.Link(linkCode(7), "https://lost.example/"))
	apply(t, f.Source, f.db)
	restore()
	f.Lie()
	f.follow(t)
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return slices.ContainsFunc(f.asked, func(s string) bool { return s == replication.PathSnapshot+"?first=0" })
	}, 60*time.Second, time.Millisecond)
	require.True(t, f.db.Repairing(), "until there is a snapshot that holds")
	require.True(t, f.db.Synced().IsZero())
	f.Lie()
	f.settle(t)
}

func TestRepair_IsResumedByTheFollower(t *testing.T) {
	f := newFleet(t, replica.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}, 300)
	restore := f.Backup()
	f.Commit(replicationtest.Link(linkCode(1), "https://lost.example/"), replicationtest.Link(linkCode(2), "https://lost.example/"))
	apply(t, f.Source, f.db)
	restore()
	head, err := f.Head(t.Context())
	require.NoError(t, err)
	r, err := f.db.Repair(t.Context(), head.Cluster, head.Position.Epoch)
	require.NoError(t, err)
	_, err = r.Sums(t.Context())
	require.NoError(t, err)
	slot := waypost.Slot(waypost.KindLink, waypost.DefaultDomain, []byte(linkCode(1)))
	require.NoError(t, r.Replace(t.Context(), slot, slot, nil, head.Position.Seq))
	require.NoError(t, r.Abort())
	require.True(t, f.db.Repairing())
	store := f.db.LiveStore()
	f.follow(t)
	f.settle(t)
	require.Equal(t, store, f.db.LiveStore())
}

// A repair first applies batches of its own history. If one of their changes was left
// out, a position would claim that the change is there.
func TestRepair_HasNoPositionAfterAnOmittedChange(t *testing.T) {
	f := newFleet(t, config(vfs.NewMem()), 100)
	before := f.db.Position()
	f.Commit(replicationtest.Link("missing", "https://example.com/"))
	b, err := f.Read(t.Context(), before, 10)
	require.NoError(t, err)
	b.Transactions[0].Records = nil
	f.db.Suspect(fmt.Errorf("somebody says so"))
	head, err := f.Head(t.Context())
	require.NoError(t, err)
	r, err := f.db.Repair(t.Context(), head.Cluster, head.Position.Epoch)
	require.NoError(t, err)
	require.NoError(t, r.Apply(t.Context(), &b))
	require.Equal(t, waypost.Position{Epoch: before.Epoch}, f.db.Position())
	require.True(t, f.db.Repairing())
	require.NoError(t, r.Abort())
	f.follow(t)
	f.settle(t)
	require.Equal(t, "https://example.com/", f.target(t, "missing"))
}

func TestRepair_MendsRandomLostHistories(t *testing.T) {
	f := newFleet(t, config(vfs.NewMem()), 50)
	f.follow(t)
	rng := rand.New(rand.NewPCG(5, 6))
	write := func(times int) {
		for range times {
			var rs []waypost.Record
			for range rng.IntN(6) {
				r := replicationtest.Link(linkCode(rng.IntN(80)), fmt.Sprintf("https://%d.example/", rng.Uint32()))
				r.State = waypost.State(rng.IntN(4))
				rs = append(rs, r)
			}
			f.Commit(rs...)
		}
	}
	for range 12 {
		write(rng.IntN(5))
		restore := f.Backup()
		write(rng.IntN(8))
		if rng.IntN(2) == 0 {
			f.settle(t)
		}
		restore()
		write(rng.IntN(4))
		f.settle(t)
	}
	require.Zero(t, f.follower.Status().Snapshots)
}

func TestRepair_TailUndoesNoLaterSlot(t *testing.T) {
	f := newFleet(t, config(vfs.NewMem()), 20)
	f.Commit(replicationtest.Link("before", "https://lost.example/"))
	restore := f.Backup()
	f.Commit(replicationtest.Link("before", "https://lost.example/2"))
	apply(t, f.Source, f.db)
	restore()
	lowest, err := f.Head(t.Context())
	require.NoError(t, err)
	f.Commit(replicationtest.Link("shortly", "https://short.example/"), replicationtest.Link("before", "https://now.example/"))
	f.Commit(replicationtest.Purge("shortly"))
	head, err := f.Head(t.Context())
	require.NoError(t, err)

	r, err := f.db.Repair(t.Context(), head.Cluster, head.Position.Epoch)
	require.NoError(t, err)
	_, err = r.Sums(t.Context())
	require.NoError(t, err)
	var at [waypost.Slots]uint64
	for slot := range at {
		at[slot] = lowest.Position.Seq
	}
	require.NoError(t, r.Follow(&at, lowest.Position))
	for _, code := range []string{"shortly", "before"} {
		slot := waypost.Slot(waypost.KindLink, waypost.DefaultDomain, []byte(code))
		var records [][]byte
		_, err := f.Snapshot(t.Context(), slot, slot, func(raw []byte) error {
			records = append(records, slices.Clone(raw))
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, r.Replace(t.Context(), slot, slot, records, head.Position.Seq))
	}
	tail, err := f.Read(t.Context(), lowest.Position, 100)
	require.NoError(t, err)
	require.Len(t, tail.Transactions, 2)
	last := tail
	last.Transactions, tail.Transactions = tail.Transactions[1:], tail.Transactions[:1]
	require.NoError(t, r.Apply(t.Context(), &tail))
	require.Empty(t, f.target(t, "shortly"), "its deletion was seen")
	require.Equal(t, "https://now.example/", f.target(t, "before"))
	require.ErrorIs(t, r.Commit(t.Context(), head.Digest^1), replication.ErrDiverged)
	require.NoError(t, r.Apply(t.Context(), &last))
	require.NoError(t, r.Commit(t.Context(), head.Digest))
	replicationtest.RequireEqual(t, f.Source, f.db)
}
