package history_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/internal/pgserver"
	"waypost/migrations"
	"waypost/replication"
	"waypost/test/devtest"
)

// baseBackup copies the PostgreSQL that runs.
func (in *system) baseBackup(t *testing.T, to string, args ...string) {
	t.Helper()
	devtest.BaseBackup(t, devtest.Superuser(in.server), to, in.data(), args...)
}

// become makes a copy of PostgreSQL's files those of the PostgreSQL that the control
// plane is pointed at, and starts it.
func (in *system) become(t *testing.T, files string, settings map[string]string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(in.data()))
	require.NoError(t, os.Rename(files, in.data()))
	in.startPostgres(t, settings)
}

// standby is a second cluster that streams from the first, and stops before the tail that
// it will have lost.
func standby(t *testing.T, in *system) (back func()) {
	dir := filepath.Join(in.base, "standby")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	in.baseBackup(t, filepath.Join(dir, "data"), "--write-recovery-conf")
	second := startServer(t, dir, nil)
	in.write(t, `UPDATE link SET title = title || 'x' WHERE code = 'bulk-1'`)
	var lsn string
	byHand(t, in.server, func(conn *pgx.Conn) {
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT pg_current_wal_lsn()::text`).Scan(&lsn))
	})
	byHand(t, second, func(conn *pgx.Conn) {
		eventually(t, "the standby has it", func() (err error) {
			var has bool
			err = conn.QueryRow(t.Context(), `SELECT coalesce(pg_last_wal_replay_lsn() >= $1::text::pg_lsn, false)`, lsn).Scan(&has)
			if err == nil && !has {
				err = fmt.Errorf("it is behind %s", lsn)
			}
			return err
		})
	})
	stopServer(t, second) // the connection between the two is lost
	return func() {
		in.stopPostgres(t)
		in.become(t, filepath.Join(dir, "data"), map[string]string{"primary_conninfo": ""})
		byHand(t, in.server, func(conn *pgx.Conn) {
			_, err := conn.Exec(t.Context(), `SELECT pg_promote()`)
			require.NoError(t, err)
		})
	}
}

// pointInTime is a backup, from which the log of the cluster leads to any later moment.
func pointInTime(t *testing.T, in *system) (back func()) {
	base := filepath.Join(in.base, "base")
	in.baseBackup(t, base)
	in.restorePoint(t, "now")
	return func() {
		in.stopPostgres(t)
		devtest.CopyTree(t, filepath.Join(in.data(), "pg_wal"), filepath.Join(in.base, "archive"))
		in.recover(t, base, "now")
	}
}

func (in *system) restorePoint(t *testing.T, name string) {
	t.Helper()
	byHand(t, in.server, func(conn *pgx.Conn) {
		_, err := conn.Exec(t.Context(), `SELECT pg_create_restore_point($1)`, name)
		require.NoError(t, err)
	})
}

// recover restores a backup and what the archive has, up to a restore point.
func (in *system) recover(t *testing.T, base, name string) {
	t.Helper()
	signal := filepath.Join(base, "recovery.signal")
	require.NoError(t, os.WriteFile(signal, nil, 0o600))
	devtest.OwnTree(t, signal, base)
	in.become(t, base, map[string]string{
		"restore_command": fmt.Sprintf(`cp "%s/%%f" "%%p"`, filepath.Join(in.base, "archive")), "recovery_target_name": name,
		"recovery_target_action": "promote", "recovery_target_timeline": "current",
	})
}

// rolledBack is a copy of the files of a PostgreSQL that is stopped for it: it keeps its
// identity.
func rolledBack(t *testing.T, in *system) (back func()) {
	files := filepath.Join(in.base, "copy")
	in.stopPostgres(t)
	devtest.CopyTree(t, in.data(), files)
	in.startPostgres(t, nil)
	return func() {
		in.stopPostgres(t)
		in.become(t, files, nil)
	}
}

// dumped restores the output of pg_dump into a new cluster.
func dumped(t *testing.T, in *system) (back func()) {
	file := filepath.Join(in.base, "dump")
	devtest.PostgresTool(t, "pg_dump", "--format=custom", "--file", file, "--dbname", devtest.Superuser(in.server))
	return func() {
		// No control plane is let in before all is there.
		dir := filepath.Join(in.base, "fresh")
		fresh := startServer(t, dir, nil)
		roles, err := migrations.Roles(pgserver.Role) // which no dump of one database holds
		require.NoError(t, err)
		byHand(t, fresh, func(conn *pgx.Conn) {
			_, err := conn.Exec(t.Context(), roles)
			require.NoError(t, err)
		})
		devtest.PostgresTool(t, "pg_restore", "--exit-on-error", "--dbname", devtest.Superuser(fresh), file)
		stopServer(t, fresh)
		in.stopPostgres(t)
		in.become(t, filepath.Join(dir, "data"), nil)
	}
}

// One system goes through all of them, one after the other.
func TestWhateverHistoryPostgreSQLComesFromEveryEdgeEndsWithWhatItHas(t *testing.T) {
	in := newSystem(t)
	for i, c := range []struct {
		name    string
		keep    func(*testing.T, *system) func()
		running bool // the control plane, all the while
		forgets bool // the control plane, all that it knew
	}{
		{name: "a standby that is promoted without the tail, below a running control plane", keep: standby, running: true},
		{name: "a standby that is promoted without the tail", keep: standby},
		{name: "a restore to a point in time, below a running control plane", keep: pointInTime, running: true},
		{name: "a restore to a point in time", keep: pointInTime},
		{name: "files that were rolled back, below a running control plane", keep: rolledBack, running: true},
		{name: "files that were rolled back", keep: rolledBack},
		{name: "files that were rolled back, which only an edge can know", keep: rolledBack, forgets: true},
		{name: "a dump in a new cluster, below a running control plane", keep: dumped, running: true},
		{name: "a dump in a new cluster", keep: dumped},
	} {
		t.Run(c.name, func(t *testing.T) {
			tag := fmt.Sprintf("case-%d-", i)
			in.write(t, insert(tag+"changed"), insert(tag+"deleted"), insert(tag+"purged"))
			in.lease(t)
			back := c.keep(t, in)
			eventually(t, "the control plane has its database again", func() error { return in.db.WatchOnce(t.Context()) })
			in.loseTail(t, tag)
			in.goTo(t, back, c.running, c.forgets)
			if c.forgets {
				in.resume(t)
			}
			in.requireRestored(t, tag)
		})
	}
	t.Run("a second restore, to before the first", func(t *testing.T) {
		in.write(t, insert("early-changed"), insert("early-deleted"), insert("early-purged"))
		first, second := filepath.Join(in.base, "base"), filepath.Join(in.base, "base-2")
		in.baseBackup(t, first)
		in.restorePoint(t, "early")
		in.write(t, insert("late-changed"), insert("late-deleted"), insert("late-purged"))
		in.lease(t)
		in.restorePoint(t, "late")
		in.loseTail(t, "late-")
		devtest.CopyTree(t, first, second)
		in.goTo(t, func() {
			in.stopPostgres(t)
			devtest.CopyTree(t, filepath.Join(in.data(), "pg_wal"), filepath.Join(in.base, "archive"))
			in.recover(t, first, "late")
		}, true, false)
		in.requireRestored(t, "late-")

		in.loseTail(t, "early-")
		in.goTo(t, func() { in.stopPostgres(t); in.recover(t, second, "early") }, true, false)
		in.requireRestored(t, "early-")
		for _, e := range in.edges {
			require.Empty(t, e.target(t, "late-changed"))
		}
	})
	for _, e := range in.edges {
		require.Equal(t, 1, e.follower.Status().Snapshots, "the first; all else was repaired by slots")
	}
}

// loseTail makes changes that reach the edges and are lost, newer ones of links that are
// there among them.
func (in *system) loseTail(t *testing.T, tag string) {
	t.Helper()
	in.write(t,
		insert(tag+"lost"),
		`UPDATE link SET original_url = 'https://lost.example/1' WHERE code = '`+tag+`changed'`,
		`UPDATE link SET original_url = 'https://lost.example/2' WHERE code = '`+tag+`changed'`,
		`UPDATE link SET deleted_at = now() WHERE code = '`+tag+`deleted'`,
		`DELETE FROM link WHERE code = '`+tag+`purged'`,
	)
	in.lease(t)
	for _, e := range in.edges {
		in.settle(t, e)
		require.Equal(t, "https://lost.example/2", e.target(t, tag+"changed"))
	}
}

// goTo takes PostgreSQL to another history, and waits until that has an epoch of its own.
func (in *system) goTo(t *testing.T, back func(), running, forgets bool) {
	t.Helper()
	var before replication.Head
	eventually(t, "the control plane has its database", func() (err error) {
		before, err = in.db.Head(t.Context())
		return err
	})
	repairs := make([]int, len(in.edges))
	for i, e := range in.edges {
		repairs[i] = e.follower.Status().Repairs
	}
	if !running {
		in.stopControl()
	}
	back()
	if forgets {
		in.memory = &memory{}
	}
	if !running {
		in.startControl(t)
	}
	eventually(t, "a new epoch begins", func() error {
		head, err := in.db.Head(t.Context())
		if err == nil && head.Position.Epoch.Ordinal <= before.Position.Epoch.Ordinal {
			err = fmt.Errorf("it is in epoch %d still", head.Position.Epoch.Ordinal)
		}
		return err
	})
	for i, e := range in.edges {
		in.settle(t, e)
		eventually(t, "the repair is noted", func() error {
			if e.follower.Status().Repairs <= repairs[i] {
				return errors.New("there was none")
			}
			return nil
		})
	}
}

// requireRestored looks at what edges hold of the lost tail, and whether all goes on.
func (in *system) requireRestored(t *testing.T, tag string) {
	t.Helper()
	in.write(t, insert(tag+"after"))
	in.lease(t)
	for _, e := range in.edges {
		in.settle(t, e)
		for _, code := range []string{"changed", "deleted", "purged", "after"} {
			require.Equal(t, "https://example.com/"+tag+code, e.target(t, tag+code), "PostgreSQL's, and not the newer one of a lost history")
		}
		require.Empty(t, e.target(t, tag+"lost"))
		if failed := e.failed.Load(); failed != nil {
			require.NoError(t, *failed, "an edge serves all the while")
		}
		require.Less(t, e.follower.Status().Repaired, uint64(1000), "slots that differ, and no others")
	}
}
