package replica_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// keeping configures a replica that others may follow.
func keeping(fs vfs.FS) replica.Config {
	cfg := config(fs)
	cfg.LogBytes = 8 << 20
	return cfg
}

// passedOn is a replica that the suite of sources reads, and the changelog that it
// follows.
type passedOn struct {
	*replica.DB
	origin *replicationtest.Source
	settle func(t testing.TB) // waits until the replica has the origin's position
}

func (p *passedOn) Put(t testing.TB, codes ...string) {
	t.Helper()
	p.origin.Put(t, codes...)
	p.settle(t)
}

func (p *passedOn) Delete(t testing.TB, code string) {
	t.Helper()
	p.origin.Delete(t, code)
	p.settle(t)
}

func (p *passedOn) Forget(t testing.TB) {
	t.Helper()
	require.NoError(t, p.ForgetLog())
}

func (p *passedOn) Fork(t testing.TB) {
	t.Helper()
	p.origin.NewHistory()
	p.settle(t)
}

func TestDB_IsASource(t *testing.T) {
	replicationtest.TestSource(t, func(t *testing.T) replicationtest.Changelog {
		p := &passedOn{DB: open(t, keeping(vfs.NewMem())), origin: replicationtest.NewSource()}
		replicationtest.Take(t, p.origin, p.DB)
		p.settle = func(t testing.TB) {
			t.Helper()
			head, err := p.origin.Head(t.Context())
			require.NoError(t, err)
			if head.Position.Epoch != p.Position().Epoch {
				replicationtest.Take(t, p.origin, p.DB)
			} else {
				apply(t, p.origin, p.DB)
			}
			require.NoError(t, p.Heartbeat(head))
		}
		return p
	})
}

// A tree has a source, a replica that follows it, and one that follows that, over HTTP.
func TestDB_BehindARelayIsASource(t *testing.T) {
	replicationtest.TestSource(t, func(t *testing.T) replicationtest.Changelog {
		tree := newTree(t)
		return &passedOn{DB: tree.leaf, origin: tree.origin, settle: tree.settle}
	})
}

type tree struct {
	origin      *replicationtest.Source
	relay, leaf *replica.DB
	relayURL    string
}

func newTree(t *testing.T) *tree {
	t.Helper()
	r := &tree{origin: replicationtest.NewSource(), relay: open(t, keeping(vfs.NewMem())), leaf: open(t, keeping(vfs.NewMem()))}
	stop := following(t, serve(t, r.origin, nil), r.relay)
	r.relayURL = serve(t, r.relay, nil)
	stopLeaf := following(t, r.relayURL, r.leaf)
	t.Cleanup(func() { stopLeaf(); stop() })
	r.settle(t)
	return r
}

func (r *tree) settle(t testing.TB) {
	t.Helper()
	head, err := r.origin.Head(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		at, err := r.leaf.Head(t.Context())
		return err == nil && at.Position == head.Position && at.At > 0
	}, 60*time.Second, time.Millisecond)
}

func TestSource_PassesFramesUnchanged(t *testing.T) {
	r := newTree(t)
	from := r.leaf.Position()
	for i := range 20 {
		r.origin.Commit(replicationtest.Link(fmt.Sprintf("code%03d", i), "https://example.com/"))
	}
	r.settle(t)
	replicationtest.RequireEqual(t, r.origin, r.relay)
	replicationtest.RequireEqual(t, r.origin, r.leaf)
	for at := from; at != r.leaf.Position(); {
		one, err := r.relay.Read(t.Context(), at, 1000)
		require.NoError(t, err)
		other, err := r.leaf.Read(t.Context(), at, 1000)
		require.NoError(t, err)
		require.Equal(t, one.Frame, other.Frame)
		require.NotEmpty(t, one.Frame)
		at = other.Last()
	}
}

// A follower in the middle of a batch gets the whole batch, and skips the part that it
// has.
func TestSource_ServesFollowersInsideABatch(t *testing.T) {
	s := replicationtest.NewSource()
	relay, follower := open(t, keeping(vfs.NewMem())), open(t, config(vfs.NewMem()))
	replicationtest.Take(t, s, relay)
	replicationtest.Take(t, s, follower)
	for i := range 10 {
		s.Commit(replicationtest.Link(fmt.Sprintf("code%03d", i), "https://example.com/"))
	}
	b := replicationtest.Next(t, s, follower)
	b.Transactions = b.Transactions[:4]
	require.NoError(t, follower.Apply(t.Context(), &b))
	apply(t, s, relay) // as one batch
	batches, _ := relay.LogSize()
	require.Equal(t, 1, batches)
	at := follower.Position()
	got, err := relay.Read(t.Context(), at, 1)
	require.NoError(t, err)
	require.Equal(t, at.Seq+1, got.Transactions[0].Seq)
	wrong := at
	wrong.Stamp++
	_, err = relay.Read(t.Context(), wrong, 1)
	require.ErrorIs(t, err, replication.ErrOtherHistory)

	stop := following(t, serve(t, relay, nil), follower)
	require.Eventually(t, func() bool { return follower.Position() == relay.Position() }, 60*time.Second, time.Millisecond)
	stop()
	replicationtest.RequireEqual(t, s, follower)
}

func TestLog_IsBoundedInBytesAndAge(t *testing.T) {
	cfg := keeping(vfs.NewMem())
	cfg.LogBytes = 64 << 10
	db, s := filled(t, cfg, 1)
	from := db.Position()
	for i := range 600 {
		s.Commit(replicationtest.Link(fmt.Sprintf("code%04d", i), fmt.Sprintf("https://example.com/%0512d", i)))
		apply(t, s, db)
		_, size := db.LogSize()
		require.Less(t, size, 96<<10)
	}
	batches, size := db.LogSize()
	require.Greater(t, size, 32<<10)
	_, err := db.Read(t.Context(), from, 10)
	require.ErrorIs(t, err, replication.ErrTrimmed)
	at := db.Position()
	at.Seq -= uint64(batches) / 2
	_, err = db.Read(t.Context(), at, 10)
	require.ErrorIs(t, err, replication.ErrOtherHistory, "its stamp is checked")
}

func TestLog_SurvivesARestart(t *testing.T) {
	fs := vfs.NewMem()
	db, s := filledOn(t, fs, 10)
	from := db.Position()
	s.Put(t, "after1")
	apply(t, s, db)
	require.NoError(t, db.Close())

	db, err := replica.Open(keeping(fs))
	require.NoError(t, err)
	b, err := db.Read(t.Context(), from, 10)
	require.NoError(t, err)
	require.Len(t, b.Transactions, 1)
	head, err := db.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, b.Transactions[0].At, head.At, "the time of the last transaction is known from the log")
	require.NoError(t, db.Close())

	db, err = replica.Open(config(fs)) // which keeps no log
	require.NoError(t, err)
	s.Put(t, "after2")
	apply(t, s, db)
	require.NoError(t, db.Close())

	db, err = replica.Open(keeping(fs))
	require.NoError(t, err)
	_, err = db.Read(t.Context(), from, 10)
	require.ErrorIs(t, err, replication.ErrTrimmed)
	s.Put(t, "after3")
	apply(t, s, db)
	batches, _ := db.LogSize()
	require.Equal(t, 1, batches)
	require.NoError(t, db.Close())
}

func filledOn(t *testing.T, fs vfs.FS, n int) (*replica.DB, *replicationtest.Source) {
	t.Helper()
	db, err := replica.Open(keeping(fs))
	require.NoError(t, err)
	s := replicationtest.NewSource()
	for i := range n {
		s.Commit(replicationtest.Link(fmt.Sprintf("code%04d", i), "https://example.com/"))
	}
	replicationtest.Take(t, s, db)
	return db, s
}

func TestSource_RefusesAnIncompleteReplica(t *testing.T) {
	s := replicationtest.NewSource()
	db := open(t, keeping(vfs.NewMem()))
	requireNoSource := func(why string) {
		t.Helper()
		_, err := db.Head(t.Context())
		require.ErrorIs(t, err, replication.ErrNoSource, why)
		_, err = db.Read(t.Context(), waypost.Position{}, 1)
		require.ErrorIs(t, err, replication.ErrNoSource, why)
		_, err = db.Snapshot(t.Context(), 0, 1, func([]byte) error { return nil })
		require.ErrorIs(t, err, replication.ErrNoSource, why)
		_, _, err = db.Sums(t.Context(), 0, 1)
		require.ErrorIs(t, err, replication.ErrNoSource, why)
	}
	requireNoSource("it is empty")
	replicationtest.Take(t, s, db)
	head, err := db.Head(t.Context())
	require.NoError(t, err)

	restore, err := db.Restore(t.Context(), head.Cluster)
	require.NoError(t, err)
	requireNoSource("a restore is under way")
	require.NoError(t, restore.Abort())
	_, err = db.Head(t.Context())
	require.NoError(t, err)

	repair, err := db.Repair(t.Context(), head.Cluster, head.Position.Epoch)
	require.NoError(t, err)
	requireNoSource("a repair is under way")
	require.NoError(t, repair.Abort())

	head.Digest++
	require.ErrorIs(t, db.Heartbeat(head), replication.ErrDiverged)
	requireNoSource("it differs from its source")
	s.Put(t, "code1")
	apply(t, s, db)
	_, err = db.Head(t.Context())
	require.NoError(t, err, "the digest of later batches is right")
}

// Two relays that follow each other do not make each other look fresh.
func TestSource_HeadHasTheOriginsTime(t *testing.T) {
	s := replicationtest.NewSource()
	a, b := open(t, keeping(vfs.NewMem())), open(t, keeping(vfs.NewMem()))
	replicationtest.Take(t, s, a)
	replicationtest.Take(t, s, b)
	origin, err := s.Head(t.Context())
	require.NoError(t, err)
	origin.At = time.Now().Add(-time.Hour).UnixMilli()
	require.NoError(t, a.Heartbeat(origin))

	statuses := make(chan replication.Status, 2)
	for _, pair := range [][2]*replica.DB{{a, b}, {b, a}} {
		f, err := replication.NewFollower(replication.FollowConfig{
			URL: serve(t, pair[0], nil), Sink: pair[1], Logger: slog.New(slog.DiscardHandler), Node: "here", Silence: time.Hour,
		})
		require.NoError(t, err)
		stop := run(t, f.Run)
		require.Eventually(t, func() bool { return f.Status().Connected && !f.Status().HeardAt.IsZero() }, 60*time.Second, time.Millisecond)
		heard := f.Status().HeardAt
		require.Eventually(t, func() bool { return f.Status().HeardAt.After(heard) }, 60*time.Second, time.Millisecond)
		statuses <- f.Status()
		t.Cleanup(stop)
	}
	for range 2 {
		st := <-statuses
		require.Equal(t, origin.At, st.Head.At)
		require.Greater(t, time.Since(st.AdvancedAt), 59*time.Minute)
	}
	for _, db := range []*replica.DB{a, b} {
		require.Equal(t, origin.At, db.Origin().At)
	}
}
