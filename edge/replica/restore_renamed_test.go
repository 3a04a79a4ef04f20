package replica_test

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"waypost/edge/replica"
	"waypost/replication/replicationtest"
)

// namedButNotSynced makes the first sync after a rename of CURRENT fail.
type namedButNotSynced struct{ armed, renamed atomic.Bool }

func (d *namedButNotSynced) String() string { return "named but not synced" }

func (d *namedButNotSynced) MaybeError(op errorfs.Op) error {
	switch {
	case !d.armed.Load():
	case op.Kind == errorfs.OpRename && strings.Contains(op.Path, "CURRENT"):
		d.renamed.Store(true)
	case d.renamed.Load() && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpOpenDir):
		d.armed.Store(false)
		return syscall.EIO
	}
	return nil
}

func TestRestore_NeverRemovesAStoreThatCurrentNames(t *testing.T) {
	d := &namedButNotSynced{}
	cfg := config(errorfs.Wrap(vfs.NewMem(), d))
	s := replicationtest.NewSource()
	s.Commit(replicationtest.Link("code", "https://example.com/"))
	db, err := replica.Open(cfg)
	require.NoError(t, err)
	replicationtest.Take(t, s, db)
	db.Shrink()
	s.Commit(replicationtest.Link("later", "https://later.example/"))
	d.armed.Store(true)
	k := taking{s: s, db: db}
	require.ErrorIs(t, k.run(t), syscall.EIO)
	require.NoError(t, k.restore.Suspend()) // as a follower does whose context has ended

	head, err := s.Head(t.Context())
	require.NoError(t, err)
	r, err := db.Restore(t.Context(), head.Cluster)
	require.NoError(t, err)
	require.NoError(t, r.Abort())
	require.NoError(t, db.Close())

	db, err = replica.Open(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, found := find(t, db, "code")
	require.True(t, found)
}

func TestOpen_QuarantinesTheLiveStoreAlone(t *testing.T) {
	cfg, _, store := stored(t)
	fs := vfs.Default
	leftOver := filepath.Join(cfg.Dir, "store-000000") // of a removal that a crash has ended
	require.NoError(t, fs.MkdirAll(leftOver, 0o700))
	manifests, err := filepath.Glob(filepath.Join(cfg.Dir, filepath.Base(store), "MANIFEST-*"))
	require.NoError(t, err)
	require.NotEmpty(t, manifests)
	for _, m := range manifests {
		require.NoError(t, fs.Remove(m))
	}
	db, err := replica.Open(cfg)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	kept, err := filepath.Glob(filepath.Join(cfg.Dir, "quarantine-*"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	require.True(t, strings.HasSuffix(kept[0], filepath.Base(store)))
	require.NoDirExists(t, leftOver)
}
