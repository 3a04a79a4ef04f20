package backup

import (
	"context"
	"crypto/hmac"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"waypost/internal/pgserver"
	"waypost/migrations"
)

// Restored reports the outcome of a restore.
type Restored struct {
	Manifest Manifest `json:"manifest"`
	// MadeRoles are the roles of PostgreSQL that were missing. An owner among them has no
	// password.
	MadeRoles []string `json:"made_roles"`
}

// restoreLock is the advisory lock of a database that is being restored.
const restoreLock = 7307

// Restore puts the backup in dir into an empty database, as a superuser. It compares all
// files with the manifest before it touches anything. secretCheck is the check value of
// the cluster's secret that will be used, nil if it is unknown.
//
// The dump is restored in one transaction, so that the database is empty again after a
// failure. The next control plane finds another history, even in the PostgreSQL from
// which the backup was made, and opens a new epoch.
func Restore(ctx context.Context, cfg Config, dir string, secretCheck []byte) (r Restored, err error) {
	if r.Manifest, err = Open(ctx, dir); err != nil {
		return r, err
	}
	m := r.Manifest
	stored, _ := hex.DecodeString(m.SecretCheck) // Open has checked it
	if secretCheck != nil && !hmac.Equal(stored, secretCheck) {
		return r, errors.New("the cluster secret is not that of the backup: give the secret of that time, because codes would repeat with another")
	}
	db, err := connect(ctx, cfg)
	if err != nil {
		return r, err
	}
	defer db.close()
	if err := checkTarget(ctx, db, m); err != nil {
		return r, err
	}
	tool, _, err := pgserver.Tool(ctx, "pg_restore", max(db.major, m.DumpMajor))
	if err != nil {
		return r, err
	}
	if r.MadeRoles, err = makeRoles(ctx, db, m); err != nil {
		return r, err
	}
	if err := load(ctx, db, tool, filepath.Join(dir, DumpFile), cfg.Progress); err != nil {
		return r, fmt.Errorf("restore the dump: %w: the database is empty as before, except for roles", err)
	}
	if err := compareRestored(ctx, db, m); err != nil {
		return r, fmt.Errorf("%w: start no control plane with this database, drop it (DROP DATABASE %s) and restore again",
			err, pgx.Identifier{db.cfg.Database}.Sanitize())
	}
	return r, nil
}

// checkTarget refuses a database that the backup cannot be restored into, before anything
// changes.
func checkTarget(ctx context.Context, db *database, m Manifest) error {
	if db.major < m.PostgreSQLMajor {
		return fmt.Errorf("the backup is of PostgreSQL %s, and the server is older (%d): restore into %d or newer",
			m.PostgreSQL, db.major, m.PostgreSQLMajor)
	}
	var super, free, standby bool
	var things []string
	err := db.conn.QueryRow(ctx, `SELECT rolsuper, pg_try_advisory_lock($1), pg_is_in_recovery() FROM pg_roles WHERE rolname = session_user`,
		restoreLock).Scan(&super, &free, &standby)
	if err == nil {
		err = db.conn.QueryRow(ctx, `SELECT coalesce(array_agg(name ORDER BY name), '{}') FROM (
			SELECT c.oid::regclass::text AS name FROM pg_class c WHERE c.relnamespace::regnamespace::text !~ '^(pg_|information_schema)'
				AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
			UNION ALL SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace::regnamespace::text !~ '^(pg_|information_schema)'
				AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
			LIMIT 3) x`).Scan(&things)
	}
	switch {
	case err != nil:
		return fmt.Errorf("look into the database: %w", err)
	case standby:
		return errors.New("PostgreSQL is a standby: restore into a primary")
	case !free:
		return errors.New("another restore into this database is under way")
	case len(things) > 0:
		return fmt.Errorf("the database %s is not empty, it has %s: restore into a new one (CREATE DATABASE)", db.cfg.Database, strings.Join(things, ", "))
	case !super:
		return fmt.Errorf("the login %s is no superuser of PostgreSQL: restore with a database URL of one, because the dump says who owns what",
			db.cfg.User)
	}
	var missing []string
	err = db.conn.QueryRow(ctx, `SELECT coalesce(array_agg(r ORDER BY r), '{}') FROM unnest($1::text[]) r
		WHERE r !~ '^(waypost|pg)_' AND r <> $2 AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r)`, m.Roles, m.Owner).Scan(&missing)
	if err != nil {
		return fmt.Errorf("look for the roles: %w", err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("the dump names roles that this PostgreSQL does not have: make them first (CREATE ROLE %s)", strings.Join(missing, ", "))
	}
	return nil
}

// makeRoles makes the missing roles, and returns their names.
func makeRoles(ctx context.Context, db *database, m Manifest) (made []string, err error) {
	before, err := rolesOf(ctx, db)
	if err != nil {
		return nil, err
	}
	script, err := migrations.Roles(m.Owner) // the program's own, not the directory's
	if err != nil {
		return nil, err
	}
	if !slices.Contains(before, m.Owner) {
		if _, err := db.conn.Exec(ctx, `CREATE ROLE `+pgx.Identifier{m.Owner}.Sanitize()+` LOGIN`); err != nil {
			return nil, fmt.Errorf("make the role %s: %w", m.Owner, err)
		}
	}
	if _, err := db.conn.Exec(ctx, script); err != nil {
		return nil, fmt.Errorf("make the roles: %w", err)
	}
	// A new database belongs to the login that made it, and the control plane's login
	// needs the right to make tables.
	statement := `ALTER DATABASE ` + pgx.Identifier{db.cfg.Database}.Sanitize() + ` OWNER TO ` + pgx.Identifier{m.Owner}.Sanitize()
	if _, err := db.conn.Exec(ctx, statement); err != nil {
		return nil, fmt.Errorf("hand the database over to %s: %w", m.Owner, err)
	}
	after, err := rolesOf(ctx, db)
	return slices.DeleteFunc(after, func(r string) bool { return slices.Contains(before, r) }), err
}

func rolesOf(ctx context.Context, db *database) (names []string, err error) {
	err = db.conn.QueryRow(ctx, `SELECT array_agg(rolname::text ORDER BY rolname) FROM pg_roles`).Scan(&names)
	if err != nil {
		return nil, fmt.Errorf("read the roles: %w", err)
	}
	return names, nil
}

// load runs pg_restore, in one transaction.
func load(ctx context.Context, db *database, tool, path string, progress Progress) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var read atomic.Int64
	stop := ticking(func() { progress(read.Load(), info.Size()) })
	defer stop()
	name := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(db.cfg.Database)
	cmd := db.command(ctx, tool, "--exit-on-error", "--single-transaction", "--no-password", "--dbname=dbname='"+name+"'")
	cmd.Stdin = counting{f, &read}
	return run(cmd)
}

// counting counts the bytes that are read.
type counting struct {
	r io.Reader
	n *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// compareRestored compares the rows with the manifest, and marks the history as another
// one.
func compareRestored(ctx context.Context, db *database, m Manifest) error {
	if _, err := db.conn.Exec(ctx, `ANALYZE`); err != nil {
		return fmt.Errorf("gather statistics for queries: %w", err)
	}
	err := pgx.BeginFunc(ctx, db.conn, func(tx pgx.Tx) error {
		c, err := read(ctx, tx)
		if err != nil {
			return err
		}
		if c.position.String() != m.Position || c.digest != m.Digest || c.rows != m.Rows || c.records != m.Records || c.links != m.Links {
			return fmt.Errorf("the restored rows are not those of the manifest: %d records at %s with digest %s instead of %d at %s with %s",
				c.records, c.position, c.rows, m.Records, m.Position, m.Rows)
		}
		// No PostgreSQL has the identity 0, so the next control plane opens an epoch.
		_, err = tx.Exec(ctx, `UPDATE changelog_epoch SET system_identifier = 0 WHERE ordinal = (SELECT epoch FROM changelog_head)`)
		return err
	})
	if err != nil {
		return fmt.Errorf("compare the rows with the manifest: %w", err)
	}
	return nil
}
