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

// FoldLock returns the keys of the lock under which a link's parts are folded.
func FoldLock(workspace, link int64) (int, int32) { return foldLocks, place{workspace, link}.lock() }

// FoldAlone folds all parts of links, with one worker.
func (r *Roller) FoldAlone(ctx context.Context) error { return r.pass(ctx) }

// EndBudgets looks at all budgets once.
func (r *Roller) EndBudgets(ctx context.Context) error { return r.endBudgets(ctx) }

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
