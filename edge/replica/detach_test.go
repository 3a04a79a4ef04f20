package replica_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

func TestDB_DetachedAnswersWhileAnotherHasTheDirectory(t *testing.T) {
	for name, cfg := range map[string]replica.Config{
		"in memory": config(vfs.NewMem()),
		"on disk":   {Dir: t.TempDir(), Logger: config(nil).Logger},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.SyncInterval = time.Hour
			db, s := filled(t, cfg, 100)
			s.Commit(domain("7", "seven.example"), replicationtest.Link("code0001", "https://changed.example/"))
			s.Commit(saltRecord(20_000, strings.Repeat("ab", 32)))
			apply(t, s, db)
			at := db.Position()
			require.NoError(t, db.Detach(t.Context()))
			require.True(t, db.Detached())
			require.Equal(t, at, db.Synced())

			next, err := replica.Open(cfg) // no "in use by another process"
			require.NoError(t, err)
			require.Equal(t, at, next.Position())
			gone := replicationtest.Link("code0002", "https://example.com/2")
			gone.State = waypost.Deleted
			s.Commit(gone)
			apply(t, s, next)

			location, found := find(t, db, "code0001")
			require.True(t, found)
			require.Equal(t, "https://changed.example/", location)
			_, found = find(t, db, "no-such1")
			require.False(t, found)
			id, found := db.Domain([]byte("seven.example"))
			require.True(t, found)
			require.EqualValues(t, 7, id)
			require.NotNil(t, db.Salt(20_000))
			require.Nil(t, db.Salt(20_001))
			require.Equal(t, at, db.Position())
			require.NoError(t, db.Degraded())
			b := replicationtest.Next(t, s, db)
			require.ErrorContains(t, db.Apply(t.Context(), &b), "detached")
			_, err = db.Restore(t.Context(), replication.Cluster{})
			require.ErrorContains(t, err, "detached")
			_, _, err = db.Recompute(t.Context())
			require.ErrorContains(t, err, "detached")
			require.ErrorContains(t, db.Detach(t.Context()), "detached")
			require.ErrorContains(t, db.Attach(t.Context()), "in use by another process")

			moved := next.Position()
			require.NoError(t, next.Close())
			require.NoError(t, db.Attach(t.Context())) // the other one has ended
			require.False(t, db.Detached())
			require.Equal(t, moved, db.Position(), "the other one's batches are not lost")
			rec, _, found, err := db.Link(waypost.DefaultDomain, []byte("code0002"), nil)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, waypost.Deleted, rec.State, "the table says so too")
			s.Commit(replicationtest.Link("code0003", "https://after.example/"))
			apply(t, s, db)
			replicationtest.RequireEqual(t, s, db)
			require.Error(t, db.Attach(t.Context()))
		})
	}
}

func TestDB_AttachedUnchangedKeepsItsTable(t *testing.T) {
	db, s := filled(t, config(vfs.NewMem()), 100)
	require.NoError(t, db.Detach(t.Context()))
	require.NoError(t, db.Attach(t.Context()))
	require.NoError(t, db.Detach(t.Context()), "its table is complete at once")
	require.NoError(t, db.Attach(t.Context()))
	s.Commit(replicationtest.Link("code0003", "https://after.example/"))
	apply(t, s, db)
	location, _ := find(t, db, "code0003")
	require.Equal(t, "https://after.example/", location)
}

func TestDB_AnswersReadersDuringDetachAndAttach(t *testing.T) {
	db, s := filled(t, config(vfs.NewMem()), 200)
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			buf := make([]byte, 0, 1024)
			for i := 0; !done.Load(); i++ {
				runtime.Gosched() // lets the writer run
				code := fmt.Appendf(nil, "code%04d", i%200)
				rec, _, found, err := db.Link(waypost.DefaultDomain, code, buf)
				if err != nil || !found || string(rec.Name) != string(code) {
					t.Errorf("%s: %v %v", code, found, err)
					return
				}
			}
		})
	}
	for i := range 15 {
		require.NoError(t, db.Detach(t.Context()))
		require.NoError(t, db.Attach(t.Context()))
		if i%3 == 0 {
			s.Commit(replicationtest.Link("code0001", fmt.Sprintf("https://%d.example/", i)))
			apply(t, s, db)
			replicationtest.Take(t, s, db)
		}
	}
	done.Store(true)
	readers.Wait()
	replicationtest.RequireEqual(t, s, db)
}

func TestDB_DetachNeedsACompleteTable(t *testing.T) {
	cfg := config(vfs.NewMem())
	cfg.LookupBytes = -1
	db, s := filled(t, cfg, 10)
	require.ErrorContains(t, db.Detach(t.Context()), "does not hold all links")
	s.Commit(replicationtest.Link("code0003", "https://after.example/"))
	apply(t, s, db)

	empty := open(t, config(vfs.NewMem()))
	require.ErrorContains(t, empty.Detach(t.Context()), "first snapshot")
	r, err := db.Restore(t.Context(), replication.Cluster{1})
	require.NoError(t, err)
	require.Error(t, db.Detach(t.Context()))
	require.NoError(t, r.Abort())
}

func TestDB_DetachedCanBeClosed(t *testing.T) {
	cfg := config(vfs.NewMem())
	db, err := replica.Open(cfg)
	require.NoError(t, err)
	s := replicationtest.NewSource()
	s.Commit(replicationtest.Link("code0003", "https://three.example/"))
	replicationtest.Take(t, s, db)
	require.NoError(t, db.Detach(t.Context()))
	require.NoError(t, db.Close())
	_, _, _, err = db.Link(waypost.DefaultDomain, []byte("code0003"), nil)
	require.ErrorContains(t, err, "closed")
	open(t, cfg)
}
