package analytics

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane/postgres/scoped"
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
	rules, variants                                          []int16
}

// addEvents stores single clicks, unless the batch is not the next one.
const addEvents = `
INSERT INTO click_event (at, workspace_id, link_id, clicks, bot, country, city, device, browser, os, referrer, rule, variant)
SELECT e.at, e.workspace_id, e.link_id, e.clicks, p.bot, p.country, p.city, p.device, p.browser, p.os, p.referrer, p.rule, p.variant
FROM unnest($4::timestamptz[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]) AS e (at, workspace_id, link_id, clicks, profile)
JOIN unnest($9::boolean[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::smallint[], $17::smallint[])
     WITH ORDINALITY AS p (bot, country, city, device, browser, os, referrer, rule, variant, place) ON p.place = e.profile
WHERE ` + isNextBatch

// findEventWishes reads the settings of the workspaces that keep single clicks.
const findEventWishes = `
SELECT id, settings::text FROM workspace
WHERE id = ANY($1) AND deleted_at IS NULL AND settings ->> 'events' IN ('all', 'sampled')`

// workspacesOf returns the workspaces of links, each once.
func workspacesOf(targets []target) (ids []int64) {
	seen := make(map[int64]bool)
	for _, t := range targets {
		if t.link != 0 && !seen[t.workspace] {
			seen[t.workspace] = true
			ids = append(ids, t.workspace)
		}
	}
	return ids
}

// eventsOf returns the single clicks that workspaces keep, nil for none. Only a batch
// with the times of its clicks has any.
func (db *Store) eventsOf(
	ctx context.Context, b *waypost.ClickBatch, hash [32]byte, targets []target, now time.Time,
) (*clickEvents, error) {
	if !b.Exact {
		return nil, nil
	}
	every := make(map[int64]uint64) // of how many clicks of a workspace one is kept
	err := db.pool.QueryIn(ctx, scoped.Ingest, findEventWishes, []any{workspacesOf(targets)}, scoped.Each(func(rows pgx.Rows) error {
		var id int64
		var settings string
		err := rows.Scan(&id, &settings)
		wish := scoped.ReadSettings(settings, db.cfg.EventSample)
		if every[id] = 1; wish.Events == "sampled" {
			every[id] = uint64(wish.EventsSample)
		}
		return err
	}))
	if err != nil {
		return nil, scoped.Classify("read who wants single clicks", err)
	}
	if len(every) == 0 {
		return nil, nil
	}
	e := &clickEvents{}
	e.names.fill(b.Profiles)
	// The batch alone determines the clicks to keep, so that a batch that comes again
	// keeps the same ones.
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
				e.addEvent(targets[i], r, kept, now)
			}
		}
		passed[targets[i].workspace] = at
	}
	return e, nil
}

func (e *clickEvents) addEvent(t target, r waypost.ClickRow, kept uint64, now time.Time) {
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
		c.bots, c.rules, c.variants = append(c.bots, p.Bot), append(c.rules, int16(p.Rule)), append(c.variants, int16(p.Variant))
	}
}

func (e *clickEvents) queue(q *pgx.Batch, node string, boot [16]byte, seq int64) {
	n := &e.names
	q.Queue(addEvents, node, boot, seq, e.at, e.workspaces, e.links, e.clicks, e.profiles,
		n.bots, n.countries, n.cities, n.devices, n.browsers, n.systems, n.referrers, n.rules, n.variants)
}

// singlesAtOnce bounds the rows that one statement deletes.
const singlesAtOnce = 20_000

// selectDetached lists the months that were taken out of click_event and are not dropped
// yet, because they could not be exported, or somebody reads them.
const selectDetached = `
SELECT c.relname FROM pg_class c JOIN pg_class parent ON parent.oid = 'click_event'::regclass AND parent.relnamespace = c.relnamespace
WHERE c.relkind = 'r' AND NOT c.relispartition AND c.relname ~ '^click_event_[0-9]{4}_(0[1-9]|1[0-2])$' ORDER BY 1`

// singles selects single clicks: those of links of a workspace.
type singles struct {
	as        scoped.Scope
	workspace waypost.WorkspaceID
	links     []int64
	due       *time.Duration // spare links that are not due for a purge after that time; nil: spare no link
}

// deleteSingles deletes single clicks and returns their number. If it fails, deleted
// clicks stay deleted, so that a retry gets further. Detached months come last, so that
// they include a month that is detached during the deletion.
func (db *Store) deleteSingles(ctx context.Context, s *singles) (gone int64, err error) {
	if gone, err = db.deleteSinglesOf(ctx, s, "click_event"); err != nil {
		return gone, err
	}
	var months []string
	if err := db.pool.QueryIn(ctx, s.as, selectDetached, nil, scoped.CollectInto(&months)); err != nil {
		return gone, err
	}
	for _, month := range months {
		n, err := db.deleteSinglesOf(ctx, s, pgx.Identifier{month}.Sanitize())
		gone += n
		if err != nil && scoped.PgCode(err) != scoped.UndefinedTable { // it was dropped
			return gone, err
		}
	}
	return gone, nil
}

// deleteSinglesOf deletes the single clicks in a table, the oldest of a link first, in
// steps that each end within a statement's time. A step deletes up to the time of the
// last of the link's first singlesAtOnce clicks; each partition is read by its index, in
// order. A step deletes nothing of a link that is to be spared by now.
func (db *Store) deleteSinglesOf(ctx context.Context, s *singles, table string) (gone int64, err error) {
	var clicked []int64
	if err := db.pool.QueryIn(ctx, s.as, `
		SELECT id FROM unnest($2::bigint[]) id WHERE EXISTS (SELECT FROM `+table+` WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND link_id = id)`,
		[]any{s.workspace, s.links}, scoped.CollectInto(&clicked)); err != nil {
		return 0, err
	}
	own := ` FROM ` + table + ` WHERE ` + scoped.OfWorkspace("workspace_id", "$1") + ` AND link_id = $2`
	for _, link := range clicked {
		for {
			var end *time.Time
			if err := db.pool.QueryRowIn(ctx, s.as, `SELECT max(at) FROM (SELECT at`+own+` ORDER BY at LIMIT $3) first`,
				[]any{s.workspace, link, singlesAtOnce}, &end); err != nil {
				return gone, err
			}
			if end == nil {
				break
			}
			var rows, n int64
			if err := db.pool.QueryRowIn(ctx, s.as, `WITH gone AS (DELETE`+own+` AND at <= $3 AND ($4::interval IS NULL OR NOT EXISTS (
					SELECT FROM link l WHERE l.id = $2 AND (l.deleted_at < now() - $4) IS NOT TRUE)) RETURNING clicks)
				SELECT count(*), coalesce(sum(clicks), 0)::bigint FROM gone`,
				[]any{s.workspace, link, *end, s.due}, &rows, &n); err != nil {
				return gone, err
			}
			if gone += n; rows == 0 {
				break
			}
		}
	}
	return gone, nil
}
