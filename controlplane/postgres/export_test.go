package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"waypost/controlplane/postgres/scoped"
)

// Sealed returns the form of a document in a Memory.
var Sealed = sealed

// ReuseKeysQuery returns the statement of ReuseKeys.
var ReuseKeysQuery = reuseKeys

// CountIn returns the one number of a query in the scope of workspaces.
func (db *DB) CountIn(ctx context.Context, workspaces, sql string) (n int64, err error) {
	err = db.pool.QueryRowIn(ctx, scoped.Tenant(workspaces), sql, nil, &n)
	return n, err
}

// Unscoped is a query without a scope.
func (db *DB) Unscoped(ctx context.Context, sql string) (n int64, err error) {
	err = db.pool.QueryRow(ctx, sql).Scan(&n)
	return n, err
}

// ExplainHead returns the plan that a connection keeps of the head's query.
func (db *DB) ExplainHead(ctx context.Context) (plan string, err error) {
	err = db.pool.Transact(ctx, scoped.Stream, scoped.Stream.TxOptions(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, enterTail, scoped.Stream.Role); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `EXPLAIN (FORMAT JSON) `+selectHead).Scan(&plan)
	})
	return plan, err
}
