package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost/controlplane/postgres/scoped"
)

// analyzeInterval is much shorter than the minute that autovacuum sleeps by default.
const analyzeInterval = 5 * time.Second

// selectNew selects tables above 64 KiB that were never analyzed.
const selectNew = `
SELECT c.oid::regclass::text FROM pg_class c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.reltuples < 0 AND pg_relation_size(c.oid) > 65536`

// AnalyzeNew analyzes tables that never were, until ctx ends. Without statistics the
// planner assumes that almost all links are deleted, and reads a whole workspace to find
// one link. After an import of a million links each lookup took 0.3 s until autovacuum
// analyzed the table. Later analyses are left to autovacuum.
func (db *DB) AnalyzeNew(ctx context.Context) {
	db.pool.RunEvery(ctx, analyzeInterval, "first statistics of tables", db.AnalyzeNewOnce)
}

// AnalyzeNewOnce does one round of AnalyzeNew. Several instances may do it at the same
// time.
func (db *DB) AnalyzeNewOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maintenanceTimeLimit)
	defer cancel()
	var names []string
	err := db.pool.QueryIn(ctx, scoped.Operator, selectNew, nil, scoped.CollectInto(&names))
	for _, name := range names {
		if err == nil {
			err = db.pool.AlterTable(ctx, func(tx pgx.Tx) error { return scoped.Exec(ctx, tx, `ANALYZE `+name) })
		}
	}
	return scoped.Classify("make the first statistics of tables", err)
}
