package replica_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// disk makes the writes of a file system fail while it is broken.
type disk struct {
	broken atomic.Bool
	err    error
	only   func(op errorfs.Op) bool // nil: every write
}

func (d *disk) String() string { return "disk" }

// MaybeError implements errorfs.Injector.
func (d *disk) MaybeError(op errorfs.Op) error {
	if !d.broken.Load() || op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpFileClose {
		return nil
	}
	if d.only != nil && !d.only(op) {
		return nil
	}
	return d.err
}

func isWAL(op errorfs.Op) bool { return strings.Contains(op.Path, "/wal") }

// big makes records that fill memory tables.
func big(n, round int) (rs []waypost.Record) {
	for i := range n {
		rs = append(rs, replicationtest.Link(fmt.Sprintf("big%06d", round*n+i), "https://example.com/"+strings.Repeat("x", 20000)))
	}
	return rs
}

func TestDB_ServesAndHealsWhenWritesFail(t *testing.T) {
	for name, d := range map[string]*disk{
		"full":             {err: syscall.ENOSPC},
		"broken":           {err: syscall.EIO},
		"full for the WAL": {err: syscall.ENOSPC, only: isWAL},
		"that cannot create a WAL": {err: syscall.EMFILE, only: func(op errorfs.Op) bool {
			return isWAL(op) && op.Kind != errorfs.OpFileWrite && op.Kind != errorfs.OpFileSync && op.Kind != errorfs.OpFileSyncData
		}},
		"without an inode":             {err: syscall.ENOSPC, only: func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate }},
		"that does not sync":           {err: syscall.EIO, only: func(op errorfs.Op) bool { return op.Kind >= errorfs.OpFileSync }},
		"full for tables":              {err: syscall.ENOSPC, only: func(op errorfs.Op) bool { return strings.HasSuffix(op.Path, ".sst") }},
		"that fails Pebble's manifest": {err: syscall.EIO, only: func(op errorfs.Op) bool { return strings.Contains(op.Path, "MANIFEST") }},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(errorfs.Wrap(vfs.NewMem(), d))
			cfg.SyncInterval = time.Millisecond
			db, s := filled(t, cfg, 100)
			db.Shrink()
			replicationtest.Take(t, s, db) // a new store
			d.broken.Store(true)

			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var err error
			for round := 0; err == nil; round++ {
				s.Commit(big(10, round)...)
				b := replicationtest.Next(t, s, db)
				err = db.Apply(ctx, &b)
				require.Less(t, round, 200, "a disk like this must be noticed")
			}
			require.NoError(t, ctx.Err(), "the caller does not wait in vain")
			require.Error(t, db.Degraded())
			for i := range 100 {
				location, found := find(t, db, fmt.Sprintf("code%04d", i))
				require.True(t, found)
				require.Equal(t, fmt.Sprintf("https://example.com/%d", i), location)
			}
			at := db.Position()
			b := replicationtest.Next(t, s, db)
			require.Error(t, db.Apply(ctx, &b))
			require.Equal(t, at, db.Position())

			d.broken.Store(false)
			require.Eventually(t, func() bool { // by a batch, or by a fresh store
				b := replicationtest.Next(t, s, db)
				err := db.Apply(ctx, &b)
				return err == nil || strings.Contains(err.Error(), replication.ErrDiverged.Error())
			}, 60*time.Second, time.Millisecond)
			replicationtest.Take(t, s, db)
			require.NoError(t, db.Degraded())
			s.Commit(replicationtest.Link("after", "https://after.example/"))
			apply(t, s, db)
			replicationtest.RequireEqual(t, s, db)
		})
	}
}

func TestDB_NeverAcknowledgesAFailedSync(t *testing.T) {
	d := &disk{err: syscall.EIO, only: func(op errorfs.Op) bool { return isWAL(op) && op.Kind >= errorfs.OpFileSync }}
	fs := vfs.NewCrashableMem()
	cfg := config(errorfs.Wrap(fs, d))
	cfg.SyncInterval = time.Hour
	db, s := filled(t, cfg, 10)
	synced := db.Synced()
	s.Commit(replicationtest.Link("code0001", "https://changed.example/"))
	apply(t, s, db)
	d.broken.Store(true)
	require.ErrorIs(t, db.Sync(), syscall.EIO)
	d.broken.Store(false)
	require.NoError(t, db.Sync(), "nothing is retried")
	require.Equal(t, synced, db.Synced(), "a sync that failed is not retried into success")

	gone := replicationtest.Link("code0002", "https://example.com/2")
	gone.State = waypost.Deleted
	s.Commit(gone)
	b := replicationtest.Next(t, s, db)
	require.Error(t, db.Apply(t.Context(), &b))
	require.Equal(t, synced, db.Synced())

	after, err := replica.Open(config(crash(fs, 0, 0)))
	require.NoError(t, err)
	require.Equal(t, synced, after.Position())
	require.NoError(t, after.Close())
}

func TestDB_DoesNotApplyAnUnsyncedDelete(t *testing.T) {
	d := &disk{err: syscall.ENOSPC}
	db, s := filled(t, config(errorfs.Wrap(vfs.NewMem(), d)), 10)
	gone := replicationtest.Link("code0002", "https://example.com/2")
	gone.State = waypost.Deleted
	s.Commit(gone)
	before := db.Position()
	d.broken.Store(true)
	b := replicationtest.Next(t, s, db)
	require.ErrorIs(t, db.Apply(t.Context(), &b), syscall.ENOSPC)
	require.Equal(t, before, db.Position())
	require.Equal(t, before, db.Synced())
	require.ErrorIs(t, db.Degraded(), syscall.ENOSPC)
	d.broken.Store(false)
}

func TestRestore_OnAFullDiskLeavesNothing(t *testing.T) {
	for name, only := range map[string]func(errorfs.Op) bool{
		"everything":  nil,
		"tables":      func(op errorfs.Op) bool { return strings.HasSuffix(op.Path, ".sst") },
		"CURRENT.tmp": func(op errorfs.Op) bool { return strings.Contains(op.Path, "CURRENT.tmp") },
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			d := &disk{err: syscall.ENOSPC, only: only}
			db, s := filled(t, config(errorfs.Wrap(fs, d)), 50)
			db.Shrink()
			s.Commit(replicationtest.Link("more", "https://more.example/"))
			d.broken.Store(true)
			err := func() error {
				head, err := s.Head(t.Context())
				require.NoError(t, err)
				r, err := db.Restore(t.Context(), head.Cluster)
				if err != nil {
					return err
				}
				defer func() {
					d.broken.Store(false) // else nothing could be removed
					require.NoError(t, r.Abort())
				}()
				if _, err := s.Snapshot(t.Context(), 0, waypost.Slots-1, func(raw []byte) error {
					return r.Slots(t.Context(), [][]byte{raw})
				}); err != nil {
					return err
				}
				if err := r.BeginTail(t.Context(), head.Position, head.Position); err != nil {
					return err
				}
				return r.Commit(t.Context(), head.Digest)
			}()
			require.ErrorIs(t, err, syscall.ENOSPC)
			d.broken.Store(false)
			_, found := find(t, db, "code0001")
			require.True(t, found)
			replicationtest.Take(t, s, db)
			replicationtest.RequireEqual(t, s, db)
		})
	}
}

// stored is a closed replica on disk.
func stored(t *testing.T) (cfg replica.Config, s *replicationtest.Source, store string) {
	cfg = config(nil)
	cfg.Dir = t.TempDir()
	db, err := replica.Open(cfg)
	require.NoError(t, err)
	s = replicationtest.NewSource()
	s.Commit(big(60, 0)...)
	replicationtest.Take(t, s, db)
	s.Commit(replicationtest.Link("aaaa", "https://a.example/"))
	apply(t, s, db)
	store = filepath.Join(cfg.Dir, db.LiveStore())
	require.NoError(t, db.Close())
	return cfg, s, store
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	require.NoError(t, err)
	return names
}

func TestOpen_QuarantinesAnUnreadableStore(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir, store string){
		"a rotten manifest": func(t *testing.T, _, store string) {
			for _, f := range files(t, store+"/MANIFEST-*") {
				require.NoError(t, os.WriteFile(f, []byte(strings.Repeat("rubbish", 100)), 0o600))
			}
		},
		"a lost table": func(t *testing.T, _, store string) {
			require.NoError(t, os.Remove(files(t, store+"/*.sst")[0]))
		},
		"a lost manifest marker": func(t *testing.T, _, store string) {
			require.NoError(t, os.Remove(files(t, store+"/marker.manifest*")[0]))
		},
		"a store that is gone": func(t *testing.T, _, store string) {
			require.NoError(t, os.RemoveAll(store))
		},
		"an unreadable CURRENT": func(t *testing.T, dir, _ string) {
			require.NoError(t, os.WriteFile(dir+"/CURRENT", []byte("\x00\x00\x00"), 0o600))
		},
		"a CURRENT that points elsewhere": func(t *testing.T, dir, _ string) {
			require.NoError(t, os.WriteFile(dir+"/CURRENT", []byte("waypost-replica 1 store-../../etc\n"), 0o600))
		},
		"an empty CURRENT": func(t *testing.T, dir, _ string) {
			require.NoError(t, os.WriteFile(dir+"/CURRENT", nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, s, store := stored(t)
			spoil(t, cfg.Dir, store)
			db := open(t, cfg)
			require.True(t, db.Position().IsZero())
			_, ok := db.Cluster()
			require.False(t, ok)
			_, _, err := db.Link(waypost.DefaultDomain, []byte("aaaa"), nil, new(waypost.Record))
			require.Error(t, err, "an empty replica does not know that a link is not there")
			if name != "a store that is gone" {
				require.Len(t, files(t, cfg.Dir+"/quarantine-*"), 1)
			}
			replicationtest.Take(t, s, db)
			replicationtest.RequireEqual(t, s, db)
			require.NoFileExists(t, store, "a name is not used twice")
		})
	}
}

func TestDB_NeverServesABitFlipInATable(t *testing.T) {
	cfg, s, store := stored(t)
	for _, f := range files(t, store+"/*.sst") {
		raw, err := os.ReadFile(f)
		require.NoError(t, err)
		for i := 2000; i < len(raw)*3/4; i += 4000 {
			raw[i] ^= 0x20
		}
		require.NoError(t, os.WriteFile(f, raw, 0o600))
	}
	db := open(t, cfg)
	failed := 0
	for i := range 60 {
		var rec waypost.Record
		_, found, err := db.Link(waypost.DefaultDomain, fmt.Appendf(nil, "big%06d", i), nil, &rec)
		if err != nil {
			failed++
			continue
		}
		if found {
			require.Equal(t, "https://example.com/"+strings.Repeat("x", 20000), string(rec.Payload))
		}
	}
	if db.Position().IsZero() {
		require.NotEmpty(t, files(t, cfg.Dir+"/quarantine-*"), "noticed while opening")
	} else {
		require.NotZero(t, failed)
		require.Error(t, db.Degraded())
		s.Commit()
		b := replicationtest.Next(t, s, db)
		require.ErrorIs(t, db.Apply(t.Context(), &b), replication.ErrDiverged)
	}
	replicationtest.Take(t, s, db)
	replicationtest.RequireEqual(t, s, db)
	require.NoError(t, db.Degraded())
	require.Eventually(t, func() bool { return len(files(t, cfg.Dir+"/quarantine-*")) == 1 }, 60*time.Second, time.Millisecond,
		"a store with damaged files is quarantined and not removed")
}

func TestOpen_RefusesANewerFormat(t *testing.T) {
	cfg, _, store := stored(t)
	current := fmt.Sprintf("waypost-replica %d store-000077 and more\n", replica.StoreFormat+1)
	require.NoError(t, os.WriteFile(cfg.Dir+"/CURRENT", []byte(current), 0o600))
	_, err := replica.Open(cfg)
	require.ErrorContains(t, err, "newer version of waypost")
	require.DirExists(t, store)
	raw, err := os.ReadFile(cfg.Dir + "/CURRENT")
	require.NoError(t, err)
	require.Equal(t, current, string(raw))
}

func TestOpen_FailsOnAnUnusableDirectory(t *testing.T) {
	cfg, _, store := stored(t)
	d := &disk{err: syscall.ENOSPC}
	d.broken.Store(true)
	full := cfg
	full.FS = errorfs.Wrap(vfs.Default, d)
	_, err := replica.Open(full)
	require.ErrorIs(t, err, syscall.ENOSPC)
	d.only = func(op errorfs.Op) bool { return op.Kind != errorfs.OpLock }
	_, err = replica.Open(full)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.DirExists(t, store)
	require.Empty(t, files(t, cfg.Dir+"/quarantine-*"))
	db := open(t, cfg)
	_, found := find(t, db, "aaaa")
	require.True(t, found)

	cfg.Dir = filepath.Join(cfg.Dir, "CURRENT", "x")
	_, err = replica.Open(cfg)
	require.Error(t, err)
}
