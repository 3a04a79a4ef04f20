package postgres

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
)

// clickEvents are the parallel arrays of addEvents.
type clickEvents struct {
	at                []time.Time
	workspaces, links []int64
	clicks            []int64
	profiles          []int64 // the first is 1
	names             profileColumns
}

// profileColumns are the profiles of a batch.
type profileColumns struct {
	countries, cities, devices, browsers, systems, referrers []string
	bots                                                     []bool
}

// addEvents does nothing unless the batch is the next one.
const addEvents = `
INSERT INTO click_event (at, workspace_id, link_id, clicks, bot, country, city, device, browser, os, referrer)
SELECT e.at, e.workspace_id, e.link_id, e.clicks, p.bot, p.country, p.city, p.device, p.browser, p.os, p.referrer
FROM unnest($4::timestamptz[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]) AS e (at, workspace_id, link_id, clicks, profile)
JOIN unnest($9::boolean[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[]) WITH ORDINALITY
     AS p (bot, country, city, device, browser, os, referrer, place) ON p.place = e.profile
WHERE ` + isNextBatch

// findEventWishes tells what the workspaces say that want single clicks.
const findEventWishes = `
SELECT id, settings::text FROM workspace
WHERE id = ANY($1) AND deleted_at IS NULL AND settings ->> 'events' IN ('all', 'sampled')`

// eventsOf gives the single clicks that workspaces want to have, nil for none. Only
// a batch that has the times of its clicks has any.
func (db *DB) eventsOf(ctx context.Context, b *waypost.ClickBatch, hash [32]byte, targets []target, now time.Time) (*clickEvents, error) {
	if !b.Exact {
		return nil, nil
	}
	var ids []int64
	seen := make(map[int64]bool)
	for _, t := range targets {
		if t.link != 0 && !seen[t.workspace] {
			seen[t.workspace] = true
			ids = append(ids, t.workspace)
		}
	}
	every := make(map[int64]uint64) // of how many clicks of a workspace one is kept
	err := db.queryIn(ctx, ingest, findEventWishes, []any{ids}, func(rows pgx.Rows) error {
		for rows.Next() {
			var id int64
			var settings string
			if err := rows.Scan(&id, &settings); err != nil {
				return err
			}
			wish := db.readSettings(settings)
			if every[id] = 1; wish.Events == "sampled" {
				every[id] = uint64(wish.EventsSample)
			}
		}
		return rows.Err()
	})
	if err != nil {
		return nil, classify("read who wants single clicks", err)
	}
	if len(every) == 0 {
		return nil, nil
	}
	e := &clickEvents{}
	e.names.fill(b.Profiles)
	// Which clicks are kept follows from the batch, so that it is the same whenever the
	// batch comes.
	start := binary.LittleEndian.Uint64(hash[:])
	passed := make(map[int64]uint64) // clicks of a workspace since one was kept
	for i := range b.Links {
		n := every[targets[i].workspace]
		if targets[i].link == 0 || n == 0 {
			continue
		}
		at, ok := passed[targets[i].workspace]
		if !ok {
			at = start % n
		}
		for _, r := range b.Links[i].Rows {
			kept := (at+r.Count)/n - at/n
			if at = (at + r.Count) % n; kept > 0 {
				e.add(targets[i], r, kept, now)
			}
		}
		passed[targets[i].workspace] = at
	}
	return e, nil
}

func (e *clickEvents) add(t target, r waypost.ClickRow, kept uint64, now time.Time) {
	at, _ := believed(r.At, now)
	e.at = append(e.at, time.UnixMilli(at))
	e.workspaces, e.links = append(e.workspaces, t.workspace), append(e.links, t.link)
	e.clicks, e.profiles = append(e.clicks, int64(kept)), append(e.profiles, int64(r.Profile)+1)
}

func (c *profileColumns) fill(profiles []waypost.ClickProfile) {
	for i := range profiles {
		p := &profiles[i]
		c.countries, c.cities, c.devices = append(c.countries, p.Country), append(c.cities, p.City), append(c.devices, p.Device)
		c.browsers, c.systems, c.referrers = append(c.browsers, p.Browser), append(c.systems, p.OS), append(c.referrers, p.Referrer)
		c.bots = append(c.bots, p.Bot)
	}
}

func (e *clickEvents) queue(q *pgx.Batch, node string, boot [16]byte, seq int64) {
	n := &e.names
	q.Queue(addEvents, node, boot, seq, e.at, e.workspaces, e.links, e.clicks, e.profiles,
		n.bots, n.countries, n.cities, n.devices, n.browsers, n.systems, n.referrers)
}
