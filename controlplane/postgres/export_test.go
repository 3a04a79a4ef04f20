package postgres

import (
	"context"

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

// RetainedTables returns the tables of the list of all that goes with time.
func (db *DB) RetainedTables() (tables []string) {
	for _, r := range db.retention() {
		tables = append(tables, r.table)
	}
	return tables
}

// Unscoped is a query without a scope.
func (db *DB) Unscoped(ctx context.Context, sql string) (n int64, err error) {
	err = db.pool.QueryRow(ctx, sql).Scan(&n)
	return n, err
}
