//go:build !race

// The race detector empties the pools that reads use, so that allocations can be counted
// only without it.

package replica_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
)

func TestDB_LinkAllocatesNothing(t *testing.T) {
	db, _ := filled(t, replica.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}, 1000)
	buf := make([]byte, 0, 1024)
	for _, code := range []string{"code0123", "no-such1"} {
		name := []byte(code)
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			grown, _, err := db.Link(waypost.DefaultDomain, name, buf, new(waypost.Record))
			if err != nil || cap(grown) != cap(buf) {
				panic("a buffer of 1 KiB is large enough")
			}
		}), "%s", code)
	}
}

func TestDB_LinkWithoutTableAllocatesAsPebble(t *testing.T) {
	db, _ := filled(t, replica.Config{Dir: t.TempDir(), LookupBytes: -1, Logger: slog.New(slog.DiscardHandler)}, 1000)
	require.NoError(t, db.Flush())
	buf := make([]byte, 0, 1024)
	for _, code := range []string{"code0123", "no-such1"} {
		key, name := replica.LinkKey(code), []byte(code)
		bare := testing.AllocsPerRun(1000, func() { _ = db.Get(key) })
		ours := testing.AllocsPerRun(1000, func() {
			grown, _, err := db.Link(waypost.DefaultDomain, name, buf, new(waypost.Record))
			if err != nil || cap(grown) != cap(buf) {
				panic("a buffer of 1 KiB is large enough")
			}
		})
		require.InDelta(t, bare, ours, 0, "%s", code)
		require.LessOrEqual(t, bare, 1.0, "Pebble allocates")
	}
}
