package replicationtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
)

// Replica is a Sink that can read its records back.
type Replica interface {
	replication.Sink
	// Records visits every record held, and returns the position at which it was read.
	Records(ctx context.Context, visit func(record []byte) error) (waypost.Position, error)
}

// TestSink tests the contract of Sink on fresh, empty replicas that open makes.
func TestSink(t *testing.T, open func(t *testing.T) Replica) {
	for name, test := range map[string]func(*testing.T, Replica){
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

// Take restores the sink from the source as a follower does.
func Take(t testing.TB, s *Source, sink replication.Sink) {
	t.Helper()
	r, head := beginRestore(t, s, sink)
	require.NoError(t, r.BeginTail(t.Context(), head.Position, head.Position))
	require.NoError(t, r.Commit(t.Context(), head.Digest))
	require.NoError(t, r.Abort())
}

// beginRestore brings all slots as they are.
func beginRestore(t testing.TB, s *Source, sink replication.Sink) (replication.Restore, replication.Head) {
	t.Helper()
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	r, err := sink.Restore(t.Context(), head.Cluster)
	require.NoError(t, err)
	bringSlots(t, s, r, 0, waypost.Slots-1)
	return r, head
}

func bringSlots(t testing.TB, s *Source, r replication.Restore, first, last uint16) {
	t.Helper()
	_, err := s.Snapshot(t.Context(), first, last, func(raw []byte) error {
		return r.Slots(t.Context(), [][]byte{raw})
	})
	require.NoError(t, err)
}

// Next reads the batch after the sink's position.
func Next(t testing.TB, s *Source, sink replication.Sink) replication.Batch {
	t.Helper()
	return after(t, s, sink.Position())
}

func after(t testing.TB, s *Source, p waypost.Position) replication.Batch {
	t.Helper()
	b, err := s.Read(t.Context(), p, 1000)
	require.NoError(t, err)
	return b
}

// RequireEqual compares the replica with the source, record by record, and the
// positions.
func RequireEqual(t testing.TB, s *Source, sink Replica) {
	t.Helper()
	at, err := s.Head(t.Context())
	require.NoError(t, err)
	got, p := rowsOf(t, sink)
	require.Equal(t, at.Position, p)
	require.Equal(t, at.Position, sink.Position())
	require.Equal(t, s.Rows(), got)
	require.NoError(t, sink.Heartbeat(at), "the digest")
}

func rowsOf(t testing.TB, sink Replica) ([][]byte, waypost.Position) {
	t.Helper()
	var all [][]byte
	p, err := sink.Records(t.Context(), func(raw []byte) error {
		all = append(all, slices.Clone(raw))
		return nil
	})
	require.NoError(t, err)
	slices.SortFunc(all, slices.Compare)
	return all, p
}

// started is a source with some rows, taken by the sink.
func started(t *testing.T, sink Replica) *Source {
	s := NewSource()
	s.Commit(Link("aaaa", "https://a.example/"), Link("bbbb", "https://b.example/"))
	s.Commit(Link("cccc", "https://c.example/"))
	Take(t, s, sink)
	RequireEqual(t, s, sink)
	return s
}

// requireUnchanged applies a batch that must be refused with want.
func requireUnchanged(t *testing.T, sink Replica, b replication.Batch, want error) {
	t.Helper()
	rows, p := rowsOf(t, sink)
	require.ErrorIs(t, sink.Apply(t.Context(), &b), want)
	again, q := rowsOf(t, sink)
	require.Equal(t, rows, again)
	require.Equal(t, p, q)
	require.Equal(t, p, sink.Position())
}

func sinkEmpty(t *testing.T, sink Replica) {
	_, ok := sink.Cluster()
	require.False(t, ok)
	require.True(t, sink.Position().IsZero())
	s := NewSource()
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	s.Commit(Link("aaaa", "https://a.example/"))
	requireUnchanged(t, sink, after(t, s, head.Position), replication.ErrDiverged)
	require.NoError(t, sink.Heartbeat(head))
}

func sinkRestore(t *testing.T, sink Replica) {
	s := started(t, sink)
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	c, ok := sink.Cluster()
	require.True(t, ok)
	require.Equal(t, head.Cluster, c)

	s.NewHistory() // and of another history, over what is there
	s.Commit(Link("dddd", "https://d.example/"), Purge("aaaa"))
	Take(t, s, sink)
	RequireEqual(t, s, sink)
}

func sinkApply(t *testing.T, sink Replica) {
	s := started(t, sink)
	s.Commit() // an empty transaction counts like any other
	s.Commit(Link("aaaa", "https://changed.example/"))
	gone := Link("bbbb", "https://b.example/")
	gone.State = waypost.Deleted
	s.Commit(gone)
	b := Next(t, s, sink)
	require.Len(t, b.Transactions, 3)
	require.NoError(t, sink.Apply(t.Context(), &b))
	RequireEqual(t, s, sink)
}

func sinkGap(t *testing.T, sink Replica) {
	s := started(t, sink)
	s.Commit(Link("dddd", "https://d.example/"))
	s.Commit(Link("eeee", "https://e.example/"))
	s.Commit(Link("ffff", "https://f.example/"))
	b := Next(t, s, sink)
	late, holed := b, b
	late.Transactions = b.Transactions[1:]
	requireUnchanged(t, sink, late, replication.ErrDiverged)
	holed.Transactions = []replication.Transaction{b.Transactions[0], b.Transactions[2]}
	requireUnchanged(t, sink, holed, replication.ErrDiverged)
	require.NoError(t, sink.Apply(t.Context(), &b))
	requireUnchanged(t, sink, b, replication.ErrDiverged)
	RequireEqual(t, s, sink)
}

func sinkOtherEpoch(t *testing.T, sink Replica) {
	s := started(t, sink)
	s.Commit(Link("dddd", "https://d.example/"))
	b := Next(t, s, sink)
	other := b
	other.Epoch.Ordinal++
	requireUnchanged(t, sink, other, replication.ErrDiverged)
	other = b
	other.Epoch.ID[3] ^= 1
	requireUnchanged(t, sink, other, replication.ErrDiverged)
}

func sinkDigest(t *testing.T, sink Replica) {
	s := started(t, sink)
	s.Lie()
	s.Commit(Link("dddd", "https://d.example/"))
	requireUnchanged(t, sink, Next(t, s, sink), replication.ErrDiverged)
}

func sinkBroken(t *testing.T, sink Replica) {
	s := started(t, sink)
	s.Commit(Link("dddd", "https://d.example/"), Link("eeee", "https://e.example/"))
	b := Next(t, s, sink)
	raw := slices.Clone(b.Transactions[0].Records[1])
	raw[len(raw)-1] ^= 1
	b.Transactions[0].Records = [][]byte{b.Transactions[0].Records[0], raw}
	requireUnchanged(t, sink, b, replication.ErrRecord)
}

func sinkSameKey(t *testing.T, sink Replica) {
	s := started(t, sink)
	s.Commit(Link("dddd", "https://1.example/"), Link("dddd", "https://2.example/"))
	s.Commit(Link("dddd", "https://3.example/"), Purge("dddd"), Link("dddd", "https://4.example/"))
	s.Commit(Link("eeee", "https://e.example/"), Purge("eeee"))
	b := Next(t, s, sink)
	require.NoError(t, sink.Apply(t.Context(), &b))
	RequireEqual(t, s, sink)
}

// Purge takes a link's row away in Commit.
func Purge(code string) waypost.Record {
	r := Link(code, "")
	r.State = waypost.Purged
	return r
}

func sinkPurge(t *testing.T, sink Replica) {
	s := started(t, sink)
	s.Commit(Purge("aaaa"), Purge("never-was"))
	b := Next(t, s, sink)
	require.NoError(t, sink.Apply(t.Context(), &b))
	RequireEqual(t, s, sink)
	rows, _ := rowsOf(t, sink)
	require.Len(t, rows, 2)
}

func sinkContent(t *testing.T, sink Replica) {
	s := started(t, sink)
	s.Commit(Link("evil", "https://a.example/\r\nSet-Cookie: x"))
	unknown := Link("kind", "?")
	unknown.Kind = 99
	s.Commit(unknown)
	b := Next(t, s, sink)
	require.NoError(t, sink.Apply(t.Context(), &b), "the rows must be held, or the digest cannot be right")
	RequireEqual(t, s, sink)
}

func sinkHeartbeat(t *testing.T, sink Replica) {
	s := started(t, sink)
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	require.NoError(t, sink.Heartbeat(head))
	head.Digest ^= 1
	require.ErrorIs(t, sink.Heartbeat(head), replication.ErrDiverged)
	head.Position.Seq++
	require.NoError(t, sink.Heartbeat(head), "another position says nothing about the digest")
}

func sinkTail(t *testing.T, sink Replica) {
	s := NewSource()
	var codes []waypost.Record
	for i := range 64 {
		codes = append(codes, Link(fmt.Sprintf("code%03d", i), "https://first.example/"))
	}
	s.Commit(codes...)
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	r, err := sink.Restore(t.Context(), head.Cluster)
	require.NoError(t, err)
	bringSlots(t, s, r, 0, 2047)
	// Between the halves of the snapshot: changes, twice in a transaction, and a
	// purge, in both.
	for i := range codes {
		codes[i].Payload = []byte("https://second.example/")
	}
	s.Commit(append(codes, codes...)...)
	s.Commit(Purge("code001"), Purge("code002"), Purge("code003"), Purge("code004"))
	between, err := s.Head(t.Context())
	require.NoError(t, err)
	bringSlots(t, s, r, 2048, waypost.Slots-1)
	s.Commit(Link("after", "https://after.example/"))
	require.NoError(t, r.BeginTail(t.Context(), head.Position, between.Position))
	b := after(t, s, head.Position)
	require.Len(t, b.Transactions, 3)
	one := b
	one.Transactions = b.Transactions[:1]
	require.NoError(t, r.Apply(t.Context(), &one), "below the highest position no digest is judged")
	b.Transactions = b.Transactions[1:]
	require.NoError(t, r.Apply(t.Context(), &b))
	require.NoError(t, r.Commit(t.Context(), b.Transactions[1].Digest))
	require.NoError(t, r.Abort())
	RequireEqual(t, s, sink)
}

func sinkOlderSlots(t *testing.T, sink Replica) {
	s := NewSource()
	s.Commit(Link("aaaa", "https://old.example/"))
	older := s.Rows()
	s.Commit(Link("aaaa", "https://new.example/"))
	r, head := beginRestore(t, s, sink)
	require.NoError(t, r.Slots(t.Context(), s.Rows()), "the same again")
	require.NoError(t, r.Slots(t.Context(), older), "a part of a range, from a server that is a little behind")
	require.NoError(t, r.BeginTail(t.Context(), head.Position, head.Position))
	require.NoError(t, r.Commit(t.Context(), head.Digest))
	RequireEqual(t, s, sink)
}

func sinkRestoreDigest(t *testing.T, sink Replica) {
	s := started(t, sink)
	s.NewHistory()
	r, head := beginRestore(t, s, sink)
	require.NoError(t, r.BeginTail(t.Context(), head.Position, head.Position))
	before, p := rowsOf(t, sink)
	require.ErrorIs(t, r.Commit(t.Context(), head.Digest^1), replication.ErrDiverged)
	require.NoError(t, r.Abort())
	rows, q := rowsOf(t, sink)
	require.Equal(t, before, rows)
	require.Equal(t, p, q)

	r, head = beginRestore(t, s, sink)
	s.Lie()
	s.Commit(Link("dddd", "https://d.example/"))
	b := after(t, s, head.Position)
	require.NoError(t, r.BeginTail(t.Context(), head.Position, b.Last()))
	require.ErrorIs(t, r.Apply(t.Context(), &b), replication.ErrDiverged)
	require.NoError(t, r.Abort())
}

func sinkRestoreShort(t *testing.T, sink Replica) {
	s := started(t, sink)
	r, head := beginRestore(t, s, sink)
	require.NoError(t, r.BeginTail(t.Context(), head.Position, s.Commit()))
	require.ErrorIs(t, r.Commit(t.Context(), head.Digest), replication.ErrDiverged)
	require.NoError(t, r.Abort())
}

func sinkAbort(t *testing.T, sink Replica) {
	s := started(t, sink)
	r, _ := beginRestore(t, s, sink)
	require.NoError(t, r.Abort())
	require.NoError(t, r.Abort(), "again does nothing")
	RequireEqual(t, s, sink)
	Take(t, s, sink) // there is room for the next
	RequireEqual(t, s, sink)
}

func sinkServesMeanwhile(t *testing.T, sink Replica) {
	s := started(t, sink)
	r, _ := beginRestore(t, s, sink)
	RequireEqual(t, s, sink)
	s.Commit(Link("dddd", "https://d.example/"))
	b := Next(t, s, sink)
	require.NoError(t, sink.Apply(t.Context(), &b))
	RequireEqual(t, s, sink)
	require.NoError(t, r.Abort())
	RequireEqual(t, s, sink)
}

func sinkRandom(t *testing.T, sink Replica) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := NewSource()
	Take(t, s, sink)
	for range 60 {
		for range 1 + rng.IntN(4) {
			var rs []waypost.Record
			for range rng.IntN(8) {
				r := Link(fmt.Sprintf("code%02d", rng.IntN(30)), fmt.Sprintf("https://%d.example/", rng.Uint32()))
				r.State = waypost.State(rng.IntN(4))
				rs = append(rs, r)
			}
			s.Commit(rs...)
		}
		if rng.IntN(20) == 0 {
			s.NewHistory()
			Take(t, s, sink)
			continue
		}
		b := Next(t, s, sink)
		require.NoError(t, sink.Apply(t.Context(), &b))
		RequireEqual(t, s, sink)
	}
	RequireEqual(t, s, sink)
}
