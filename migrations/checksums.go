package migrations

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"
)

// ErrOtherSchema says that other files than this program's made the schema, which has one
// of this program's versions.
var ErrOtherSchema = errors.New("make the database again: copy its links with 'waypost links export' of the build that made it, " +
	"empty the database (dropdb, createdb), and run 'waypost migrate'; or go on with that build")

// migrateLock is the advisory lock under which one program at a time reads and writes the
// checksums and applies files.
const migrateLock = 7307

// SelectChecksums is the query for the checksums of the files that made a database, which
// are the comment on the table of its versions; NULL without any.
const SelectChecksums = `SELECT obj_description(to_regclass('goose_db_version'), 'pg_class')`

// checksums returns the version and the checksum of each file, such as "1:0f3a…", in
// order and separated by spaces.
func checksums(files fs.FS) (string, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return "", err
	}
	sums := make([]string, len(names))
	for i, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return "", err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(text)
		sums[i] = fmt.Sprintf("%d:%s", version, hex.EncodeToString(sum[:8]))
	}
	return strings.Join(sums, " "), nil
}

// Check returns [ErrOtherSchema] if other files than this program's made a schema of a
// version that this program knows. Stored has the checksums of the database, and may have
// more of them than were applied.
func Check(version int, stored string) error {
	own, err := checksums(files)
	if err != nil {
		return err
	}
	return checkSums(version, stored, own)
}

func checkSums(version int, stored, own string) error {
	if version == 0 {
		return nil
	}
	made := make(map[string]bool)
	for sum := range strings.FieldsSeq(stored) {
		made[sum] = true
	}
	for sum := range strings.FieldsSeq(own) {
		number, _, _ := strings.Cut(sum, ":")
		var of int
		if _, err := fmt.Sscan(number, &of); err != nil {
			return err
		}
		if of <= version && !made[sum] {
			return fmt.Errorf("the database has schema version %d, but another build of Waypost made it: its file %d differs: %w", version, of, ErrOtherSchema)
		}
	}
	return nil
}

// lockChecksums waits for the lock and checks the files that made the database. Then it
// notes all files of this program, before the first of them is applied, so that an
// interrupted migration goes on. The caller calls unlock.
func lockChecksums(ctx context.Context, db *sql.DB, version func() (int64, error)) (unlock func(), err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	unlock = func() {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, migrateLock) // or the connection's end does it
		_ = conn.Close()
	}
	if err := noteChecksums(ctx, conn, version); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

func noteChecksums(ctx context.Context, conn *sql.Conn, version func() (int64, error)) error {
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, migrateLock); err != nil {
		return fmt.Errorf("wait for another migration: %w", err)
	}
	have, err := version()
	if err != nil {
		return err
	}
	var stored sql.NullString
	if err := conn.QueryRowContext(ctx, SelectChecksums).Scan(&stored); err != nil {
		return fmt.Errorf("read the checksums of the schema: %w", err)
	}
	own, err := checksums(files)
	if err != nil {
		return err
	}
	if err := checkSums(int(have), stored.String, own); err != nil || stored.String == own {
		return err
	}
	if _, err := conn.ExecContext(ctx, `COMMENT ON TABLE goose_db_version IS '`+own+`'`); err != nil {
		return fmt.Errorf("write the checksums of the schema: %w", err)
	}
	return nil
}
