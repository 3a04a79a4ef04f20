package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/internal/failpoint"
)

// Which tombstones are to go, and the way in which they go. What is found is judged again under the
// head of the changelog. One with parts of clicks stays until they are in the rollups of its workspace,
// which keep the clicks of links that are no more, and one with clicks that were folded meanwhile until the next time.
const (
	purgeDue = `deleted_at < now() - $1::interval`

	findPurged = `
		SELECT workspace_id, id, ` + hasParts + `
		FROM link l WHERE ` + purgeDue + ` ORDER BY deleted_at LIMIT $2`

	// Rows of link_dedupe go with their links, by their foreign key.
	purge = `
		WITH gone AS (DELETE FROM link l WHERE ` + purgeDue + ` AND id = ANY ($2)
		              AND NOT ` + hasParts + ` AND NOT EXISTS (SELECT FROM link_click c WHERE c.link_id = l.id)
		              RETURNING domain_id, code, custom),
		     retired AS (INSERT INTO retired_code (domain_id, code)
		                 SELECT domain_id, code FROM gone WHERE custom OR domain_id <> 1 ON CONFLICT DO NOTHING)
		SELECT count(*) FROM gone`

	hasParts = `EXISTS (SELECT FROM unnest(click_areas(l.id)) a
		CROSS JOIN LATERAL (SELECT links FROM click_pack WHERE workspace_id = l.workspace_id AND area = a) p WHERE l.id = ANY (p.links))`

	purging = "purge links"
)

// PurgeLinks implements controlplane.ReaperStore. The clicks go before the links, so that one that is
// killed in between leaves nothing that nobody finds any more, and not under the head, which would wait
// for whoever counts them.
func (db *DB) PurgeLinks(ctx context.Context, after time.Duration, limit int) (int, error) {
	var all []place
	var waiting []place // with parts of clicks
	err := db.queryIn(ctx, reaper, findPurged, []any{after, limit}, func(rows pgx.Rows) error {
		var p place
		var parts bool
		_, err := pgx.ForEachRow(rows, []any{&p.workspace, &p.link, &parts}, func() error {
			if all = append(all, p); parts {
				waiting = append(waiting, p)
			}
			return nil
		})
		return err
	})
	if err != nil || len(all) == 0 {
		return 0, classify(purging, err)
	}
	if err := db.foldThese(ctx, waiting); err != nil {
		return 0, err
	}
	areas := make(map[place][]int64)
	ids := make([]int64, len(all))
	for i, p := range all {
		ids[i] = p.link
		area := place{p.workspace, p.link >> areaBits << areaBits}
		areas[area] = append(areas[area], p.link)
	}
	for area, links := range areas {
		if err := db.purgeClicks(ctx, area, links, after); err != nil {
			return 0, classify("purge clicks of links", err)
		}
	}
	failpoint.Hit(purging + ": clicks")
	return db.reapThese(ctx, purging, purge, after, ids)
}

// foldThese folds the parts of links, unless another roller has their area at hand: they are then
// purged another time.
func (db *DB) foldThese(ctx context.Context, links []place) error {
	if len(links) == 0 {
		return nil
	}
	r := db.NewRoller(RollerConfig{})
	for _, p := range links {
		area := place{p.workspace, p.link >> areaBits << areaBits}
		for {
			f, err := r.round(ctx, area)
			if err != nil {
				return err
			}
			if !f.found || f.at.next() != area.next() || f.busy {
				break
			}
		}
	}
	return nil
}

// purgedAtOnce bounds the rows of each table that one transaction of purgeClicks deletes.
const purgedAtOnce = 10_000

// purgeClicks deletes the rollups of links of an area, as long as these are tombstones that are to go and have
// no parts, while it keeps rollers off the area.
func (db *DB) purgeClicks(ctx context.Context, area place, links []int64, after time.Duration) error {
	const due = `link_id = ANY (ARRAY(
		SELECT l.id FROM link l WHERE l.id = ANY ($2) AND l.` + purgeDue + `
		AND NOT ` + hasParts + `))`
	for {
		var more bool
		var b pgx.Batch
		reaper.first(&b)
		b.Queue(`SELECT pg_advisory_xact_lock($1, $2)`, foldLocks, area.lock())
		for _, table := range []struct{ name, key string }{{"click_hour", "link_id, hour"}, {"click_day", "link_id, day"}, {"link_click", "link_id"}} {
			b.Queue(`WITH gone AS (
					DELETE FROM `+table.name+` WHERE (`+table.key+`) IN (SELECT `+table.key+` FROM `+table.name+` WHERE `+due+` LIMIT $3) RETURNING 1)
				SELECT count(*) = $3 FROM gone`, after, links, purgedAtOnce).QueryRow(func(row pgx.Row) error {
				var full bool
				err := row.Scan(&full)
				more = more || full
				return err
			})
		}
		if err := db.pool.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		if !more {
			_, err := db.deleteSingles(ctx, reaper, waypost.WorkspaceID(area.workspace), links)
			return err
		}
	}
}
