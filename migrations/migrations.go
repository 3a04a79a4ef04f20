// Package migrations holds the schema of the control plane's database and brings a
// database up to it. One file holds one topic, in the order in which one reads them;
// docs/schema.md explains them. The package does not know how the tables are used.
package migrations

import (
	"context"
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
// has no right to the roles of access/roles.sql.
func Up(ctx context.Context, databaseURL string) error {
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return errURL
	}
	// The URL's own timeouts are for requests; an index takes longer.
	for _, limit := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
		cfg.RuntimeParams[limit] = "0"
	}
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithSessionLocker(locker), goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	have, err := provider.GetDBVersion(ctx)
	if isPrivilege(err) {
		return fmt.Errorf("the login may make no tables in this database; its owner may (ALTER DATABASE … OWNER TO …): %w", err)
	}
	if err != nil {
		return fmt.Errorf("read the schema version: %w", err)
	}
	if have > int64(Newest) {
		return fmt.Errorf("the database has schema version %d, this program knows up to %d: use a newer waypost", have, Newest)
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

func isPrivilege(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == insufficientPrivilege
}
