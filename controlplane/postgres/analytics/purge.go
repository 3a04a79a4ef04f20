package analytics

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane/postgres/scoped"
)

// PurgeDue is the condition of the tombstones that are to go.
const PurgeDue = `deleted_at < now() - $1::interval`

const (
	// sweptAtOnce bounds the links that SweepGone looks for.
	sweptAtOnce = 50_000

	never = 100 * 365 * 24 * time.Hour
)

// SweepGone deletes rollups that were folded after the purge of their links. It works
// through one step of links, and returns the number of links with such rollups.
func (db *Store) SweepGone(ctx context.Context) (int, error) {
	var gone []Place
	var last int64
	err := db.pool.QueryIn(ctx, scoped.Reaper.LookingUp(), `
		WITH step AS MATERIALIZED (SELECT workspace_id, link_id FROM link_click WHERE link_id > $1 ORDER BY link_id LIMIT $2)
		SELECT s.workspace_id, s.link_id FROM step s LEFT JOIN LATERAL (SELECT id FROM link WHERE id = s.link_id OFFSET 0) l ON true
		WHERE l.id IS NULL
		UNION ALL
		SELECT 0, max(link_id) FROM step HAVING count(*) = $2 ORDER BY 1`, []any{db.swept.Load(), sweptAtOnce}, collectPlaces(&gone))
	if err != nil {
		return 0, scoped.Classify("look for clicks without a link", err)
	}
	if len(gone) > 0 && gone[0].Workspace == 0 {
		last, gone = gone[0].Link, gone[1:]
	}
	cleared, err := db.Purge(ctx, gone, never) // links that are there stay as they are
	db.swept.Store(last)                       // areas that failed come again in the next pass
	return len(cleared), err
}

func collectPlaces(into *[]Place) func(pgx.Rows) error {
	return scoped.CollectWith(into, func(row pgx.CollectableRow) (p Place, err error) {
		return p, row.Scan(&p.Workspace, &p.Link)
	})
}

// purgedAtOnce bounds the rows of each table that one transaction of Purge deletes.
const purgedAtOnce = 10_000

// Purge deletes the rollups of links, area by area. It spares a link that exists and is
// not a tombstone due for purging. It returns the links of the areas that it finished.
func (db *Store) Purge(ctx context.Context, links []Place, after time.Duration) (cleared []int64, _ error) {
	areas := make(map[Place][]int64)
	for _, p := range links {
		areas[p.area()] = append(areas[p.area()], p.Link)
	}
	var errs []error
	for area, ids := range areas {
		if err := db.purgeArea(ctx, area, ids, after); err != nil {
			errs = append(errs, scoped.Classify("purge clicks of links", err))
			continue
		}
		cleared = append(cleared, ids...)
	}
	return cleared, errors.Join(errs...)
}

// purgeArea keeps rollers off the area, except while it deletes single clicks. It deletes
// the row of link_click last, when all other rows of the link are gone, because
// PurgeLinks and SweepGone find the remaining rows by it after an interrupted purge.
// Single clicks that arrive after the deletion of the others also keep the row, until the
// next purge.
func (db *Store) purgeArea(ctx context.Context, area Place, links []int64, after time.Duration) error {
	const due = `link_id = ANY (ARRAY(
		SELECT n FROM unnest($2::bigint[]) n LEFT JOIN link l ON l.id = n WHERE l.id IS NULL OR l.` + PurgeDue + `))`
	const purgeDays = `
		WITH gone AS (DELETE FROM click_day WHERE (link_id, day) IN (SELECT link_id, day FROM click_day WHERE ` + due + ` LIMIT $3) RETURNING 1)
		SELECT count(*) = $3 FROM gone`
	// OFFSET 0 has each link looked up alone.
	purgeCounters := `
		WITH gone AS (DELETE FROM link_click WHERE link_id IN (
			SELECT link_id FROM link_click c WHERE ` + due + `
			AND NOT EXISTS (SELECT FROM click_day d WHERE d.link_id = c.link_id OFFSET 0)
			AND NOT EXISTS (SELECT FROM click_event e WHERE ` + scoped.OfWorkspace("e.workspace_id", "$4") + ` AND e.link_id = c.link_id OFFSET 0)
			LIMIT $3) RETURNING 1)
		SELECT count(*) = $3 FROM gone`
	ws := waypost.WorkspaceID(area.Workspace)
	if _, err := db.deleteSingles(ctx, &singles{as: scoped.Reaper, workspace: ws, links: links, due: &after}); err != nil {
		return err
	}
	for {
		var more bool
		full := func(row pgx.Row) error {
			var full bool
			err := row.Scan(&full)
			more = more || full
			return err
		}
		var b pgx.Batch
		scoped.Reaper.LookingUp().EnterBatch(&b)
		b.Queue(`SELECT pg_advisory_xact_lock($1, $2)`, foldLocks, area.lock())
		b.Queue(`DELETE FROM click_set_aside WHERE `+due, after, links)
		b.Queue(purgeDays, after, links, purgedAtOnce).QueryRow(full)
		b.Queue(purgeCounters, after, links, purgedAtOnce, ws).QueryRow(full)
		if err := db.pool.SendBatch(ctx, &b).Close(); err != nil || !more {
			return err
		}
	}
}
