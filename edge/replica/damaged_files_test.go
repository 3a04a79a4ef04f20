package replica_test

import (
	"fmt"
	"io"
	"path"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication/replicationtest"
)

// damageable is a closed replica in memory, and the source that it followed, which is
// ahead by many transactions.
type damageable struct {
	*fleet
	fs      *vfs.MemFS
	history map[waypost.Position][][]byte // rows at each position so far
}

// newDamageable makes a replica that was opened some times, with the tables of each
// start, and a WAL.
func newDamageable(t *testing.T, starts int) *damageable {
	t.Helper()
	d := &damageable{fs: vfs.NewCrashableMem(), fleet: &fleet{Source: replicationtest.NewSource()}, history: map[waypost.Position][][]byte{}}
	commit := func(records ...waypost.Record) { d.history[d.Commit(records...)] = d.Rows() }
	var links []waypost.Record
	for i := range 300 {
		links = append(links, replicationtest.Link(linkCode(i), fmt.Sprintf("https://example.com/%d", i)))
	}
	commit(append(links, domain("7", "seven.example"))...)
	d.serve(t)
	for round := range starts {
		db, err := replica.Open(d.config())
		require.NoError(t, err)
		if round == 0 {
			replicationtest.Take(t, d.Source, db)
		}
		for i := range 5 {
			n := round*20 + i
			records := []waypost.Record{
				deleted(linkCode(n)), replicationtest.Link(linkCode(100+n), fmt.Sprintf("https://changed.example/%d", n)),
				replicationtest.Link(fmt.Sprintf("new%05d", n), "https://new.example/"),
			}
			if starts > 2 { // many tombstones lead to compactions
				records = append(records, replicationtest.Purge(linkCode(n-20)))
			}
			commit(records...)
			apply(t, d.Source, db)
			if round == 2 && i == 2 {
				require.NoError(t, db.Flush())
			}
		}
		require.NoError(t, db.Close())
	}
	for i := range 400 { // after the replica: the numbers of these writes pass those of all others
		d.Commit(replicationtest.Link(linkCode(i%300), fmt.Sprintf("https://later.example/%d", i)))
	}
	return d
}

func (d *damageable) config() replica.Config {
	cfg := config(d.fs)
	cfg.LogBytes = 1 << 20
	return cfg
}

// files lists the files of the replica.
func (d *damageable) files(t *testing.T, dir string) (all []string) {
	t.Helper()
	names, err := d.fs.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		file := path.Join(dir, name)
		info, err := d.fs.Stat(file)
		require.NoError(t, err)
		switch {
		case info.IsDir():
			all = append(all, d.files(t, file)...)
		case info.Size() > 0:
			all = append(all, file)
		}
	}
	return all
}

func contents(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	require.NoError(t, err)
	raw, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return raw
}

// try opens a copy of the replica with other bytes in a file. Then the replica holds one
// state of the past as a whole, or nothing, or it is known to be damaged. With a source
// in reach it is right soon, and stays so.
func (d *damageable) try(t *testing.T, name string, raw []byte) (outcome string) {
	t.Helper()
	cfg := d.config()
	fs := crash(d.fs, 100, 1)
	cfg.FS = fs
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(raw)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	db, err := replica.Open(cfg)
	if err != nil { // it changes nothing, and says what to do
		require.ErrorContains(t, err, "newer version")
		return "refused"
	}
	defer func() { require.NoError(t, db.Close()) }()
	_, holds := db.Cluster()
	switch right := judged(t, db); {
	case !holds:
		outcome = "quarantined"
	case right:
		at := db.Position()
		require.Contains(t, d.history, at)
		require.Equal(t, d.history[at], rows(t, db), "at %v", at)
		outcome = "right"
	default:
		require.Error(t, db.Degraded(), "it is named")
		require.True(t, db.Synced().IsZero())
		outcome = "found"
	}
	g := &fleet{Source: d.Source, db: db, url: d.url}
	g.follow(t)
	g.settle(t)
	require.True(t, db.Verified())
	require.NoError(t, db.Degraded())
	g.stop()
	st := g.follower.Status()
	if outcome == "right" && st.Snapshots+st.Repairs > 0 {
		outcome = "right, then replaced"
	}
	if outcome == "found" {
		require.Positive(t, st.Snapshots+st.Repairs)
	}
	return outcome
}
