package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost/controlplane"
	"waypost/internal/failpoint"
)

var _ controlplane.ReaperStore = (*DB)(nil)

// ClaimCleanup implements controlplane.ReaperStore.
func (db *DB) ClaimCleanup(ctx context.Context, limit time.Duration) (bool, error) {
	n, err := db.execIn(ctx, reaper, `
		UPDATE cleanup SET running_until = clock_timestamp() + $1::interval
		WHERE running_until IS NULL OR running_until < clock_timestamp()`, limit)
	return n > 0, classify("begin a cleanup", err)
}

// EndCleanup implements controlplane.ReaperStore.
func (db *DB) EndCleanup(ctx context.Context, failed bool, took time.Duration) error {
	_, err := db.execIn(ctx, reaper, `
		UPDATE cleanup SET
			last_cleanup_time = clock_timestamp(),
			successful_runs   = successful_runs + (NOT $1::boolean)::integer,
			failed_runs       = failed_runs + $1::boolean::integer,
			cleanup_ms        = cleanup_ms + $2,
			running_until     = NULL`, failed, float64(took.Microseconds())/1000)
	return classify("note a cleanup", err)
}

// CleanupStats implements controlplane.ReaperStore.
func (db *DB) CleanupStats(ctx context.Context) (s controlplane.CleanupStats, err error) {
	var last *time.Time
	err = db.queryRowIn(ctx, reaper, `
		SELECT last_cleanup_time, total_cleaned, last_batch_size, successful_runs, failed_runs,
		       coalesce(cleanup_ms / nullif(successful_runs + failed_runs, 0), 0), coalesce(running_until > clock_timestamp(), false),
		       (SELECT count(*) FROM (SELECT FROM link WHERE deleted_at IS NULL AND expires_at < now() LIMIT $1) l)
		FROM cleanup`, []any{controlplane.MaxBacklog},
		&last, &s.TotalCleaned, &s.LastBatch, &s.Successful, &s.Failed, &s.AverageMillis, &s.Running, &s.Backlog)
	if last != nil {
		s.LastRun = last.UTC()
	}
	return s, classify("read what the cleanup did", err)
}

// ExpireLinks implements controlplane.ReaperStore. What is found is judged again under
// the head of the changelog: an expiry may have been put off meanwhile.
func (db *DB) ExpireLinks(ctx context.Context, buffer time.Duration, limit int) (int, error) {
	const due = `deleted_at IS NULL AND expires_at < now() - $1::interval`
	return db.reap(ctx, "expire links",
		`SELECT id FROM link WHERE `+due+` ORDER BY expires_at LIMIT $2`,
		`WITH gone AS (UPDATE link SET deleted_at = now(), updated_at = now() WHERE `+due+` AND id = ANY ($2) RETURNING id),
		      noted AS (UPDATE cleanup SET total_cleaned = total_cleaned + n, last_batch_size = n
		                FROM (SELECT count(*) AS n FROM gone) g WHERE n > 0)
		 SELECT count(*) FROM gone`, buffer, limit)
}

// reap looks for links without the head, and changes those that it finds under it.
func (db *DB) reap(ctx context.Context, doing, find, change string, age time.Duration, limit int) (int, error) {
	var ids []int64
	if err := db.queryIn(ctx, reaper, find, []any{age, limit}, collect(&ids)); err != nil || len(ids) == 0 {
		return 0, classify(doing, err)
	}
	return db.reapThese(ctx, doing, change, age, ids)
}

// reapThese changes links under the head of the changelog, and gives how many there were.
func (db *DB) reapThese(ctx context.Context, doing, change string, age time.Duration, ids []int64) (n int, err error) {
	failpoint.Hit(doing + ": asked")
	var at begun
	var b pgx.Batch
	reaper.first(&b)
	b.Queue(selectBegin, 0).QueryRow(at.scan)
	b.Queue(change, age, ids).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
	if err := db.pool.SendBatch(ctx, &b).Close(); err != nil {
		return 0, classify(doing, err)
	}
	failpoint.Hit(doing + ": committed")
	db.note(at.position())
	return n, nil
}

// DeleteKeys implements controlplane.ReaperStore.
func (db *DB) DeleteKeys(ctx context.Context, after time.Duration, limit int) (int, error) {
	n, err := db.execIn(ctx, reaper, `
		DELETE FROM api_key WHERE id IN (
			SELECT id FROM api_key WHERE least(expires_at, revoked_at) < now() - $1::interval
			ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)`, after, limit)
	return int(n), classify("delete old API keys", err)
}
