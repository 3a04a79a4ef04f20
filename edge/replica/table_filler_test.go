package replica_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/lookup"
	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// metered returns a configuration and its metrics.
func metered(fs vfs.FS) (replica.Config, *prometheus.Registry) {
	cfg, reg := config(fs), prometheus.NewRegistry()
	cfg.Metrics = reg
	return cfg, reg
}

func awaitMetric(t *testing.T, reg *prometheus.Registry, name string, want float64) {
	t.Helper()
	require.Eventually(t, func() bool { return value(t, reg, name) == want }, 60*time.Second, time.Millisecond, name)
}

// long makes links that fill a small table: 1,000 of them take a megabyte.
func long(n int) (rs []waypost.Record) {
	for i := range n {
		rs = append(rs, replicationtest.Link(fmt.Sprintf("long%05d", i), fmt.Sprintf("https://example.com/%d?%s", i, strings.Repeat("x", 1000))))
	}
	return rs
}

func TestFiller_SnapshotBringsItsTable(t *testing.T) {
	cfg, reg := metered(vfs.NewMem())
	db, s := filled(t, cfg, 1000)
	require.InDelta(t, 1, value(t, reg, "lookup_complete"), 0)
	require.InDelta(t, 1000, value(t, reg, "lookup_entries"), 0)
	find(t, db, "code0123")
	find(t, db, "no-such1")
	require.InDelta(t, 1, value(t, reg, "lookup_hits_total"), 0)
	require.InDelta(t, 1, value(t, reg, "lookup_misses_total"), 0)

	s.Commit(replicationtest.Purge("code0001"), replicationtest.Link("code0002", "https://changed.example/"))
	apply(t, s, db)
	_, found := find(t, db, "code0001")
	require.False(t, found)
	location, _ := find(t, db, "code0002")
	require.Equal(t, "https://changed.example/", location)
	require.InDelta(t, 999, value(t, reg, "lookup_entries"), 0)

	replicationtest.Take(t, s, db)
	require.InDelta(t, 1, value(t, reg, "lookup_complete"), 0, "the fresh store's table is, from its first moment on")
	find(t, db, "code0123")
	require.InDelta(t, 0, value(t, reg, "lookup_fallbacks_total"), 0, "Pebble was not asked")
	require.InDelta(t, 3, value(t, reg, "lookup_hits_total"), 0, "the old table's answers still count")
	require.Greater(t, value(t, reg, "lookup_budget_bytes"), value(t, reg, "lookup_bytes"))
}

func TestFiller_FillsWhileChangesArrive(t *testing.T) {
	fs := vfs.NewMem()
	cfg := config(fs)
	db, err := replica.Open(cfg)
	require.NoError(t, err)
	s := replicationtest.NewSource()
	s.Commit(append(long(5000), domain("7", "seven.example"))...)
	replicationtest.Take(t, s, db)
	require.NoError(t, db.Close())

	cfg, reg := metered(fs)
	db = open(t, cfg)
	rng := rand.New(rand.NewPCG(1, 2))
	want := map[string]string{}
	for i := range 200 { // while it is being filled, and after
		code := fmt.Sprintf("long%05d", rng.IntN(5000))
		if i%5 == 0 {
			s.Commit(replicationtest.Purge(code))
			delete(want, code)
			want[code] = ""
		} else {
			want[code] = fmt.Sprintf("https://changed.example/%d", i)
			s.Commit(replicationtest.Link(code, want[code]))
		}
		apply(t, s, db)
		location, found := find(t, db, code)
		require.Equal(t, want[code], location)
		require.Equal(t, want[code] != "", found)
	}
	awaitMetric(t, reg, "lookup_complete", 1)
	for code, location := range want {
		got, found := find(t, db, code)
		require.Equal(t, location, got, code)
		require.Equal(t, location != "", found, code)
	}
	fallbacks := value(t, reg, "lookup_fallbacks_total")
	for i := range 5000 {
		if code := fmt.Sprintf("long%05d", i); want[code] == "" {
			_, found := find(t, db, code)
			_, purged := want[code]
			require.Equal(t, !purged, found)
		}
	}
	require.InDelta(t, fallbacks, value(t, reg, "lookup_fallbacks_total"), 0)
}

func TestFiller_LinksAreServedWhileFilling(t *testing.T) {
	fs, n := vfs.NewMem(), 6000
	db, err := replica.Open(config(fs))
	require.NoError(t, err)
	s := replicationtest.NewSource()
	s.Commit(long(n)...)
	replicationtest.Take(t, s, db)
	require.NoError(t, db.Close())

	cfg, reg := metered(fs)
	db, err = replica.Open(cfg)
	require.NoError(t, err)
	release := func() {}
	for entries := 0.0; entries == 0; entries = value(t, reg, "lookup_entries") { // some are there, and not all
		release()
		release = sync.OnceFunc(db.HoldWriters())
	}
	defer func() {
		release()
		require.NoError(t, db.Close())
	}()
	for i := 0; i < n; i += 100 {
		location, found := find(t, db, fmt.Sprintf("long%05d", i))
		require.True(t, found)
		require.True(t, strings.HasPrefix(location, fmt.Sprintf("https://example.com/%d?", i)))
		_, found = find(t, db, fmt.Sprintf("none%05d", i))
		require.False(t, found)
	}
	require.InDelta(t, 0, value(t, reg, "lookup_complete"), 0)
	require.Positive(t, value(t, reg, "lookup_fallbacks_total"))
	release()
	awaitMetric(t, reg, "lookup_complete", 1)
}

func TestFiller_MoreLinksThanTheBudget(t *testing.T) {
	cfg, reg := metered(vfs.NewMem())
	cfg.LookupBytes = 2 << 20
	db := open(t, cfg)
	s := replicationtest.NewSource()
	const n = 6000
	s.Commit(long(n)...)
	replicationtest.Take(t, s, db)
	require.InDelta(t, 0, value(t, reg, "lookup_complete"), 0)
	for i := range n {
		location, found := find(t, db, fmt.Sprintf("long%05d", i))
		require.True(t, found)
		require.True(t, strings.HasPrefix(location, fmt.Sprintf("https://example.com/%d?", i)))
	}
	require.LessOrEqual(t, value(t, reg, "lookup_bytes"), float64(2<<20))

	require.Eventually(t, func() bool { // once the filter is there
		before := value(t, reg, "lookup_misses_total")
		for i := range 100 {
			_, found := find(t, db, fmt.Sprintf("none%05d", i))
			require.False(t, found)
		}
		return value(t, reg, "lookup_misses_total")-before > 90
	}, 60*time.Second, 10*time.Millisecond, "codes that are no links are not looked for on disk")

	for i := range 10 { // links that are asked for often are promoted
		code := fmt.Sprintf("long%05d", i)
		require.Eventually(t, func() bool {
			before := value(t, reg, "lookup_hits_total")
			_, found := find(t, db, code)
			require.True(t, found)
			return value(t, reg, "lookup_hits_total") > before
		}, 60*time.Second, time.Millisecond)
		s.Commit(replicationtest.Link(code, "https://changed.example/"), replicationtest.Link(fmt.Sprintf("new%05d", i), "https://new.example/"))
		apply(t, s, db)
		location, _ := find(t, db, code)
		require.Equal(t, "https://changed.example/", location)
		_, found := find(t, db, fmt.Sprintf("new%05d", i))
		require.True(t, found)
	}
	replicationtest.RequireEqual(t, s, db)
}

func TestDB_DeletedLinkNeverReturns(t *testing.T) {
	for name, budget := range map[string]int64{"with all links in the table": 64 << 20, "with few": lookup.MinBudget, "with none": -1} {
		t.Run(name, func(t *testing.T) {
			cfg := config(vfs.NewMem())
			cfg.LookupBytes = budget
			db := open(t, cfg)
			s := replicationtest.NewSource()
			const n = 40
			s.Commit(long(1500)...)
			replicationtest.Take(t, s, db)
			var done atomic.Bool
			var readers sync.WaitGroup
			var applied [n]atomic.Int64 // versions whose batch was applied
			for r := range 3 {
				readers.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(r), 1))
					var seen [n]int64
					buf := make([]byte, 0, 4096)
					for ; !done.Load(); runtime.Gosched() { // lets the writer run
						i := rng.IntN(n)
						least := max(seen[i], applied[i].Load())
						var rec waypost.Record
						_, found, err := db.Link(waypost.DefaultDomain, fmt.Appendf(nil, "long%05d", i), buf, &rec)
						if err != nil || !found {
							t.Errorf("%d: %v %v", i, found, err)
							return
						}
						version := int64(0)
						if _, text, ok := strings.Cut(string(rec.Payload), "version="); ok {
							_, _ = fmt.Sscan(text, &version)
						}
						if version < least || (version%2 == 1) != (rec.State == waypost.Deleted) {
							t.Errorf("%d: version %d, state %d, after version %d was there", i, version, rec.State, least)
							return
						}
						seen[i] = version
					}
				})
			}
			for version := int64(1); version <= 16; version++ {
				var rs []waypost.Record
				for i := range n {
					r := replicationtest.Link(fmt.Sprintf("long%05d", i), fmt.Sprintf("https://example.com/?version=%d", version))
					if version%2 == 1 {
						r.State = waypost.Deleted
					}
					rs = append(rs, r)
				}
				s.Commit(rs...)
				apply(t, s, db)
				for i := range applied {
					applied[i].Store(version)
				}
				if version%15 == 0 {
					replicationtest.Take(t, s, db)
				}
			}
			done.Store(true)
			readers.Wait()
		})
	}
}

func TestFiller_KeepsExtensionsAndExpiry(t *testing.T) {
	db, s := filled(t, config(vfs.NewMem()), 1)
	r := replicationtest.Link("expires1", "https://example.com/")
	r.ExpiresAt, r.Status = 1_800_000_000_000, 308
	s.Commit(r)
	apply(t, s, db)
	var rec waypost.Record
	_, found, err := db.Link(waypost.DefaultDomain, r.Name, nil, &rec)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, r.ExpiresAt, rec.ExpiresAt)
	require.EqualValues(t, 308, rec.Status)

	raw := extend(replication.AppendRecord(nil, &r), "\x77\x00\x02\x00ab")
	require.NoError(t, db.PutRaw(raw))
	require.Equal(t, "\x77\x00\x02\x00ab", db.TableExtensions("expires1"))
	location, found := find(t, db, "expires1")
	require.True(t, found)
	require.Equal(t, "https://example.com/", location)
}

// extend adds an extension block to a record.
func extend(raw []byte, block string) []byte {
	raw = append(raw, block...)
	binary.LittleEndian.PutUint16(raw[6:], uint16(len(block)))
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint32(raw[44:], crc32.Update(crc32.Checksum(raw[:44], table), table, raw[48:]))
	return raw
}

func TestDB_DoesNotServeADamagedTable(t *testing.T) {
	cfg, reg := metered(vfs.NewMem())
	db, s := filled(t, cfg, 100)
	db.DamageTable("code0007")
	location, found := find(t, db, "code0007")
	require.True(t, found)
	require.Equal(t, "https://example.com/7", location, "the store has it")
	require.InDelta(t, 1, value(t, reg, "lookup_damaged_total"), 0)
	s.Commit(replicationtest.Link("code0007", "https://changed.example/"))
	apply(t, s, db)
	damaged := value(t, reg, "lookup_damaged_total")
	location, _ = find(t, db, "code0007")
	require.Equal(t, "https://changed.example/", location)
	require.InDelta(t, damaged, value(t, reg, "lookup_damaged_total"), 0)
}

func TestRestore_AbortReleasesTableMemory(t *testing.T) {
	cfg, reg := metered(vfs.NewMem())
	db, _ := filled(t, cfg, 100)
	before := value(t, reg, "lookup_bytes")
	r, err := db.Restore(context.WithoutCancel(t.Context()), replication.Cluster{1})
	require.NoError(t, err)
	require.Greater(t, value(t, reg, "lookup_bytes"), before)
	require.NoError(t, r.Abort())
	require.InDelta(t, before, value(t, reg, "lookup_bytes"), 0)
}
