// Package backup makes backups of an installation's PostgreSQL and restores them, by
// PostgreSQL's own pg_dump and pg_restore. A backup is a directory with a dump, the SQL
// of the roles, and a manifest with the moment of the dump.
//
// It knows nothing of base backups and of the archive of the write-ahead log, which
// PostgreSQL's operator has other programs for.
package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"waypost"
	"waypost/controlplane"
	"waypost/internal/pgserver"
	"waypost/migrations"
)

// role reads everything. Migrations make it, and its policies.
const role = "waypost_backup"

// Progress is called now and then: bytes of the dump are done, of a whole of size, which
// is 0 if it is unknown.
type Progress func(bytes, size int64)

// Config says where the database is. All fields are needed.
type Config struct {
	DatabaseURL string
	Environ     []string // of the process; variables of Waypost do not reach the children
	Version     string   // of the product
	Progress    Progress
}

// errMember says which right a login lacks.
var errMember = errors.New("the login of the backup may not read everything: let a superuser run " +
	"GRANT " + role + " TO the login, or give the database URL of another login")

// Make writes a backup to the directory out, which must not be there yet. The manifest
// describes the very moment of the dump, although the system runs and takes writes.
// However the process ends, out is a whole backup on the disk or does not exist; a
// process that was killed may leave a directory, named with a dot at the start and
// ".partial" at the end.
func Make(ctx context.Context, cfg Config, out string) (m Manifest, err error) {
	out, err = filepath.Abs(out)
	if err != nil {
		return m, err
	}
	if _, err := os.Lstat(out); err == nil {
		return m, fmt.Errorf("%s is there already: a backup overwrites nothing, so choose another name", out)
	}
	db, err := connect(ctx, cfg)
	if err != nil {
		return m, err
	}
	defer db.close()
	tool, major, err := pgserver.Tool(ctx, "pg_dump", db.major)
	if err != nil {
		return m, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(out), "."+filepath.Base(out)+".*.partial") // 0700
	if err != nil {
		return m, fmt.Errorf("make the backup's directory: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()

	// The transaction stays open, because the snapshot lives as long as it does.
	tx, err := db.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return m, fmt.Errorf("begin the backup: %w", err)
	}
	if m, err = describe(ctx, tx); err != nil {
		return m, err
	}
	m.Format, m.Version, m.Made, m.DumpMajor = format, cfg.Version, time.Now().UTC().Truncate(time.Second), major
	m.Database = db.cfg.Database
	var snapshot string
	if err := tx.QueryRow(ctx, `SELECT pg_export_snapshot()`).Scan(&snapshot); err != nil {
		return m, fmt.Errorf("export the snapshot: %w", err)
	}
	roles, err := migrations.Roles(m.Owner)
	if err != nil {
		return m, err
	}
	if err := writeFile(filepath.Join(dir, RolesFile), []byte(roles)); err != nil {
		return m, err
	}
	if err := dump(ctx, db, tool, filepath.Join(dir, DumpFile), snapshot, cfg.Progress); err != nil {
		return m, err
	}
	if err := tx.Rollback(ctx); err != nil {
		return m, fmt.Errorf("end the backup: %w", err)
	}
	if m.Files, err = sumsOf(ctx, dir); err != nil {
		return m, err
	}
	return m, finish(dir, out, m)
}

// describe reads the manifest's facts at the moment of the transaction.
func describe(ctx context.Context, tx pgx.Tx) (m Manifest, err error) {
	_, err = tx.Exec(ctx, `SET LOCAL ROLE `+role)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && (e.Code == "42501" || e.Code == "22023") {
		return m, errMember
	}
	if err != nil {
		return m, fmt.Errorf("take on the role %s: %w", role, err)
	}
	err = tx.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version`).Scan(&m.SchemaVersion)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "42P01" {
		return m, errors.New("this database holds no Waypost")
	}
	if err != nil {
		return m, fmt.Errorf("read the schema version: %w", err)
	}
	if m.SchemaVersion != migrations.Newest {
		return m, fmt.Errorf("the database has schema version %d, this program needs %d: back up with the program that serves it",
			m.SchemaVersion, migrations.Newest)
	}
	var cluster, check []byte
	err = tx.QueryRow(ctx, `SELECT uuid_send(id), secret_check FROM cluster`).Scan(&cluster, &check)
	if errors.Is(err, pgx.ErrNoRows) {
		return m, errors.New("no control plane has started with this database yet, so there is nothing to back up")
	}
	if err != nil {
		return m, fmt.Errorf("read the cluster's settings: %w", err)
	}
	m.Cluster, m.SecretCheck = fmt.Sprintf("%x", cluster), fmt.Sprintf("%x", check)
	var c content
	if c, err = read(ctx, tx); err != nil {
		return m, err
	}
	m.Position, m.Digest, m.Rows, m.Records, m.Links = c.position.String(), c.digest, c.rows, c.records, c.links
	err = tx.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('server_version_num')::integer / 10000,
		(SELECT relowner::regrole::name::text FROM pg_class WHERE oid = 'link'::regclass),
		coalesce((SELECT array_agg(DISTINCT r.rolname::text) FROM pg_shdepend d JOIN pg_roles r ON r.oid = d.refobjid
			WHERE d.refclassid = 'pg_authid'::regclass AND d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())), '{}')`).
		Scan(&m.PostgreSQL, &m.PostgreSQLMajor, &m.Owner, &m.Roles)
	if err != nil {
		return m, fmt.Errorf("read the version of PostgreSQL: %w", err)
	}
	return m, nil
}

// content describes the rows of a database at one moment.
type content struct {
	position       waypost.Position
	digest, rows   string // of the head, and of the rows
	records, links int64
}

// read takes some seconds for ten million links. The transaction sees all rows.
func read(ctx context.Context, tx pgx.Tx) (c content, err error) {
	var epoch []byte
	var ordinal int32
	var seq, stamp, digest, rows int64
	err = tx.QueryRow(ctx, `SELECT e.ordinal, uuid_send(e.id), h.seq, h.stamp, h.digest, a.digest, a.records, (SELECT count(*) FROM link)
		FROM changelog_head h JOIN changelog_epoch e ON e.ordinal = h.epoch, changelog_add_up() a`).
		Scan(&ordinal, &epoch, &seq, &stamp, &digest, &rows, &c.records, &c.links)
	if err != nil {
		return c, fmt.Errorf("read the head of the changelog: %w", err)
	}
	c.position = waypost.Position{Seq: uint64(seq), Stamp: uint64(stamp)}
	c.position.Epoch.Ordinal = uint32(ordinal)
	copy(c.position.Epoch.ID[:], epoch)
	c.digest, c.rows = controlplane.DigestText(uint64(digest)), controlplane.DigestText(uint64(rows))
	return c, nil
}

// AddsUp reports whether the rows had the digest of the changelog.
func (m Manifest) AddsUp() bool { return m.Digest == m.Rows }

// dump runs pg_dump as of the snapshot.
func dump(ctx context.Context, db *database, tool, path, snapshot string, progress Progress) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("make the dump: %w", err)
	}
	stop := ticking(func() {
		if info, err := f.Stat(); err == nil {
			progress(info.Size(), 0)
		}
	})
	cmd := db.command(ctx, tool, "--format=custom", "--role="+role, "--enable-row-security", "--snapshot="+snapshot, "--no-password")
	cmd.Stdout = f // the file itself, into which pg_dump writes the places of its tables at the end
	err = run(cmd)
	stop()
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("make the dump: %w", err)
	}
	return nil
}

// magic begins every dump of the format custom.
const magic = "PGDMP"
