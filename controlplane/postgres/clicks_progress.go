package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost/controlplane"
)

var _ controlplane.ProgressStore = (*DB)(nil)

// noteProgress keeps what is known while an edge does not tell. Rows are taken in the
// order of their keys, so that several instances wait for each other and never in a
// circle.
const noteProgress = `
INSERT INTO click_progress AS p (node, region, complete_until, pending, has_left)
SELECT s.node, s.region, s.until, s.pending, s.has_left
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::bigint[], $5::boolean[]) AS s (node, region, until, pending, has_left)
ORDER BY s.node COLLATE "C"
ON CONFLICT (node) DO UPDATE
SET region = excluded.region, complete_until = coalesce(excluded.complete_until, p.complete_until),
    pending = excluded.pending, has_left = excluded.has_left, reported_at = now()`

// NoteProgress implements controlplane.ProgressStore.
func (db *DB) NoteProgress(ctx context.Context, nodes []controlplane.EdgeProgress) error {
	names, regions := make([]string, len(nodes)), make([]string, len(nodes))
	until, pending, left := make([]*time.Time, len(nodes)), make([]*int64, len(nodes)), make([]bool, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		names[i], regions[i], left[i] = n.Node, string(n.Region), n.Left
		if !n.Until.IsZero() {
			until[i] = &n.Until
		}
		if n.Pending >= 0 {
			pending[i] = &n.Pending
		}
	}
	err := db.queryIn(ctx, system, noteProgress, []any{names, regions, until, pending, left}, func(rows pgx.Rows) error {
		rows.Close()
		return rows.Err()
	})
	return classify("note up to when clicks are counted", err)
}

// selectProgress has those, too, that have sent clicks and told nothing of themselves, as
// edges of earlier versions.
const selectProgress = `
SELECT node, region, complete_until, coalesce(pending, -1), has_left, reported_at
FROM click_progress WHERE reported_at > now() - $1::interval
UNION ALL
SELECT w.node, '', NULL, -1, false, max(w.updated_at)
FROM click_watermark w
WHERE w.updated_at > now() - $1::interval AND NOT EXISTS (SELECT FROM click_progress p WHERE p.node = w.node)
GROUP BY w.node
ORDER BY 1`

// Progress implements controlplane.ProgressStore.
func (db *DB) Progress(ctx context.Context) ([]controlplane.EdgeProgress, error) {
	var all []controlplane.EdgeProgress
	err := db.queryIn(ctx, system, selectProgress, []any{controlplane.LongestProgress}, func(rows pgx.Rows) error {
		for rows.Next() {
			var p controlplane.EdgeProgress
			var until *time.Time
			if err := rows.Scan(&p.Node, &p.Region, &until, &p.Pending, &p.Left, &p.At); err != nil {
				return err
			}
			if until != nil {
				p.Until = *until
			}
			all = append(all, p)
		}
		return rows.Err()
	})
	return all, classify("read up to when clicks are counted", err)
}
