//go:build !race

// Without the race detector only, which has these sequences take several times as long.

package replica_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication/replicationtest"
	"waypost/test/devtest"
)

func TestDB_FindsDamageWhenItIsOpened(t *testing.T) {
	for name, lookup := range tables {
		for what, spoil := range spoilt() {
			if !devtest.Long() && name != "bounded table" && what != "a byte of a record" {
				continue // make test-long tries every damage with every table
			}
			t.Run(name+", "+what, func(t *testing.T) {
				fs := vfs.NewMem()
				cfg, reg := metered(fs)
				cfg.LookupBytes = lookup
				f := &fleet{Source: replicationtest.NewSource()}
				f.Commit(long(3000)...)
				for i := range 20 {
					f.Commit(replicationtest.Link(linkCode(i), fmt.Sprintf("https://example.com/%d", i)))
				}
				f.serve(t)
				var err error
				f.db, err = replica.Open(cfg)
				require.NoError(t, err)
				replicationtest.Take(t, f.Source, f.db)
				require.NoError(t, spoil(f))
				require.NoError(t, f.db.Close())

				f.db = open(t, cfg)
				require.False(t, judged(t, f.db))
				require.Error(t, f.db.Degraded())
				require.True(t, f.db.Synced().IsZero())
				require.InDelta(t, 1, value(t, reg, "verify_failures_total"), 0)
				require.InDelta(t, 1, value(t, reg, "degraded"), 0)
				require.Equal(t, "https://example.com/3", f.target(t, linkCode(3)), "the others are served, with no source in reach")

				f.follow(t)
				require.Eventually(t, func() bool { return f.follower.Status().Repairs == 1 }, openTime, time.Millisecond)
				f.settle(t)
				require.True(t, f.db.Verified())
				require.Equal(t, "https://example.com/7", f.target(t, linkCode(7)))
			})
		}
	}
}

// Each file is cut at some places, and flipped at others; a small one at every place.
func TestDB_IsRightOrRepairedWhateverFileIsDamaged(t *testing.T) {
	cuts, flips := 1, 1
	if devtest.Long() {
		cuts, flips = 50, 500
	}
	all := map[string]int{}
	for _, starts := range []int{2, 4} { // the last record of the MANIFEST is a flush, or a compaction
		d := newDamageable(t, starts)
		rng := rand.New(rand.NewPCG(5, 6))
		for _, name := range d.files(t, "/replica") {
			t.Run(fmt.Sprintf("%d starts, %s", starts, path.Base(name)), func(t *testing.T) {
				raw := contents(t, d.fs, name)
				outcomes := map[string]int{}
				note := func(damaged []byte) {
					outcome := d.try(t, name, damaged)
					outcomes[outcome]++
					all[outcome]++
				}
				cuts := min(cuts, len(raw))
				for i := range cuts { // evenly; the last takes one byte
					note(raw[:(i+1)*len(raw)/cuts-1])
				}
				bits := rng.Perm(8 * len(raw))
				for _, bit := range bits[:min(flips, len(bits))] {
					damaged := bytes.Clone(raw)
					damaged[bit/8] ^= 1 << (bit % 8)
					note(damaged)
				}
				t.Log(outcomes)
			})
		}
	}
	t.Log("all files:", all)
}

func TestDB_FindsTablesThatAManifestHasLost(t *testing.T) {
	for name, damage := range damageEnd {
		for _, newer := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, position newer %v", name, newer), func(t *testing.T) {
				f := openDamaged(t, newer, damage)
				for range 10 {
					if !newer || !f.db.Position().IsZero() {
						break
					}
					// Pebble has compacted after the flush, and then notices the damage.
					f = openDamaged(t, newer, damage)
				}
				head, err := f.Head(t.Context())
				require.NoError(t, err)
				if newer { // the store claims to be at the head
					require.Equal(t, head.Position, f.db.Position())
					require.Equal(t, head.Digest, f.db.Digest())
				}
				require.False(t, judged(t, f.db))
				f.follow(t)
				if newer {
					require.Eventually(t, func() bool { return f.follower.Status().Repairs == 1 }, openTime, time.Millisecond)
				}
				f.settle(t)
				require.True(t, f.db.Verified())
				require.Empty(t, f.target(t, linkCode(3)))
				require.Equal(t, "https://changed.example/", f.target(t, linkCode(103)))
			})
		}
	}
}

// TestRestore_ResumesAfterACrash finds this defect: a store is named as the one to
// serve as soon as its slots are there, before the changes that were made while they
// were read; a crash then leaves it half done.
func TestRestore_ResumesAfterACrash(t *testing.T) {
	for _, percent := range []int{0, 60} { // 100 is a kill, see TestBootstrap_ResumesAfterKills
		c := &crasher{fs: vfs.NewCrashableMem(), percent: percent}
		db, err := replica.Open(config(errorfs.Wrap(c.fs, c)))
		require.NoError(t, err)
		db.Shrink()
		s := replicationtest.NewSource()
		var rs []waypost.Record
		for i := range 200 {
			rs = append(rs, replicationtest.Link(fmt.Sprintf("code%04d", i), fmt.Sprintf("https://example.com/%d", i)))
		}
		s.Commit(rs...)
		c.watch(true)
		k := taking{s: s, db: db, between: func(next int) { // the tail changes, adds and removes links that were taken
			s.Commit(replicationtest.Link(fmt.Sprintf("code%04d", next%200), "https://changed.example/"),
				replicationtest.Link(fmt.Sprintf("new%04d", next), "https://new.example/"),
				replicationtest.Purge(fmt.Sprintf("code%04d", next%200+1)))
		}}
		require.NoError(t, k.run(t))
		require.NoError(t, db.Close())
		c.watch(false)
		want := s.Rows()

		furthest, tails := 0, 0
		for i, fs := range c.left(t) {
			if !devtest.Long() && i%3 > 0 {
				continue
			}
			after, err := replica.Open(config(fs))
			require.NoError(t, err, "crash %d", i)
			after.Shrink()
			if after.Position().IsZero() {
				k := taking{s: s, db: after}
				require.NoError(t, k.run(t), "crash %d", i)
				if percent == 0 { // durable files stay
					require.GreaterOrEqual(t, k.progress.Next, furthest, "crash %d", i)
				}
				furthest = max(furthest, k.progress.Next)
				if k.progress.Next == waypost.Slots && k.progress.Lowest.Seq > 1 {
					tails++
				}
			}
			require.Equal(t, want, rows(t, after), "crash %d", i)
			requireDigest(t, after)
			names, err := fs.List("/replica")
			require.NoError(t, err)
			require.ElementsMatch(t, []string{"CURRENT", after.LiveStore()}, names, "nothing is left over")
			require.NoError(t, after.Close())
		}
		require.Equal(t, waypost.Slots, furthest)
		require.Positive(t, tails, "some have ended in the tail, and are resumed there")
	}
}
