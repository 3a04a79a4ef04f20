package replica_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication/replicationtest"
)

// BenchmarkOpen_Verifies measures the time from the start with a replica of a million
// links until its records are compared with the digest, on the way of filling the lookup
// table.
func BenchmarkOpen_Verifies(b *testing.B) {
	const links = 1_000_000
	s := replicationtest.NewSource()
	records := make([]waypost.Record, links)
	for i := range records {
		records[i] = replicationtest.Link(fmt.Sprintf("code%07d", i), fmt.Sprintf("https://example.com/articles/%d?ref=newsletter", i))
	}
	s.Commit(records...)
	cfg := replica.Config{Dir: b.TempDir(), LookupBytes: 1 << 30, Logger: slog.New(slog.DiscardHandler)}
	db, err := replica.Open(cfg)
	require.NoError(b, err)
	replicationtest.Take(b, s, db)
	require.NoError(b, db.Close())
	for b.Loop() {
		db, err := replica.Open(cfg)
		require.NoError(b, err)
		for limit := time.Now().Add(time.Minute); !db.Verified(); time.Sleep(time.Millisecond) {
			require.True(b, time.Now().Before(limit), "the records are verified")
		}
		require.NoError(b, db.Close())
	}
}
