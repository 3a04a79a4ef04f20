package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// analyzeInterval is a fraction of the minute after which PostgreSQL itself looks.
const analyzeInterval = 5 * time.Second

// selectNew selects tables of more than some pages of which PostgreSQL has no statistics.
const selectNew = `
SELECT c.oid::regclass::text FROM pg_class c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.reltuples < 0 AND pg_relation_size(c.oid) > 65536`

// AnalyzeNew makes the first statistics of tables that grow, until ctx ends. Without any
// the planner believes that hardly a link is not deleted, and reads all links of a
// workspace to find one: after the import of a million that took 0.3 s each time, until
// PostgreSQL analyzed the table by its own schedule, which it does from then on.
func (db *DB) AnalyzeNew(ctx context.Context) {
	db.pool.every(ctx, analyzeInterval, "first statistics of tables", db.AnalyzeNewOnce)
}

// AnalyzeNewOnce does one round of AnalyzeNew. Several instances may do it at the same
// time.
func (db *DB) AnalyzeNewOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maintenanceTimeLimit)
	defer cancel()
	var names []string
	err := db.pool.queryIn(ctx, system, selectNew, nil, func(rows pgx.Rows) (err error) {
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	for _, name := range names {
		if err == nil {
			err = db.pool.alter(ctx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, `ANALYZE `+name)
				return err
			})
		}
	}
	return classify("make the first statistics of tables", err)
}
