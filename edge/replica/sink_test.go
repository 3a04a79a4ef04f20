package replica_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

func TestDB_IsASink(t *testing.T) {
	testSink(t, func(t *testing.T) replicationtest.Replica {
		db := open(t, config(vfs.NewMem()))
		t.Cleanup(func() { requireDigest(t, db) })
		return db
	})
}

// Suites of other packages have the sink in memory in place of a replica.
func TestSinkInMemory_IsASink(t *testing.T) {
	testSink(t, func(*testing.T) replicationtest.Replica { return replicationtest.NewSink() })
}

// testSink tests the contract of replication.Sink on fresh, empty replicas that open
// makes.
func testSink(t *testing.T, open func(t *testing.T) replicationtest.Replica) {
	for name, test := range map[string]func(*testing.T, replicationtest.Replica){
		"an empty replica holds nothing and applies nothing":              sinkEmpty,
		"a restore brings every record and the position":                  sinkRestore,
		"batches apply in order and the rows follow":                      sinkApply,
		"a batch that leaves a gap or comes twice changes nothing":        sinkGap,
		"a batch of another epoch or stamp changes nothing":               sinkOtherEpoch,
		"a batch with another digest changes nothing":                     sinkDigest,
		"a batch with a broken record changes nothing":                    sinkBroken,
		"the last of several writes to a key in one transaction wins":     sinkSameKey,
		"a purge takes the record away":                                   sinkPurge,
		"a record that must not be served is held nevertheless":           sinkContent,
		"a heartbeat with another digest at the same position is noticed": sinkHeartbeat,
		"the tail of a restore does not undo newer slots":                 sinkTail,
		"an older record does not replace a newer one in a restore":       sinkOlderSlots,
		"a restore that ends in another digest is refused":                sinkRestoreDigest,
		"a restore that stops short of its highest position is refused":   sinkRestoreShort,
		"an aborted restore leaves the replica as it was":                 sinkAbort,
		"the old replica serves until a restore commits":                  sinkServesMeanwhile,
		"random histories end in the source's rows":                       sinkRandom,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// startedSink is a source with some rows, taken by the sink.
func startedSink(t *testing.T, sink replicationtest.Replica) *replicationtest.Source {
	s := replicationtest.NewSource()
	s.Commit(replicationtest.Link("aaaa", "https://a.example/"), replicationtest.Link("bbbb", "https://b.example/"))
	s.Commit(replicationtest.Link("cccc", "https://c.example/"))
	replicationtest.Take(t, s, sink)
	replicationtest.RequireEqual(t, s, sink)
	return s
}

// requireUnchanged applies a batch that must be refused with want.
func requireUnchanged(t *testing.T, sink replicationtest.Replica, b replication.Batch, want error) {
	t.Helper()
	rows, p := replicationtest.RowsOf(t, sink)
	require.ErrorIs(t, sink.Apply(t.Context(), &b), want)
	again, q := replicationtest.RowsOf(t, sink)
	require.Equal(t, rows, again)
	require.Equal(t, p, q)
	require.Equal(t, p, sink.Position())
}

func sinkEmpty(t *testing.T, sink replicationtest.Replica) {
	_, ok := sink.Cluster()
	require.False(t, ok)
	require.True(t, sink.Position().IsZero())
	s := replicationtest.NewSource()
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	s.Commit(replicationtest.Link("aaaa", "https://a.example/"))
	requireUnchanged(t, sink, replicationtest.ReadAfter(t, s, head.Position), replication.ErrDiverged)
	require.NoError(t, sink.Heartbeat(head))
}

func sinkRestore(t *testing.T, sink replicationtest.Replica) {
	s := startedSink(t, sink)
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	c, ok := sink.Cluster()
	require.True(t, ok)
	require.Equal(t, head.Cluster, c)

	s.NewHistory() // and of another history, over what is there
	s.Commit(replicationtest.Link("dddd", "https://d.example/"), replicationtest.Purge("aaaa"))
	replicationtest.Take(t, s, sink)
	replicationtest.RequireEqual(t, s, sink)
}

func sinkApply(t *testing.T, sink replicationtest.Replica) {
	s := startedSink(t, sink)
	s.Commit() // an empty transaction counts like any other
	s.Commit(replicationtest.Link("aaaa", "https://changed.example/"))
	gone := replicationtest.Link("bbbb", "https://b.example/")
	gone.State = waypost.Deleted
	s.Commit(gone)
	b := replicationtest.Next(t, s, sink)
	require.Len(t, b.Transactions, 3)
	require.NoError(t, sink.Apply(t.Context(), &b))
	replicationtest.RequireEqual(t, s, sink)
}

func sinkGap(t *testing.T, sink replicationtest.Replica) {
	s := startedSink(t, sink)
	s.Commit(replicationtest.Link("dddd", "https://d.example/"))
	s.Commit(replicationtest.Link("eeee", "https://e.example/"))
	s.Commit(replicationtest.Link("ffff", "https://f.example/"))
	b := replicationtest.Next(t, s, sink)
	late, holed := b, b
	late.Transactions = b.Transactions[1:]
	requireUnchanged(t, sink, late, replication.ErrDiverged)
	holed.Transactions = []replication.Transaction{b.Transactions[0], b.Transactions[2]}
	requireUnchanged(t, sink, holed, replication.ErrDiverged)
	require.NoError(t, sink.Apply(t.Context(), &b))
	requireUnchanged(t, sink, b, replication.ErrDiverged)
	replicationtest.RequireEqual(t, s, sink)
}

func sinkOtherEpoch(t *testing.T, sink replicationtest.Replica) {
	s := startedSink(t, sink)
	s.Commit(replicationtest.Link("dddd", "https://d.example/"))
	b := replicationtest.Next(t, s, sink)
	other := b
	other.Epoch.Ordinal++
	requireUnchanged(t, sink, other, replication.ErrDiverged)
	other = b
	other.Epoch.ID[3] ^= 1
	requireUnchanged(t, sink, other, replication.ErrDiverged)
}

func sinkDigest(t *testing.T, sink replicationtest.Replica) {
	s := startedSink(t, sink)
	s.Lie()
	s.Commit(replicationtest.Link("dddd", "https://d.example/"))
	requireUnchanged(t, sink, replicationtest.Next(t, s, sink), replication.ErrDiverged)
}

func sinkBroken(t *testing.T, sink replicationtest.Replica) {
	s := startedSink(t, sink)
	s.Commit(replicationtest.Link("dddd", "https://d.example/"), replicationtest.Link("eeee", "https://e.example/"))
	b := replicationtest.Next(t, s, sink)
	raw := slices.Clone(b.Transactions[0].Records[1])
	raw[len(raw)-1] ^= 1
	b.Transactions[0].Records = [][]byte{b.Transactions[0].Records[0], raw}
	requireUnchanged(t, sink, b, replication.ErrRecord)
}

func sinkSameKey(t *testing.T, sink replicationtest.Replica) {
	s := startedSink(t, sink)
	s.Commit(replicationtest.Link("dddd", "https://1.example/"), replicationtest.Link("dddd", "https://2.example/"))
	s.Commit(replicationtest.Link("dddd", "https://3.example/"), replicationtest.Purge("dddd"),
		replicationtest.Link("dddd", "https://4.example/"))
	s.Commit(replicationtest.Link("eeee", "https://e.example/"), replicationtest.Purge("eeee"))
	b := replicationtest.Next(t, s, sink)
	require.NoError(t, sink.Apply(t.Context(), &b))
	replicationtest.RequireEqual(t, s, sink)
}

func sinkPurge(t *testing.T, sink replicationtest.Replica) {
	s := startedSink(t, sink)
	s.Commit(replicationtest.Purge("aaaa"), replicationtest.Purge("never-was"))
	b := replicationtest.Next(t, s, sink)
	require.NoError(t, sink.Apply(t.Context(), &b))
	replicationtest.RequireEqual(t, s, sink)
	rows, _ := replicationtest.RowsOf(t, sink)
	require.Len(t, rows, 2)
}

func sinkContent(t *testing.T, sink replicationtest.Replica) {
	s := startedSink(t, sink)
	s.Commit(replicationtest.Link("evil", "https://a.example/\r\nSet-Cookie: x"))
	unknown := replicationtest.Link("kind", "?")
	unknown.Kind = 99
	s.Commit(unknown)
	b := replicationtest.Next(t, s, sink)
	require.NoError(t, sink.Apply(t.Context(), &b), "the rows must be held, or the digest cannot be right")
	replicationtest.RequireEqual(t, s, sink)
}

func sinkHeartbeat(t *testing.T, sink replicationtest.Replica) {
	s := startedSink(t, sink)
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	require.NoError(t, sink.Heartbeat(head))
	head.Digest ^= 1
	require.ErrorIs(t, sink.Heartbeat(head), replication.ErrDiverged)
	head.Position.Seq++
	require.NoError(t, sink.Heartbeat(head), "another position says nothing about the digest")
}

func sinkTail(t *testing.T, sink replicationtest.Replica) {
	s := replicationtest.NewSource()
	var codes []waypost.Record
	for i := range 64 {
		codes = append(codes, replicationtest.Link(fmt.Sprintf("code%03d", i), "https://first.example/"))
	}
	s.Commit(codes...)
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	r, err := sink.Restore(t.Context(), head.Cluster)
	require.NoError(t, err)
	replicationtest.BringSlots(t, s, r, 0, 2047)
	// Between the halves of the snapshot: changes, twice in a transaction, and a
	// purge, in both.
	for i := range codes {
		codes[i].Payload = []byte("https://second.example/")
	}
	s.Commit(append(codes, codes...)...)
	s.Commit(replicationtest.Purge("code001"), replicationtest.Purge("code002"), replicationtest.Purge("code003"),
		replicationtest.Purge("code004"))
	between, err := s.Head(t.Context())
	require.NoError(t, err)
	replicationtest.BringSlots(t, s, r, 2048, waypost.Slots-1)
	s.Commit(replicationtest.Link("after", "https://after.example/"))
	require.NoError(t, r.BeginTail(t.Context(), head.Position, between.Position))
	b := replicationtest.ReadAfter(t, s, head.Position)
	require.Len(t, b.Transactions, 3)
	one := b
	one.Transactions = b.Transactions[:1]
	require.NoError(t, r.Apply(t.Context(), &one), "below the highest position no digest is judged")
	b.Transactions = b.Transactions[1:]
	require.NoError(t, r.Apply(t.Context(), &b))
	require.NoError(t, r.Commit(t.Context(), b.Transactions[1].Digest))
	require.NoError(t, r.Abort())
	replicationtest.RequireEqual(t, s, sink)
}

func sinkOlderSlots(t *testing.T, sink replicationtest.Replica) {
	s := replicationtest.NewSource()
	s.Commit(replicationtest.Link("aaaa", "https://old.example/"))
	older := s.Rows()
	s.Commit(replicationtest.Link("aaaa", "https://new.example/"))
	r, head := replicationtest.BeginRestore(t, s, sink)
	require.NoError(t, r.Slots(t.Context(), s.Rows()), "the same again")
	require.NoError(t, r.Slots(t.Context(), older), "a part of a range, from a server that is a little behind")
	require.NoError(t, r.BeginTail(t.Context(), head.Position, head.Position))
	require.NoError(t, r.Commit(t.Context(), head.Digest))
	replicationtest.RequireEqual(t, s, sink)
}

func sinkRestoreDigest(t *testing.T, sink replicationtest.Replica) {
	s := startedSink(t, sink)
	s.NewHistory()
	r, head := replicationtest.BeginRestore(t, s, sink)
	require.NoError(t, r.BeginTail(t.Context(), head.Position, head.Position))
	before, p := replicationtest.RowsOf(t, sink)
	require.ErrorIs(t, r.Commit(t.Context(), head.Digest^1), replication.ErrDiverged)
	require.NoError(t, r.Abort())
	rows, q := replicationtest.RowsOf(t, sink)
	require.Equal(t, before, rows)
	require.Equal(t, p, q)

	r, head = replicationtest.BeginRestore(t, s, sink)
	s.Lie()
	s.Commit(replicationtest.Link("dddd", "https://d.example/"))
	b := replicationtest.ReadAfter(t, s, head.Position)
	require.NoError(t, r.BeginTail(t.Context(), head.Position, b.Last()))
	require.ErrorIs(t, r.Apply(t.Context(), &b), replication.ErrDiverged)
	require.NoError(t, r.Abort())
}

func sinkRestoreShort(t *testing.T, sink replicationtest.Replica) {
	s := startedSink(t, sink)
	r, head := replicationtest.BeginRestore(t, s, sink)
	require.NoError(t, r.BeginTail(t.Context(), head.Position, s.Commit()))
	require.ErrorIs(t, r.Commit(t.Context(), head.Digest), replication.ErrDiverged)
	require.NoError(t, r.Abort())
}

func sinkAbort(t *testing.T, sink replicationtest.Replica) {
	s := startedSink(t, sink)
	r, _ := replicationtest.BeginRestore(t, s, sink)
	require.NoError(t, r.Abort())
	require.NoError(t, r.Abort(), "again does nothing")
	replicationtest.RequireEqual(t, s, sink)
	replicationtest.Take(t, s, sink) // there is room for the next
	replicationtest.RequireEqual(t, s, sink)
}

func sinkServesMeanwhile(t *testing.T, sink replicationtest.Replica) {
	s := startedSink(t, sink)
	r, _ := replicationtest.BeginRestore(t, s, sink)
	replicationtest.RequireEqual(t, s, sink)
	s.Commit(replicationtest.Link("dddd", "https://d.example/"))
	b := replicationtest.Next(t, s, sink)
	require.NoError(t, sink.Apply(t.Context(), &b))
	replicationtest.RequireEqual(t, s, sink)
	require.NoError(t, r.Abort())
	replicationtest.RequireEqual(t, s, sink)
}

func sinkRandom(t *testing.T, sink replicationtest.Replica) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := replicationtest.NewSource()
	replicationtest.Take(t, s, sink)
	for range 60 {
		for range 1 + rng.IntN(4) {
			var rs []waypost.Record
			for range rng.IntN(8) {
				r := replicationtest.Link(fmt.Sprintf("code%02d", rng.IntN(30)), fmt.Sprintf("https://%d.example/", rng.Uint32()))
				r.State = waypost.State(rng.IntN(4))
				rs = append(rs, r)
			}
			s.Commit(rs...)
		}
		if rng.IntN(20) == 0 {
			s.NewHistory()
			replicationtest.Take(t, s, sink)
			continue
		}
		b := replicationtest.Next(t, s, sink)
		require.NoError(t, sink.Apply(t.Context(), &b))
		replicationtest.RequireEqual(t, s, sink)
	}
	replicationtest.RequireEqual(t, s, sink)
}
