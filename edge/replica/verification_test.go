package replica_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// openTime bounds the check of a small store.
const openTime = 60 * time.Second

// judged waits until the records were added up, and reports whether they were right.
func judged(t *testing.T, db *replica.DB) bool {
	t.Helper()
	require.Eventually(t, func() bool { return !db.Verifying() }, openTime, time.Millisecond)
	return db.Verified()
}

// gate is a registry that blocks all reads of tables from the registration on, which
// comes after a store was opened and before anything runs in the background.
type gate struct {
	*prometheus.Registry
	closed sync.Once
	shut   chan struct{} // closed when reads block
	free   chan struct{} // closed when they go on
}

func newGate() *gate {
	return &gate{Registry: prometheus.NewRegistry(), shut: make(chan struct{}), free: make(chan struct{})}
}

func (g *gate) Register(c prometheus.Collector) error {
	g.closed.Do(func() { close(g.shut) })
	return g.Registry.Register(c)
}

func (*gate) String() string { return "gate" }

// MaybeError implements errorfs.Injector. It injects no error.
func (g *gate) MaybeError(op errorfs.Op) error {
	select {
	case <-g.shut:
		if op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
			<-g.free
		}
	default:
	}
	return nil
}

func TestDB_IsNotBelievedBeforeItIsVerified(t *testing.T) {
	for name, lookup := range map[string]int64{"with a lookup table": 64 << 20, "without": -1} {
		t.Run(name, func(t *testing.T) {
			fs, s := vfs.NewMem(), replicationtest.NewSource()
			cfg := config(fs)
			cfg.LookupBytes, cfg.LogBytes = lookup, 1<<20
			db, err := replica.Open(cfg)
			require.NoError(t, err)
			s.Commit(big(200, 0)...)
			replicationtest.Take(t, s, db)
			require.True(t, db.Verified(), "a snapshot is compared before it serves")
			s.Commit(replicationtest.Link("aaaa", "https://a.example/"))
			apply(t, s, db)
			require.NoError(t, db.Close())

			g := newGate()
			cfg.FS, cfg.Metrics = errorfs.Wrap(fs, g), g
			db = open(t, cfg)
			release := sync.OnceFunc(func() { close(g.free) })
			t.Cleanup(release)
			require.True(t, db.Verifying())
			require.False(t, db.Verified())
			require.True(t, db.Synced().IsZero(), "no write may count on it")
			require.NoError(t, db.Degraded())
			head, err := s.Head(t.Context())
			require.NoError(t, err)
			require.Equal(t, head.Position, db.Position(), "the follower continues from there")
			require.InDelta(t, 1, value(t, g.Registry, "verifying"), 0)
			_, err = db.Snapshot(t.Context(), 0, waypost.Slots-1, func([]byte) error { return nil })
			require.ErrorIs(t, err, replication.ErrNoSource)
			_, _, err = db.Sums(t.Context(), 0, waypost.Slots-1)
			require.ErrorIs(t, err, replication.ErrNoSource)
			_, err = db.Head(t.Context())
			require.NoError(t, err, "frames are passed on as they came")

			release()
			require.True(t, judged(t, db))
			require.Equal(t, head.Position, db.Synced())
			require.InDelta(t, 0, value(t, g.Registry, "verifying"), 0)
			_, _, err = db.Sums(t.Context(), 0, waypost.Slots-1)
			require.NoError(t, err)
		})
	}
}

// tables are the sizes of the lookup table with which the records are read in different
// ways.
var tables = map[string]int64{"complete table": 64 << 20, "bounded table": 2 << 20, "no table": -1}

func TestDB_IsVerifiedWhileChangesArrive(t *testing.T) {
	for name, lookup := range tables {
		t.Run(name, func(t *testing.T) {
			fs, s := vfs.NewMem(), replicationtest.NewSource()
			cfg := config(fs)
			cfg.LookupBytes = lookup
			db, err := replica.Open(cfg)
			require.NoError(t, err)
			s.Commit(append(long(2500), domain("7", "seven.example"))...)
			replicationtest.Take(t, s, db)
			require.NoError(t, db.Close())

			db = open(t, cfg)
			changes := 0
			for ; db.Verifying() && changes < 3000; changes++ {
				code := fmt.Sprintf("long%05d", (changes*7919)%3000)
				switch changes % 4 {
				case 0:
					s.Commit(replicationtest.Purge(code), replicationtest.Link(code+"x", "https://new.example/"))
				case 1:
					s.Commit(deleted(code))
				default:
					s.Commit(replicationtest.Link(code, fmt.Sprintf("https://changed.example/%d", changes)))
				}
				apply(t, s, db)
			}
			require.True(t, judged(t, db))
			require.Greater(t, changes, 10, "the check and the changes overlap")
			replicationtest.RequireEqual(t, s, db)
			requireDigest(t, db)
		})
	}
}

// rolledBack leaves a closed replica on disk. The last record of Pebble's MANIFEST names
// a table with deletions, changes and new links, which are nowhere else. If newer is
// true, the position is newer, and in the WAL; else the position is lost too.
func rolledBack(t *testing.T, newer bool) (f *fleet, cfg replica.Config, store string) {
	t.Helper()
	cfg = config(nil)
	cfg.Dir = t.TempDir()
	f = &fleet{Source: replicationtest.NewSource()}
	for i := range 500 {
		f.Commit(replicationtest.Link(linkCode(i), fmt.Sprintf("https://example.com/%d", i)))
	}
	f.serve(t)
	db, err := replica.Open(cfg)
	require.NoError(t, err)
	replicationtest.Take(t, f.Source, db)
	for i := range 50 {
		f.Commit(deleted(linkCode(i)), replicationtest.Link(linkCode(100+i), "https://changed.example/"),
			replicationtest.Link(fmt.Sprintf("new%05d", i), "https://new.example/"))
	}
	apply(t, f.Source, db)
	require.NoError(t, db.Close())
	db, err = replica.Open(cfg) // which flushes the WAL and removes it
	require.NoError(t, err)
	if newer {
		f.Commit(replicationtest.Link("newest", "https://newest.example/"))
		apply(t, f.Source, db)
	}
	store = filepath.Join(cfg.Dir, db.LiveStore())
	require.NoError(t, db.Close())
	return f, cfg, store
}

// damageEnd damages the end of a file in the ways of a test.
var damageEnd = map[string]func(raw []byte) []byte{
	"one byte cut":    func(raw []byte) []byte { return raw[:len(raw)-1] },
	"one bit flipped": func(raw []byte) []byte { raw[len(raw)-10] ^= 4; return raw },
	"zeros":           func(raw []byte) []byte { clear(raw[len(raw)-20:]); return raw },
}

// openDamaged opens a replica whose MANIFEST was damaged.
func openDamaged(t *testing.T, newer bool, damage func(raw []byte) []byte) *fleet {
	t.Helper()
	f, cfg, store := rolledBack(t, newer)
	manifest := files(t, store+"/MANIFEST-*")
	last := manifest[len(manifest)-1]
	raw, err := os.ReadFile(last)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(last, damage(raw), 0o600))
	f.db = open(t, cfg)
	return f
}
