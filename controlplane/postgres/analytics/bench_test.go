package analytics_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/controlplane/postgres"
)

// BenchmarkIngestClicks counts batches of one node, the links of which have been
// clicked before, on a PostgreSQL that does not sync.
func BenchmarkIngestClicks(b *testing.B) {
	for _, size := range []int{1, 100, 10_000, clickbatch.MaxLinks} {
		b.Run(fmt.Sprintf("links=%d", size), func(b *testing.B) {
			db, err := postgres.Open(b.Context(), postgres.Config{URL: cluster.Database(b)})
			require.NoError(b, err)
			defer db.Close()
			batch := &waypost.ClickBatch{Node: "edge-1", Boot: someBoot, Exact: true, Profiles: anybody}
			for n := 0; n < size; n += waypost.MaxBulk {
				var some []*waypost.Link
				for i := n; i < min(n+waypost.MaxBulk, size); i++ {
					some = append(some, link(fmt.Sprintf("link-%05d", i)))
					batch.Links = append(batch.Links, total(string(some[i-n].Code), 1))
				}
				_, _, err := db.InsertLinks(b.Context(), 0, insertions(some...))
				require.NoError(b, err)
			}
			send := func() {
				batch.Seq++
				body := clickbatch.Append(nil, batch)
				_, err := db.IngestClicks(b.Context(), batch, sha256.Sum256(body), body)
				require.NoError(b, err)
			}
			send()
			for b.Loop() {
				send()
			}
			b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds(), "links/s")
		})
	}
}
