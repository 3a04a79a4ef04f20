package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost/controlplane/rollup"
	"waypost/internal/failpoint"
)

// takeParts removes and returns the first rows of an area: at least one, and no more once
// a number of parts or of bytes is reached.
const takeParts = `
DELETE FROM click_pack WHERE ctid = ANY (ARRAY(
	SELECT place FROM (
		SELECT place, sum(parts) OVER earlier - parts AS before, sum(size) OVER earlier - size AS bytes FROM (
			SELECT ctid AS place, area, cardinality(links) AS parts, pg_column_size(details) AS size FROM click_pack
			WHERE workspace_id = $1 AND area >= $2 AND area < $3
			ORDER BY area LIMIT $4) first
		WINDOW earlier AS (ORDER BY area, place)) sized
	WHERE before < $4 AND bytes < $5))
RETURNING area, links, days, clicks, bot_clicks, newest, details`

// linkDay names a day of a link, or of the workspace as link 0.
type linkDay struct {
	link int64
	day  int32
}

func (k linkDay) compare(o linkDay) int {
	return cmp.Or(cmp.Compare(k.link, o.link), cmp.Compare(k.day, o.day))
}

// linkSum is the sum of a link's parts.
type linkSum struct {
	count rollup.Count
	last  time.Time
}

// brokenPiece is a value that could not be read.
type brokenPiece struct {
	linkDay
	what, reason string
	body         []byte
}

// folding is the parts of one round, added up.
type folding struct {
	workspace int64
	links     map[int64]*linkSum
	days      map[linkDay]*rollup.Day
	counted   *dayColumns // of links, with all their clicks
	broken    []brokenPiece
	kept      int // of broken, that are set aside
}

// foldArea folds the first parts of the area that f is at.
func (db *ClickStore) foldArea(ctx context.Context, tx pgx.Tx, cfg RollerConfig, f *fold) error {
	in := &folding{workspace: f.at.workspace, links: make(map[int64]*linkSum), days: make(map[linkDay]*rollup.Day)}
	newest, err := in.take(ctx, tx, cfg, f)
	if err != nil {
		return err
	}
	// What the limits cut off comes next. Links that alone fill a round wait until the
	// others had their turn.
	switch {
	case newest == f.at.link && f.parts > 0:
		f.next = place{f.at.workspace, newest + 1}
	case f.parts > 0:
		f.next = place{f.at.workspace, newest}
	}
	if err := in.store(ctx, tx, linkRollups, in.days); err != nil {
		return err
	}
	failpoint.Hit("fold clicks: links")
	// The workspace's rows come last, since rollers in other areas of it wait for them.
	sums := make(map[linkDay]*rollup.Day)
	for k, day := range in.days {
		k.link = 0
		if sums[k] == nil {
			sums[k] = &rollup.Day{}
		}
		sums[k].Merge(day)
	}
	if err := in.store(ctx, tx, workspaceRollups, sums); err != nil {
		return err
	}
	if err := in.storeTops(ctx, tx, db.pool.log); err != nil {
		return err
	}
	f.broken = len(in.broken)
	for id := range in.links {
		f.links = append(f.links, id)
	}
	for _, b := range in.broken {
		db.pool.log.Error("clicks cannot be told apart: what was kept of them is unreadable and was set aside; they stay counted",
			"what", b.what, "workspace", in.workspace, "link", b.link, "day", midnight(b.day).Format(time.DateOnly), "error", b.reason)
	}
	return nil
}

// take removes parts and adds them up. It returns the last area that it met.
func (in *folding) take(ctx context.Context, tx pgx.Tx, cfg RollerConfig, f *fold) (newest int64, err error) {
	end := f.at.next().link
	if f.at.next().workspace != f.at.workspace {
		end = 1<<63 - 1
	}
	rows, err := tx.Query(ctx, takeParts, f.at.workspace, f.at.link, end, cfg.Parts, cfg.Bytes)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	bytes := 0
	for rows.Next() {
		var area int64
		var p pack
		if err := rows.Scan(&area, &p.links, &p.days, &p.clicks, &p.bots, &p.newest, &p.details); err != nil {
			return 0, err
		}
		newest = max(newest, area)
		f.parts += len(p.links)
		for i := range p.links {
			bytes += len(p.details[i])
			count := countOf(p.clicks[i], p.bots[i])
			f.clicks += count.Clicks
			in.add(linkDay{p.links[i], int32(p.days[i].Unix() / secondsOfDay)}, count, p.newest[i], p.details[i])
		}
	}
	f.full = f.parts >= cfg.Parts || bytes >= cfg.Bytes
	return newest, rows.Err()
}

func (in *folding) add(k linkDay, count rollup.Count, last time.Time, detail []byte) {
	sum := in.links[k.link]
	if sum == nil {
		sum = &linkSum{}
		in.links[k.link] = sum
	}
	sum.count.Add(count)
	if last.After(sum.last) {
		sum.last = last
	}
	day := in.days[k]
	if day == nil {
		day = &rollup.Day{}
		in.days[k] = day
	}
	if err := foldPart(day, detail, count, last.UTC().Hour()); err != nil {
		in.broken = append(in.broken, brokenPiece{linkDay: k, what: "part", reason: err.Error(), body: detail})
	}
}

// rollups holds the statements for the rows of links, or of workspaces. $1 is the
// workspace, except in have; the arrays have one element for each row.
type rollups struct{ prepare, have, days, hours string }

// The roller holds the lock of the links' area, so their rows need no locks of their own,
// and missing rows do not appear. Rows are looked up one by one, in order, because for a
// join the planner may read all of a table that was small when it was last analyzed. Keys
// are compared as they are, because a computed comparison keeps row-level security from
// using an index. The row of a workspace is made first and locked then, because all
// rollers add to it.
var (
	linkRollups      = rollupsOf("click_day", "click_hour", "link_id", "link_id, workspace_id", "s.key, $1::bigint", "")
	workspaceRollups = rollupsOf("click_workspace_day", "click_workspace_hour", "workspace_id", "workspace_id", "$1::bigint", " FOR UPDATE")
)

func rollupsOf(days, hours, key, keys, values, lock string) rollups {
	fill := strings.NewReplacer("{lock}", lock, "{days}", days, "{hours}", hours, "{key}", key, "{keys}", keys, "{values}", values).Replace
	r := rollups{
		have: fill(`
SELECT s.place - 1, d.clicks, d.bot_clicks, d.breakdown, d.visitors
FROM unnest($1::bigint[], $2::date[]) WITH ORDINALITY AS s (key, day, place)
CROSS JOIN LATERAL (
	SELECT clicks, bot_clicks, breakdown, visitors FROM {days}
	WHERE {key} = s.key AND day = s.day LIMIT 1{lock}) d`),
		days: fill(`
INSERT INTO {days} AS d ({keys}, day, clicks, bot_clicks, breakdown, visitors)
SELECT {values}, s.day, s.clicks, s.bots, s.breakdown, s.visitors
FROM unnest($2::bigint[], $3::date[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bytea[])
     AS s (key, day, clicks, bots, breakdown, visitors)
ON CONFLICT ({key}, day) DO UPDATE
SET clicks = excluded.clicks, bot_clicks = excluded.bot_clicks, breakdown = excluded.breakdown, visitors = excluded.visitors`),
		hours: fill(`
INSERT INTO {hours} AS h ({keys}, hour, q0, q1, q2, q3, b0, b1, b2, b3)
SELECT {values}, s.hour, s.q0, s.q1, s.q2, s.q3, s.b0, s.b1, s.b2, s.b3
FROM unnest($2::bigint[], $3::timestamptz[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
	$10::bigint[], $11::bigint[])
     AS s (key, hour, q0, q1, q2, q3, b0, b1, b2, b3)
ON CONFLICT ({key}, hour) DO UPDATE SET `) + addQuarters,
	}
	if key == "workspace_id" {
		r.prepare = fill(`
INSERT INTO {days} (workspace_id, day, clicks, bot_clicks, breakdown, visitors)
SELECT $1, s.day, 0, 0, '', '' FROM unnest($2::date[]) AS s (day)
ON CONFLICT DO NOTHING`)
	}
	return r
}

// addQuarters adds without an overflow: neither number is above 2^61.
var addQuarters = func() string {
	var sets []string
	for _, column := range strings.Fields("q0 q1 q2 q3 b0 b1 b2 b3") {
		sets = append(sets, column+" = least(h."+column+", 2305843009213693952) + excluded."+column)
	}
	return strings.Join(sets, ", ")
}()

// countLinks adds to the counters of links.
const countLinks = `
INSERT INTO link_click AS c (link_id, workspace_id, clicks, bot_clicks, last_accessed_at)
SELECT s.id, $1::bigint, s.clicks, s.bots, s.at
FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::timestamptz[]) AS s (id, clicks, bots, at)
ON CONFLICT (link_id) DO UPDATE
SET clicks = least(c.clicks::numeric + excluded.clicks, 9223372036854775807)::bigint,
    bot_clicks = least(c.bot_clicks::numeric + excluded.bot_clicks, 9223372036854775807)::bigint,
    last_accessed_at = greatest(c.last_accessed_at, excluded.last_accessed_at)`

// setAside keeps what could not be read.
const setAside = `
INSERT INTO click_set_aside (workspace_id, link_id, day, what, reason, body)
VALUES ($1, nullif($2::bigint, 0), date '1970-01-01' + $3::integer, $4, $5, $6)`

// store adds days to rollups. Rows are taken in the order of their keys.
func (in *folding) store(ctx context.Context, tx pgx.Tx, to rollups, days map[linkDay]*rollup.Day) error {
	keys := make([]linkDay, 0, len(days))
	for k := range days {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, linkDay.compare)
	rows := newDayColumns(keys, in.workspace)
	var q pgx.Batch
	if to.prepare != "" {
		q.Queue(to.prepare, in.workspace, rows.days)
	}
	stored := make([]storedDay, len(keys))
	q.Queue(to.have, rows.keys, rows.days).Query(func(found pgx.Rows) error {
		for found.Next() {
			var place int64
			var d storedDay
			if err := found.Scan(&place, &d.clicks, &d.bots, &d.breakdown, &d.visitors); err != nil {
				return err
			}
			stored[place] = d
		}
		return found.Err()
	})
	if err := tx.SendBatch(ctx, &q).Close(); err != nil {
		return err
	}
	var hours hourColumns
	for i, k := range keys {
		rows.add(in.merge(k, &stored[i], days[k]))
		hours.add(rows.keys[i], k.day, days[k])
	}
	q = pgx.Batch{}
	q.Queue(to.days, in.workspace, rows.keys, rows.days, rows.clicks, rows.bots, rows.breakdowns, rows.visitors)
	q.Queue(to.hours, in.workspace, hours.keys, hours.at, hours.n[0], hours.n[1], hours.n[2], hours.n[3], hours.n[4], hours.n[5],
		hours.n[6], hours.n[7])
	if to.prepare == "" {
		in.counted = rows
		in.queueCounters(&q)
	}
	for _, b := range in.broken[in.kept:] {
		q.Queue(setAside, in.workspace, b.link, b.day, b.what, b.reason, b.body)
	}
	in.kept = len(in.broken)
	return tx.SendBatch(ctx, &q).Close()
}

// storedDay is a row of click_day or click_workspace_day; the zero value is none.
type storedDay struct {
	clicks, bots        int64
	breakdown, visitors []byte
}

// merge adds a day to what is stored of it. What of that cannot be read is set aside, and
// its clicks become others.
func (in *folding) merge(k linkDay, have *storedDay, more *rollup.Day) (rollup.Count, *rollup.Breakdown, *rollup.Visitors) {
	count := countOf(have.clicks, have.bots)
	breakdown, err := rollup.UnpackBreakdown(have.breakdown)
	if err != nil {
		in.broken = append(in.broken, brokenPiece{linkDay: k, what: "breakdown", reason: err.Error(), body: have.breakdown})
		breakdown = &rollup.Breakdown{}
		breakdown.AddOther(count)
	}
	visitors, err := rollup.UnpackVisitors(have.visitors)
	if err != nil {
		in.broken = append(in.broken, brokenPiece{linkDay: k, what: "visitors", reason: err.Error(), body: have.visitors})
		visitors = &rollup.Visitors{}
	}
	count.Add(more.Total())
	breakdown.Merge(&more.Breakdown)
	visitors.Merge(&more.Visitors)
	return count, breakdown, visitors
}

func (in *folding) queueCounters(q *pgx.Batch) {
	n := len(in.links)
	ids := make([]int64, 0, n)
	for id := range in.links {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	clicks, bots, last := make([]int64, n), make([]int64, n), make([]time.Time, n)
	for i, id := range ids {
		sum := in.links[id]
		clicks[i], bots[i], last[i] = int64(sum.count.Clicks), int64(sum.count.Bots), sum.last
	}
	q.Queue(countLinks, in.workspace, ids, clicks, bots, last)
}

// dayColumns are the parallel arrays of days.
type dayColumns struct {
	keys                 []int64
	days                 []time.Time
	clicks, bots         []int64
	breakdowns, visitors [][]byte
}

func newDayColumns(keys []linkDay, workspace int64) *dayColumns {
	c := &dayColumns{keys: make([]int64, len(keys)), days: make([]time.Time, len(keys))}
	for i, k := range keys {
		if c.keys[i], c.days[i] = k.link, midnight(k.day); k.link == 0 {
			c.keys[i] = workspace
		}
	}
	return c
}

func (c *dayColumns) add(count rollup.Count, b *rollup.Breakdown, v *rollup.Visitors) {
	c.clicks, c.bots = append(c.clicks, int64(count.Clicks)), append(c.bots, int64(count.Bots))
	c.breakdowns, c.visitors = append(c.breakdowns, b.Append(nil)), append(c.visitors, v.Append(nil))
}

// hourColumns are the parallel arrays of hours: four quarters of all clicks, and four of
// bots.
type hourColumns struct {
	keys []int64
	at   []time.Time
	n    [8][]int64
}

func (c *hourColumns) add(key int64, day int32, d *rollup.Day) {
	for hour := range 24 {
		quarters := d.Quarters[4*hour : 4*hour+4]
		if !slices.ContainsFunc(quarters, func(q rollup.Count) bool { return q.Clicks > 0 }) {
			continue
		}
		c.keys, c.at = append(c.keys, key), append(c.at, midnight(day).Add(time.Duration(hour)*time.Hour))
		for i, q := range quarters {
			c.n[i], c.n[4+i] = append(c.n[i], int64(q.Clicks)), append(c.n[4+i], int64(q.Bots))
		}
	}
}
