package replica_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// BenchmarkLink asks for links in random order. They are found in the lookup table or,
// without one, in the store, whose blocks are in Pebble's cache, or mostly in the
// system's.
func BenchmarkLink(b *testing.B) {
	const n = 300_000
	s := replicationtest.NewSource()
	rs := make([]waypost.Record, n)
	for i := range rs {
		rs[i] = replicationtest.Link(fmt.Sprintf("code%06d", i),
			fmt.Sprintf("https://example.com/some/longer/path?with=%016x&query", rand.Uint64()))
	}
	s.Commit(rs...)
	for where, size := range map[string]struct{ table, cache int64 }{
		"table": {1 << 30, 0}, "cached blocks": {-1, 0}, "read blocks": {-1, 1 << 20},
	} {
		db, err := replica.Open(replica.Config{
			Dir: b.TempDir(), LookupBytes: size.table, CacheBytes: size.cache, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(b, err)
		replicationtest.Take(b, s, db)
		for name, format := range map[string]string{"hit": "code%06d", "miss": "none%06d"} {
			b.Run(where+"/"+name, func(b *testing.B) {
				buf, code := make([]byte, 0, 1024), make([]byte, 0, 16)
				b.ReportAllocs()
				for b.Loop() {
					code = fmt.Appendf(code[:0], format, rand.IntN(n))
					if _, found, err := db.Link(waypost.DefaultDomain, code, buf, new(waypost.Record)); err != nil || found != (name == "hit") {
						b.Fatal(found, err)
					}
				}
			})
		}
		require.NoError(b, db.Close())
	}
}

// BenchmarkApplyNewLinks applies new links, a thousand in a transaction, like an import.
func BenchmarkApplyNewLinks(b *testing.B) {
	for name, sizes := range map[string]struct{ table, log int64 }{
		"table": {64 << 20, 0}, "no table": {-1, 0}, "table and log": {64 << 20, 256 << 20},
	} {
		b.Run(name, func(b *testing.B) {
			db, err := replica.Open(replica.Config{
				Dir: b.TempDir(), LookupBytes: sizes.table, LogBytes: sizes.log, Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(b, err)
			defer func() { require.NoError(b, db.Close()) }()
			s := replicationtest.NewSource()
			replicationtest.Take(b, s, db)
			n := 0
			for b.Loop() {
				b.StopTimer()
				rs := make([]waypost.Record, 1000)
				for i := range rs {
					rs[i] = replicationtest.Link(fmt.Sprintf("code%08d", n), "https://example.com/some/longer/path?with=a&query")
					n++
				}
				s.Commit(rs...)
				batch := replicationtest.Next(b, s, db)
				frame := replication.EncodeBatch(&batch)
				batch.Frame = frame[:len(frame)/4] // about its size over the wire
				b.StartTimer()
				require.NoError(b, db.Apply(b.Context(), &batch))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/link")
		})
	}
}
