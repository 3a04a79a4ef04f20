package postgres

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"waypost"
)

// scope is what a transaction may do: the role that it takes on, with its first
// statement, and the workspaces that row-level security then lets it see. It ends with the
// transaction. Between transactions a connection is nobody, and may do nothing.
type scope struct{ role, workspaces string }

// nobody is the role of a connection between transactions. See migrations/access.
const nobody = "waypost_nobody"

var (
	// system looks after the installation: keys, key ranges, authentication, domains.
	system = scope{role: "waypost_operator"}
	// stream reads the changelog, and what is replicated.
	stream = scope{role: "waypost_stream"}
	// ingest counts clicks.
	ingest = scope{role: "waypost_ingest"}
	// reaper removes what has expired.
	reaper = scope{role: "waypost_reaper"}
	// owner is the login itself, who alone makes and drops partitions. Row-level
	// security lets it see no row of a tenant's.
	owner = scope{role: "none"}
)

// tenant is the scope of workspaces, as workspaceList has them.
func tenant(workspaces string) scope { return scope{role: "waypost_tenant", workspaces: workspaces} }

func tenantOf(ws waypost.WorkspaceID) scope { return tenant(strconv.FormatInt(int64(ws), 10)) }

const enterScope = `SELECT set_config('role', $1, true), set_config('waypost.workspaces', $2, true)`

// first makes the scope that of a batch, or of what follows in it.
func (s scope) first(b *pgx.Batch) { b.Queue(enterScope, s.role, s.workspaces) }

// enter makes the scope that of a transaction from here on.
func (s scope) enter(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, enterScope, s.role, s.workspaces)
	return err
}

// begin is how a transaction begins in the scope, in one round trip. Neither statement
// takes a snapshot.
func (s scope) begin() pgx.TxOptions { return s.options("begin") }

// beginReading begins one that sees a single moment.
func (s scope) beginReading() pgx.TxOptions {
	return s.options("begin isolation level repeatable read read only")
}

func (s scope) options(begin string) pgx.TxOptions {
	begin += "; set local role " + s.role
	if s.workspaces != "" {
		begin += "; set local waypost.workspaces = '" + s.workspaces + "'" // digits and commas
	}
	return pgx.TxOptions{BeginQuery: begin}
}

// queryIn runs one query under a scope, in one round trip and one transaction.
func (db *DB) queryIn(ctx context.Context, s scope, sql string, args []any, read func(pgx.Rows) error) error {
	var b pgx.Batch
	s.first(&b)
	b.Queue(sql, args...).Query(read)
	return db.pool.SendBatch(ctx, &b).Close()
}

// queryRowIn is queryIn for a query of exactly one row.
func (db *DB) queryRowIn(ctx context.Context, s scope, sql string, args []any, into ...any) error {
	var b pgx.Batch
	s.first(&b)
	b.Queue(sql, args...).QueryRow(func(row pgx.Row) error { return row.Scan(into...) })
	return db.pool.SendBatch(ctx, &b).Close()
}

// execIn runs one statement under a scope and gives the number of rows.
func (db *DB) execIn(ctx context.Context, s scope, sql string, args ...any) (n int64, err error) {
	var b pgx.Batch
	s.first(&b)
	b.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
		n = tag.RowsAffected()
		return nil
	})
	return n, db.pool.SendBatch(ctx, &b).Close()
}

// listOf is the value of waypost.workspaces for some workspaces.
func listOf(ids []int64) string {
	slices.Sort(ids)
	var b strings.Builder
	for i, id := range slices.Compact(ids) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(id, 10))
	}
	return b.String()
}
