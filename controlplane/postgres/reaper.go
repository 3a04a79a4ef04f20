package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres/analytics"
	"waypost/controlplane/postgres/scoped"
	"waypost/internal/failpoint"
)

// ReaperStore removes expired and deleted links, and old API keys. It implements
// controlplane.ReaperStore.
type ReaperStore struct {
	pool   *pool
	clicks *analytics.Store
	passed atomic.Pointer[tombstone]
}

// tombstone is a position in the order in which links are purged. PurgeLinks goes on
// after the last batch in which an area failed, and from the start at the end.
type tombstone struct {
	analytics.Place
	at time.Time
}

// expires selects the links that end with their expiry. The index link_expiry has them.
const expires = `deleted_at IS NULL AND NOT link_outlives_expiry(programme)`

func (db *ReaperStore) ClaimCleanup(ctx context.Context, limit time.Duration) (bool, error) {
	n, err := db.pool.ExecIn(ctx, scoped.Reaper, `
		UPDATE cleanup SET running_until = clock_timestamp() + $1::interval
		WHERE running_until IS NULL OR running_until < clock_timestamp()`, limit)
	return n > 0, scoped.Classify("begin a cleanup", err)
}

func (db *ReaperStore) EndCleanup(ctx context.Context, failed bool, took time.Duration) error {
	_, err := db.pool.ExecIn(ctx, scoped.Reaper, `
		UPDATE cleanup SET
			last_cleanup_time = clock_timestamp(),
			successful_runs   = successful_runs + (NOT $1::boolean)::integer,
			failed_runs       = failed_runs + $1::boolean::integer,
			cleanup_ms        = cleanup_ms + $2,
			running_until     = NULL`, failed, float64(took.Microseconds())/1000)
	return scoped.Classify("note a cleanup", err)
}

func (db *ReaperStore) CleanupStats(ctx context.Context) (s api.CleanupStats, err error) {
	err = db.pool.QueryRowIn(ctx, scoped.Reaper, `
		SELECT last_cleanup_time, total_cleaned, last_batch_size, successful_runs, failed_runs,
		       coalesce(cleanup_ms / nullif(successful_runs + failed_runs, 0), 0), coalesce(running_until > clock_timestamp(), false),
		       (SELECT count(*) FROM (SELECT FROM link WHERE `+expires+` AND expires_at < now() LIMIT $1) l)
		FROM cleanup`, []any{controlplane.MaxBacklog},
		&s.LastCleanupTime, &s.TotalCleaned, &s.LastBatchSize, &s.SuccessfulRuns, &s.FailedRuns, &s.AverageCleanupMS, &s.IsRunning, &s.Backlog)
	return s, scoped.Classify("read what the cleanup did", err)
}

// ExpireLinks implements controlplane.ReaperStore. It judges the found links again under
// the head of the changelog, because another transaction may have put off an expiry
// since.
func (db *ReaperStore) ExpireLinks(ctx context.Context, buffer time.Duration, limit int) (int, error) {
	const due = expires + ` AND expires_at < now() - $1::interval`
	return db.reap(ctx, "expire links",
		`SELECT id FROM link WHERE `+due+` ORDER BY expires_at LIMIT $2`,
		`WITH gone AS (UPDATE link SET deleted_at = now(), updated_at = now() WHERE `+due+` AND id = ANY ($2) RETURNING id),
		      noted AS (UPDATE cleanup SET total_cleaned = total_cleaned + n, last_batch_size = n
		                FROM (SELECT count(*) AS n FROM gone) g WHERE n > 0)
		 SELECT count(*) FROM gone`, buffer, limit)
}

// reap looks for links without the head, and changes the found links under it.
func (db *ReaperStore) reap(ctx context.Context, doing, find, change string, age time.Duration, limit int) (int, error) {
	var ids []int64
	if err := db.pool.QueryIn(ctx, scoped.Reaper, find, []any{age, limit}, scoped.CollectInto(&ids)); err != nil {
		return 0, scoped.Classify(doing, err)
	}
	return db.reapThese(ctx, doing, change, age, ids)
}

// reapThese changes links under the head of the changelog and returns their number.
func (db *ReaperStore) reapThese(ctx context.Context, doing, change string, age time.Duration, ids []int64) (n int, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	failpoint.Hit(doing + ": asked")
	var at begun
	var b pgx.Batch
	scoped.Reaper.EnterBatch(&b)
	b.Queue(selectBegin, 0).QueryRow(at.scan)
	b.Queue(change, age, ids).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
	if err := db.pool.SendBatch(ctx, &b).Close(); err != nil {
		return 0, scoped.Classify(doing, err)
	}
	failpoint.Hit(doing + ": committed")
	db.pool.noteCommit(at.position())
	return n, nil
}

func (db *ReaperStore) DeleteKeys(ctx context.Context, after time.Duration, limit int) (int, error) {
	n, err := db.pool.ExecIn(ctx, scoped.Reaper, `
		DELETE FROM api_key WHERE id IN (
			SELECT id FROM api_key WHERE least(expires_at, revoked_at) < now() - $1::interval
			ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)`, after, limit)
	return int(n), scoped.Classify("delete old API keys", err)
}

// purge deletes the tombstones that are due. It judges the found tombstones again under
// the head of the changelog. A tombstone with changes, or with clicks that were folded
// since, stays until the next time. Parts of clicks need no waiting, because the
// workspace has its own sums; SweepClicks deletes rollups that are folded from them
// later.
const (
	// Rows of link_dedupe go with their links, by their foreign key.
	purge = `
		WITH gone AS (DELETE FROM link l WHERE ` + analytics.PurgeDue + ` AND id = ANY ($2)
		              AND NOT EXISTS (SELECT FROM link_click c WHERE c.link_id = l.id)
		              AND NOT EXISTS (SELECT FROM link_change c WHERE c.link_id = l.id)
		              RETURNING id, domain_id, code, typed_code, custom),
		     retired AS (INSERT INTO retired_code (domain_id, code)
		                 SELECT g.domain_id, c FROM gone g JOIN domain d ON d.id = g.domain_id
		                 CROSS JOIN LATERAL (VALUES (g.code), (g.typed_code)) v (c)
		                 WHERE c IS NOT NULL AND (g.custom OR g.domain_id <> 1 OR d.ignores_case OR d.case_switching)
		                 ON CONFLICT DO NOTHING),
		     budgets AS (DELETE FROM budget WHERE link_id IN (SELECT id FROM gone))
		SELECT count(*) FROM gone`

	purging = "purge links"
)

// PurgeLinks implements controlplane.ReaperStore. Clicks and changes go before the links,
// and not under the head, for which all writes wait. A failure in one area does not keep
// the others, and the next call passes the links of this one.
func (db *ReaperStore) PurgeLinks(ctx context.Context, after time.Duration, limit int) (int, error) {
	from := db.passed.Load()
	if from == nil {
		from = &tombstone{at: time.Unix(0, 0)}
	}
	var all []analytics.Place
	var last tombstone
	err := db.pool.QueryIn(ctx, scoped.Reaper, `SELECT workspace_id, id, deleted_at FROM link
		WHERE `+analytics.PurgeDue+` AND (deleted_at, id) > ($3, $4) ORDER BY deleted_at, id LIMIT $2`,
		[]any{after, limit, from.at, from.Link}, scoped.Each(func(rows pgx.Rows) error {
			err := rows.Scan(&last.Workspace, &last.Link, &last.at)
			all = append(all, last.Place)
			return err
		}))
	if err != nil {
		return 0, scoped.Classify(purging, err)
	}
	cleared, failed := db.clicks.Purge(ctx, all, after)
	switch {
	case len(all) < limit:
		db.passed.Store(nil)
	case failed != nil:
		db.passed.Store(&last)
	}
	if len(cleared) == 0 {
		return 0, failed
	}
	failpoint.Hit(purging + ": clicks")
	failed = errors.Join(failed, db.purgeChanges(ctx, cleared, after))
	n, err := db.reapThese(ctx, purging, purge, after, cleared)
	return n, errors.Join(failed, err)
}

func (db *ReaperStore) SweepClicks(ctx context.Context) (int, error) { return db.clicks.SweepGone(ctx) }
