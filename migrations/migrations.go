// Package migrations holds the schema of the control plane's database and brings a
// database up to it. Each file holds one topic, and the files are in reading order;
// docs/schema.md explains them. The package does not know how the tables are used.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	// the "pgx" driver of database/sql
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed *.sql
var files embed.FS

// Newest is the schema version that this program works with: the number of the last file.
var Newest = newest()

const insufficientPrivilege = "42501"

func newest() int {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		panic(err)
	}
	version, err := goose.NumericComponent(names[len(names)-1])
	if err != nil {
		panic(err)
	}
	return int(version)
}

// Up applies the missing files, each in a transaction, under a session lock, so that
// several instances may start at the same time. It fails, changing nothing, if the
// database has a newer version than this program knows, and with ErrRoles if the login
// has no right to the roles of access/roles.sql. It refuses an encoding other than UTF-8.
func Up(ctx context.Context, databaseURL string) error {
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return errURL
	}
	// The URL's own timeouts are for requests; an index takes longer.
	for _, limit := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
		cfg.RuntimeParams[limit] = "0"
	}
	cfg.RuntimeParams["client_encoding"] = "UTF8"
	cfg.RuntimeParams["default_transaction_isolation"] = "read committed" // a wait for the lock is no conflict
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	if err := checkEncoding(ctx, db); err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithSessionLocker(locker), goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if err := checkVersion(ctx, provider); err != nil {
		return err
	}
	if err := ensureRoles(ctx, db); err != nil {
		return err
	}
	if _, err := provider.Up(ctx); isPrivilege(err) {
		return fmt.Errorf("migrate the database: %w: %w", err, ErrRoles)
	} else if err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return protect(ctx, db)
}

// checkVersion refuses a database with a newer version than this program's.
func checkVersion(ctx context.Context, provider *goose.Provider) error {
	have, err := provider.GetDBVersion(ctx)
	switch {
	case isPrivilege(err):
		return fmt.Errorf("the login may make no tables in this database; its owner may (ALTER DATABASE … OWNER TO …): %w", err)
	case err != nil:
		return fmt.Errorf("read the schema version: %w", err)
	case have > int64(Newest):
		return fmt.Errorf("the database has schema version %d, this program knows up to %d: use a newer waypost", have, Newest)
	}
	return nil
}

// checkEncoding refuses a database that keeps bytes or few letters: lower case, lengths
// and JSON would differ from other databases.
func checkEncoding(ctx context.Context, db *sql.DB) error {
	var encoding string
	if err := db.QueryRowContext(ctx, `SELECT current_setting('server_encoding')`).Scan(&encoding); err != nil {
		return fmt.Errorf("read the encoding of the database: %w", err)
	}
	if encoding != "UTF8" {
		return fmt.Errorf("the database has the encoding %s: make it with ENCODING 'UTF8' TEMPLATE template0", encoding)
	}
	return nil
}

func isPrivilege(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == insufficientPrivilege
}
