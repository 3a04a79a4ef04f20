// Package migrations holds the schema of the control plane's database and brings
// a database up to it. It knows nothing of the tables' use.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the "pgx" driver of database/sql
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed *.sql
var files embed.FS

// Newest is the schema version that this program works with.
const Newest = 19

const insufficientPrivilege = "42501"

// Up applies what is missing, one transaction a migration, under a session lock,
// so that several instances may start at once. It fails, changing nothing, when
// the database is of a newer version than this program knows, and with ErrRoles when
// the login has no right to the roles of access/roles.sql.
func Up(ctx context.Context, databaseURL string) error {
	if _, err := pgx.ParseConfig(databaseURL); err != nil {
		return errURL
	}
	db, err := sql.Open("pgx", databaseURL)
	if err != nil {
		return fmt.Errorf("database URL: %w", err)
	}
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
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == insufficientPrivilege {
		return fmt.Errorf("the login may make no tables in this database; its owner may (ALTER DATABASE … OWNER TO …): %w", err)
	}
	if err != nil {
		return fmt.Errorf("read the schema version: %w", err)
	}
	if have > Newest {
		return fmt.Errorf("the database has schema version %d, this program knows up to %d: use a newer waypost", have, Newest)
	}
	if err := ensureRoles(ctx, db); err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return protect(ctx, db)
}
