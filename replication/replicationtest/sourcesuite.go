package replicationtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
)

// Changelog is a Source that the suite can write to, in whatever way its rows are
// written. The methods fail the test themselves.
type Changelog interface {
	replication.Source

	// Put commits one transaction that creates or changes the links with these
	// codes, or an empty transaction without codes.
	Put(t testing.TB, codes ...string)
	// Delete commits one transaction that turns the link into a tombstone.
	Delete(t testing.TB, code string)
	// Forget trims the whole log; the rows stay.
	Forget(t testing.TB)
	// Fork opens a new epoch.
	Fork(t testing.TB)
}

// TestSource tests the contract of Source on fresh changelogs that open makes, each
// without links.
func TestSource(t *testing.T, open func(t *testing.T) Changelog) {
	for name, test := range map[string]func(*testing.T, Changelog){
		"transactions follow one another without a gap":          sourceContiguous,
		"the digest is the XOR of the stamps of all rows":        sourceDigest,
		"records carry the revision of their transaction":        sourceRevision,
		"a reading is bounded but returns whole transactions":    sourceBounded,
		"at the head there is nothing to read":                   sourceAtHead,
		"what was trimmed is said to be trimmed":                 sourceTrimmed,
		"a position of another history is said to be one":        sourceOtherHistory,
		"the slots of a snapshot are all the rows and no others": sourceSnapshot,
		"a snapshot and the tail from it make the head":          sourceSnapshotAndTail,
		"the sums of the slots are those of a snapshot":          sourceSums,
		"an error of the visitor ends a snapshot":                sourceVisitError,
		"a commit is hinted at or left to polling, never denied": sourceChanged,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func headOf(t testing.TB, s replication.Source) replication.Head {
	t.Helper()
	h, err := s.Head(t.Context())
	require.NoError(t, err)
	return h
}

func readAll(t testing.TB, s replication.Source, from waypost.Position, maxRecords int) (all []replication.Transaction) {
	t.Helper()
	for atHead := false; ; {
		b, err := s.Read(t.Context(), from, maxRecords)
		require.NoError(t, err)
		if len(b.Transactions) == 0 {
			return all
		}
		require.False(t, atHead, "there was more than the reading before it has said")
		atHead = b.AtHead
		require.Equal(t, from.Epoch, b.Epoch)
		for i := range b.Transactions {
			require.Equal(t, from.Seq+uint64(i)+1, b.Transactions[i].Seq)
		}
		all = append(all, b.Transactions...)
		from = b.Last()
	}
}

func write(t testing.TB, s Changelog) (from replication.Head) {
	t.Helper()
	from = headOf(t, s)
	s.Put(t, "suite-a", "suite-b", "suite-c")
	s.Put(t)
	s.Put(t, "suite-b")
	s.Delete(t, "suite-c")
	s.Put(t, "suite-d")
	return from
}

func sourceContiguous(t *testing.T, s Changelog) {
	from := write(t, s)
	all := readAll(t, s, from.Position, 1000)
	head := headOf(t, s)
	require.Len(t, all, 5)
	last := all[len(all)-1]
	require.Equal(t, head.Position, waypost.Position{Epoch: head.Position.Epoch, Seq: last.Seq, Stamp: last.Stamp})
	require.Equal(t, head.Digest, last.Digest)
	require.Equal(t, from.Cluster, head.Cluster)
	require.NotZero(t, head.At)
	require.Empty(t, all[1].Records)
	require.Len(t, all[0].Records, 3)
	require.NotZero(t, last.At)
}

func sourceDigest(t *testing.T, s Changelog) {
	from := write(t, s)
	digest, stamps := from.Digest, map[string]uint64{}
	for _, tx := range readAll(t, s, from.Position, 1000) {
		for _, raw := range tx.Records {
			var r waypost.Record
			require.NoError(t, replication.DecodeRecord(raw, &r))
			digest ^= stamps[key(&r)] ^ r.Stamp
			stamps[key(&r)] = r.Stamp
		}
		require.Equal(t, digest, tx.Digest)
	}
}

func sourceRevision(t *testing.T, s Changelog) {
	from := write(t, s)
	for _, tx := range readAll(t, s, from.Position, 1000) {
		for _, raw := range tx.Records {
			var r waypost.Record
			require.NoError(t, replication.DecodeRecord(raw, &r))
			require.Equal(t, waypost.Revision{Epoch: from.Position.Epoch.Ordinal, Seq: tx.Seq}, r.Revision)
		}
	}
}

func sourceBounded(t *testing.T, s Changelog) {
	from := headOf(t, s)
	for i := range 20 {
		s.Put(t, fmt.Sprintf("suite-%d-a", i), fmt.Sprintf("suite-%d-b", i))
	}
	b, err := s.Read(t.Context(), from.Position, 6)
	require.NoError(t, err)
	require.Less(t, len(b.Transactions), 20)
	b, err = s.Read(t.Context(), from.Position, 1)
	require.NoError(t, err)
	require.NotEmpty(t, b.Transactions, "at least one transaction, whatever its size")
	require.Len(t, b.Transactions[0].Records, 2)
	require.Len(t, readAll(t, s, from.Position, 3), 20)
}

func sourceAtHead(t *testing.T, s Changelog) {
	for range 2 {
		head := headOf(t, s).Position
		b, err := s.Read(t.Context(), head, 10)
		require.NoError(t, err)
		require.Empty(t, b.Transactions)
		s.Put(t, "suite-head")
		b, err = s.Read(t.Context(), head, 10)
		require.NoError(t, err)
		require.Len(t, b.Transactions, 1)
		require.True(t, b.AtHead)
	}
}

func sourceTrimmed(t *testing.T, s Changelog) {
	from := write(t, s)
	s.Forget(t)
	_, err := s.Read(t.Context(), from.Position, 10)
	require.ErrorIs(t, err, replication.ErrTrimmed)
	head := headOf(t, s)
	s.Put(t, "suite-e")
	require.Len(t, readAll(t, s, head.Position, 10), 1, "from the head on it goes on")
}

func sourceOtherHistory(t *testing.T, s Changelog) {
	write(t, s)
	head := headOf(t, s).Position
	for name, change := range map[string]func(*waypost.Position){
		"stamp":           func(p *waypost.Position) { p.Stamp ^= 1 },
		"beyond the head": func(p *waypost.Position) { p.Seq++ },
		"epoch id":        func(p *waypost.Position) { p.Epoch.ID[0] ^= 1 },
		"epoch ordinal":   func(p *waypost.Position) { p.Epoch.Ordinal++ },
	} {
		p := head
		change(&p)
		_, err := s.Read(t.Context(), p, 10)
		if _, relays := s.(replication.Relay); relays && name == "beyond the head" {
			require.ErrorIs(t, err, replication.ErrBehind) // the origin may have it
			continue
		}
		require.ErrorIs(t, err, replication.ErrOtherHistory, name)
	}
	s.Fork(t)
	_, err := s.Read(t.Context(), head, 10)
	require.ErrorIs(t, err, replication.ErrOtherHistory)
	require.NotEqual(t, head.Epoch.ID, headOf(t, s).Position.Epoch.ID)
	require.Greater(t, headOf(t, s).Position.Epoch.Ordinal, head.Epoch.Ordinal)
}

func sourceSnapshot(t *testing.T, s Changelog) {
	write(t, s)
	width, err := s.SnapshotWidth(t.Context())
	require.NoError(t, err)
	require.Positive(t, width)
	require.Zero(t, waypost.Slots%width, "a power of two of at most all slots")
	digest, names := uint64(0), []string(nil)
	for first := 0; first < waypost.Slots; first += 1024 {
		_, err := s.Snapshot(t.Context(), uint16(first), uint16(first+1023), func(raw []byte) error {
			var r waypost.Record
			if err := replication.DecodeRecord(raw, &r); err != nil {
				return err
			}
			slot := int(waypost.Slot(r.Kind, r.Domain, r.Name))
			require.True(t, slot >= first && slot <= first+1023, "slot %d in %d", slot, first)
			digest ^= r.Stamp
			if r.Kind == waypost.KindLink {
				names = append(names, string(r.Name))
			}
			return nil
		})
		require.NoError(t, err)
	}
	slices.Sort(names)
	require.Equal(t, []string{"suite-a", "suite-b", "suite-c", "suite-d"}, names, "tombstones too")
	require.Equal(t, headOf(t, s).Digest, digest)
}

func sourceSnapshotAndTail(t *testing.T, s Changelog) {
	write(t, s)
	stamps := map[string]uint64{}
	note := func(raw []byte) error {
		var r waypost.Record
		err := replication.DecodeRecord(raw, &r)
		stamps[key(&r)] = r.Stamp
		return err
	}
	at, err := s.Snapshot(t.Context(), 0, waypost.Slots-1, note)
	require.NoError(t, err)
	write(t, s)
	for _, tx := range readAll(t, s, at.Position, 1000) {
		for _, raw := range tx.Records {
			require.NoError(t, note(raw))
		}
	}
	digest := uint64(0)
	for _, stamp := range stamps {
		digest ^= stamp
	}
	require.Equal(t, headOf(t, s).Digest, digest)
}

func sourceSums(t *testing.T, s Changelog) {
	for round := range 3 {
		if round > 0 {
			write(t, s)
		}
		if round > 1 {
			s.Fork(t)
		}
		want := make([]replication.Sum, waypost.Slots)
		_, err := s.Snapshot(t.Context(), 0, waypost.Slots-1, func(raw []byte) error {
			var r waypost.Record
			err := replication.DecodeRecord(raw, &r)
			sum := &want[waypost.Slot(r.Kind, r.Domain, r.Name)]
			sum.Digest, sum.Records = sum.Digest^r.Stamp, sum.Records+1
			return err
		})
		require.NoError(t, err)
		got, head, err := s.Sums(t.Context(), 0, waypost.Slots-1)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, headOf(t, s).Position, head.Position)
		digest := uint64(0)
		for slot, sum := range got {
			digest ^= sum.Digest
			if sum.Records > 0 { // ranges are inclusive
				part, _, err := s.Sums(t.Context(), uint16(slot), uint16(slot))
				require.NoError(t, err)
				require.Equal(t, []replication.Sum{sum}, part)
			}
		}
		require.Equal(t, head.Digest, digest)
	}
}

func sourceVisitError(t *testing.T, s Changelog) {
	write(t, s)
	enough := errors.New("enough")
	visits := 0
	_, err := s.Snapshot(t.Context(), 0, waypost.Slots-1, func([]byte) error { visits++; return enough })
	require.ErrorIs(t, err, enough)
	require.Equal(t, 1, visits)
}

func sourceChanged(t *testing.T, s Changelog) {
	require.NotNil(t, s.Changed())
	s.Put(t, "suite-a")
	for range 100 {
		select {
		case <-s.Changed():
		default:
			return
		}
	}
	t.Fatal("every fresh hint has already come, so that a server would spin")
}

var _ Changelog = (*Source)(nil)

// Put implements Changelog.
func (s *Source) Put(_ testing.TB, codes ...string) {
	var rs []waypost.Record
	for _, c := range codes {
		rs = append(rs, Link(c, "https://example.com/"+c))
	}
	s.Commit(rs...)
}

// Delete implements Changelog.
func (s *Source) Delete(_ testing.TB, code string) {
	r := Link(code, "https://example.com/"+code)
	r.State = waypost.Deleted
	s.Commit(r)
}

// Forget implements Changelog.
func (s *Source) Forget(testing.TB) { s.Trim() }

// Fork implements Changelog.
func (s *Source) Fork(testing.TB) { s.NewHistory() }
