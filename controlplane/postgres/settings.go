package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"waypost/controlplane/postgres/scoped"
)

// selectHarmful selects settings of PostgreSQL with which answered changes can be lost,
// or statements get slower and slower. The bounds are far below PostgreSQL's defaults.
const selectHarmful = `
SELECT name, current_setting(name), CASE
    WHEN name IN ('fsync', 'full_page_writes') THEN 'a crash of its machine can destroy the database'
    WHEN name = 'synchronous_commit' THEN 'a crash takes back changes that were answered'
    WHEN name IN ('autovacuum', 'track_counts') THEN 'tables grow, and searches get slow'
    WHEN name = 'max_wal_size' THEN 'checkpoints come all the time'
    ELSE 'each statement reads from the disk'
END
FROM pg_settings
WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum', 'track_counts') AND setting = 'off'
   OR name = 'max_wal_size' AND pg_size_bytes(current_setting(name)) < pg_size_bytes('256MB')
   OR name = 'shared_buffers' AND pg_size_bytes(current_setting(name)) < pg_size_bytes('64MB')
   OR name = 'work_mem' AND pg_size_bytes(current_setting(name)) < pg_size_bytes('1MB')
ORDER BY 1`

// readHarmful looks for settings that do harm. What a setting is while the control plane
// runs is not seen.
func (db *DB) readHarmful(ctx context.Context) error {
	var all []string
	rows, err := db.pool.Query(ctx, selectHarmful)
	if err == nil {
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
			var name, value, harm string
			err := row.Scan(&name, &value, &harm)
			return fmt.Sprintf("%s=%s (%s)", name, value, harm), err
		})
	}
	if err != nil {
		return scoped.Classify("read the settings of PostgreSQL", err)
	}
	if db.harmful = strings.Join(all, ", "); db.harmful != "" {
		db.pool.Log.Warn("found settings of PostgreSQL that do harm", "settings", db.harmful)
	}
	return nil
}
