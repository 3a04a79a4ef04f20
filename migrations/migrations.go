// Package migrations holds the schema of the control plane's database and brings
// a database up to it. It knows nothing of the tables' use.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	// the "pgx" driver of database/sql
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
// the login has no right to the roles of access/roles.sql. While a dump, or whoever else, holds a table that is
// changed, it tries again for some minutes, and keeps nobody waiting meanwhile.
func Up(ctx context.Context, databaseURL string) error {
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return errURL
	}
	// Those of the URL are for requests: an index takes longer.
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
	if err := apply(ctx, provider); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return protect(ctx, db)
}

// A migration of a table that is in use waits for a lock for a moment only, since all others wait
// behind it, and then comes again.
const (
	lockNotAvailable = "55P03"
	lockPause        = 2 * time.Second
	lockTries        = 100
)

func apply(ctx context.Context, provider *goose.Provider) error {
	for tries := 1; ; tries++ {
		_, err := provider.Up(ctx)
		e, ok := errors.AsType[*pgconn.PgError](err)
		switch {
		case ok && e.Code == insufficientPrivilege:
			return fmt.Errorf("%w: %w", err, ErrRoles)
		case !ok || e.Code != lockNotAvailable:
			return err
		case tries == lockTries:
			return fmt.Errorf("a dump, or another long transaction, holds a table: come again when it has ended: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPause):
		}
	}
}
