package replica_test

import (
	"bytes"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
)

// BenchmarkRestore takes a snapshot in the order of the keys, as another replica sends
// it.
func BenchmarkRestore(b *testing.B) {
	const links = 200_000
	s := newNumbered(b, links)
	head, err := s.Head(b.Context())
	require.NoError(b, err)
	for _, rows := range s.rows {
		slices.SortFunc(rows, func(x, y []byte) int { return bytes.Compare(replication.RecordName(x), replication.RecordName(y)) })
	}
	var parts [][][]byte
	const width = 256
	for first := 0; first < waypost.Slots; first += width {
		var part [][]byte
		for _, rows := range s.rows[first : first+width] {
			part = append(part, rows...)
		}
		parts = append(parts, part)
	}
	b.ResetTimer()
	for b.Loop() {
		db, err := replica.Open(replica.Config{Dir: b.TempDir(), LookupBytes: 256 << 20, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(b, err)
		r, err := db.Restore(b.Context(), head.Cluster)
		require.NoError(b, err)
		for i, part := range parts {
			require.NoError(b, r.Slots(b.Context(), part))
			require.NoError(b, r.Keep(b.Context(), replication.Progress{
				Next: (i + 1) * width, Lowest: head.Position, Highest: head.Position, Digest: head.Digest,
			}))
		}
		require.NoError(b, r.BeginTail(b.Context(), head.Position, head.Position))
		require.NoError(b, r.Commit(b.Context(), head.Digest))
		require.NoError(b, db.Close())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*links), "ns/link")
}
