package migrations

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed access/roles.sql
var roles string

// protectLock is the advisory lock under which grants and policies are changed.
const protectLock = 7306

// ErrRoles says that the login lacks the roles that it needs, and cannot get them.
var ErrRoles = errors.New("let a superuser run what 'waypost migrate --print-roles' prints, or give the login CREATEROLE for the migration")

var errURL = errors.New("the database URL cannot be read; it looks like postgres://user@host/name")

// Roles returns the SQL by which a superuser makes the roles that Waypost's transactions
// take on, and lets a login use them.
func Roles(login string) (string, error) {
	if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,62}$`).MatchString(login) {
		return "", fmt.Errorf("%q is no name of a login", login)
	}
	return "SET waypost.login = '" + login + "';\n" + roles + "RESET waypost.login;\n", nil
}

// Login returns the user name in a database's URL.
func Login(databaseURL string) (string, error) {
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return "", errURL
	}
	return cfg.User, nil
}

// ensureRoles makes the missing roles, which belong to the whole PostgreSQL cluster.
func ensureRoles(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, roles)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "WP003" {
		return fmt.Errorf("%s: %w", e.Message, ErrRoles)
	}
	if err != nil {
		return fmt.Errorf("make the roles: %w", err)
	}
	return nil
}

// protect sets the grants and policies of all tables, also after a restore into a cluster
// that did not have the roles.
func protect(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, statement := range []string{
		fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d, 1)`, protectLock), `SELECT waypost_protect_all()`,
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return errors.Join(fmt.Errorf("protect the tables: %w", err), tx.Rollback())
		}
	}
	return tx.Commit()
}
