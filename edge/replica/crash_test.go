package replica_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication/replicationtest"
)

// rows returns all records of a replica, sorted.
func rows(t *testing.T, db *replica.DB) [][]byte {
	t.Helper()
	all := [][]byte(nil)
	p, err := db.Records(t.Context(), func(raw []byte) error {
		all = append(all, slices.Clone(raw))
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, db.Position(), p)
	slices.SortFunc(all, slices.Compare)
	return all
}

// crash returns the file system as it is after a crash now: with all synced writes, and
// the given share of the others.
func crash(fs *vfs.MemFS, percent int, seed uint64) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 1)),
	})
}

func TestDB_CrashLosesWholeUnsyncedBatches(t *testing.T) {
	fs := vfs.NewCrashableMem()
	cfg := config(fs)
	cfg.SyncInterval = time.Hour // the test syncs
	db := open(t, cfg)
	s := replicationtest.NewSource()
	replicationtest.Take(t, s, db)
	history := map[waypost.Position][][]byte{db.Position(): s.Rows()}
	rng := rand.New(rand.NewPCG(3, 4))

	for round := range 150 {
		var rs []waypost.Record
		for range 1 + rng.IntN(5) {
			rs = append(rs, replicationtest.Link(fmt.Sprintf("code%d", rng.IntN(40)), fmt.Sprintf("https://%d.example/", rng.Uint32())))
		}
		deletes := rng.IntN(10) == 0
		if deletes {
			rs[0].State = []waypost.State{waypost.Disabled, waypost.Deleted, waypost.Purged}[rng.IntN(3)]
		}
		history[s.Commit(rs...)] = s.Rows()
		apply(t, s, db)
		if deletes {
			require.Equal(t, db.Position(), db.Synced(), "a purge is durable at once")
		}
		if rng.IntN(8) == 0 {
			require.NoError(t, db.Sync())
			require.Equal(t, db.Position(), db.Synced())
		}
		if rng.IntN(15) == 0 {
			require.NoError(t, db.Flush())
		}
		if rng.IntN(4) > 0 {
			continue
		}
		synced, applied := db.Synced(), db.Position()
		after, err := replica.Open(config(crash(fs, []int{0, 50, 100}[round%3], uint64(round))))
		require.NoError(t, err)
		p := after.Position()
		require.GreaterOrEqual(t, p.Seq, synced.Seq, "round %d", round)
		require.LessOrEqual(t, p.Seq, applied.Seq)
		require.Equal(t, history[p], rows(t, after), "round %d", round)
		requireDigest(t, after)
		if p != applied { // the stream sends the lost batches again
			apply(t, s, after)
		}
		replicationtest.RequireEqual(t, s, after)
		require.NoError(t, after.Close())
	}
}

// crasher keeps copies of the file system as crashes before each write would leave it.
type crasher struct {
	fs      *vfs.MemFS
	percent int

	mu     sync.Mutex
	on     bool
	clones []*vfs.MemFS
}

func (c *crasher) String() string { return "crasher" }

// MaybeError implements errorfs.Injector. It never injects an error.
func (c *crasher) MaybeError(op errorfs.Op) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		c.clones = append(c.clones, crash(c.fs, c.percent, uint64(len(c.clones))))
	}
	return nil
}

// left returns the file systems of crashes, one after another, and that of a crash now.
// It leaves out those that are equal to the one before.
func (c *crasher) left(t *testing.T) []*vfs.MemFS {
	t.Helper()
	var last [sha256.Size]byte
	return slices.DeleteFunc(append(c.clones, crash(c.fs, c.percent, 0)), func(fs *vfs.MemFS) bool {
		before := last
		last = fingerprint(t, fs)
		return last == before
	})
}

// fingerprint returns a hash of all files.
func fingerprint(t *testing.T, fs vfs.FS) [sha256.Size]byte {
	t.Helper()
	hash := sha256.New()
	var walk func(dir string)
	walk = func(dir string) {
		names, err := fs.List(dir)
		require.NoError(t, err)
		slices.Sort(names)
		for _, name := range names {
			path := fs.PathJoin(dir, name)
			info, err := fs.Stat(path)
			require.NoError(t, err)
			fmt.Fprintf(hash, "%q %v %d\n", path, info.IsDir(), info.Size())
			if info.IsDir() {
				walk(path)
				continue
			}
			f, err := fs.Open(path)
			require.NoError(t, err)
			_, err = io.Copy(hash, f)
			require.NoError(t, errors.Join(err, f.Close()))
		}
	}
	walk("/")
	return [sha256.Size]byte(hash.Sum(nil))
}

func (c *crasher) watch(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on = on
}

func TestRestore_CrashLeavesTheOldOrTheNewStore(t *testing.T) {
	for _, percent := range []int{0, 60} {
		c := &crasher{fs: vfs.NewCrashableMem(), percent: percent}
		db, err := replica.Open(config(errorfs.Wrap(c.fs, c)))
		require.NoError(t, err)
		s := replicationtest.NewSource()
		s.Commit(replicationtest.Link("aaaa", "https://old.example/"), replicationtest.Link("bbbb", "https://b.example/"))
		replicationtest.Take(t, s, db)
		s.Commit(replicationtest.Link("aaaa", "https://older.example/"))
		apply(t, s, db)
		require.NoError(t, db.Sync())
		states := map[waypost.Position][][]byte{db.Position(): rows(t, db)}
		before := db.Position()

		s.NewHistory()
		s.Commit(replicationtest.Link("aaaa", "https://new.example/"), replicationtest.Purge("bbbb"))
		c.watch(true)
		replicationtest.Take(t, s, db)
		states[db.Position()] = s.Rows()
		require.NoError(t, db.Close())
		c.watch(false)

		require.Len(t, states, 2)
		require.Greater(t, len(c.clones), 30)
		swapped := false
		for i, fs := range c.left(t) {
			after, err := replica.Open(config(fs))
			require.NoError(t, err, "crash %d", i)
			want, known := states[after.Position()]
			require.True(t, known, "crash %d: %v", i, after.Position())
			require.Equal(t, want, rows(t, after), "crash %d", i)
			requireDigest(t, after)
			if percent == 0 { // synced files stay
				require.False(t, swapped && after.Position() == before, "crash %d", i)
			}
			swapped = after.Position() != before
			names, err := fs.List("/replica")
			require.NoError(t, err)
			require.ElementsMatch(t, []string{"CURRENT", after.LiveStore()}, names, "nothing is left over")
			require.NoError(t, after.Close())
		}
		require.True(t, swapped)
	}
}

func TestDB_ServesReadersThroughSwaps(t *testing.T) {
	db, s := filled(t, config(vfs.NewMem()), 200)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			buf := make([]byte, 0, 1024)
			for i := 0; ; i++ {
				runtime.Gosched() // lets the writer run
				select {
				case <-stop:
					return
				default:
				}
				code := fmt.Appendf(nil, "code%04d", i%200)
				var rec waypost.Record
				_, found, err := db.Link(waypost.DefaultDomain, code, buf, &rec)
				if err != nil || !found || string(rec.Name) != string(code) || len(rec.Payload) < 10 {
					t.Errorf("%s: %v %v %q", code, found, err, rec.Payload)
					return
				}
				if i%500 == 0 {
					if _, _, err := db.Recompute(t.Context()); err != nil {
						t.Errorf("recompute: %v", err)
					}
				}
			}
		})
	}
	for i := range 15 {
		s.Commit(replicationtest.Link("code0001", fmt.Sprintf("https://%d.example/", i)))
		apply(t, s, db)
		replicationtest.Take(t, s, db)
	}
	close(stop)
	readers.Wait()
	replicationtest.RequireEqual(t, s, db)
}

func TestDB_RemovesTheOldStoreAfterItsReaders(t *testing.T) {
	fs := vfs.NewMem()
	db, s := filled(t, config(fs), 20)
	old := db.LiveStore()
	visits := 0
	_, err := db.Records(t.Context(), func([]byte) error {
		if visits++; visits == 1 {
			replicationtest.Take(t, s, db) // while this reader is inside the old store
			require.NotEqual(t, old, db.LiveStore())
			names, err := fs.List("/replica")
			require.NoError(t, err)
			require.Contains(t, names, old)
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 20, visits)
	require.Eventually(t, func() bool {
		names, err := fs.List("/replica")
		return err == nil && !slices.Contains(names, old)
	}, 60*time.Second, time.Millisecond)
}

func TestDB_LateReaderCannotPin(t *testing.T) {
	db, s := filled(t, config(vfs.NewMem()), 20)
	late := db.HoldLive()
	replicationtest.Take(t, s, db)
	require.False(t, late(), "the store may be closed")
}
