package analytics

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"waypost/controlplane/postgres/scoped"
	"waypost/controlplane/rollup"
	"waypost/internal/failpoint"
)

// takeParts removes and returns the first rows of an area: at least one, until a number
// of parts or of bytes is reached, or packsAtOnce.
const takeParts = `
DELETE FROM click_pack WHERE ctid = ANY (ARRAY(
	SELECT place FROM (
		SELECT place, sum(parts) OVER earlier - parts AS before, sum(size) OVER earlier - size AS bytes FROM (
			SELECT ctid AS place, area, cardinality(links) AS parts, pg_column_size(details) AS size FROM click_pack
			WHERE workspace_id = $1 AND area >= $2 AND area < $3
			ORDER BY area LIMIT $6) first
		WINDOW earlier AS (ORDER BY area, place)) sized
	WHERE before < $4 AND bytes < $5))
RETURNING area, links, days, clicks, bot_clicks, newest, details`

// PostgreSQL adds at most arrayBytes to an array, and elementBytes to each of its
// elements.
const arrayBytes, elementBytes = 32, 8

// packsAtOnce bounds the rows that one round looks at. A row has some hundred parts at
// most.
const packsAtOnce = 2_000

// linkDay names a day of a link, or of a workspace where rows of workspaces are folded.
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
	workspace    int64
	linkDay      // link 0: it is of the workspace
	what, reason string
	body         []byte
}

// part is the clicks of one batch on a link and day.
type part struct {
	linkDay
	count  rollup.Count
	last   time.Time
	detail []byte
}

// folding holds the parts that one transaction folds, and their sums.
type folding struct {
	workspace int64
	parts     []part             // in the order of links and days
	links     map[int64]*linkSum // the sums to add to the counters
	counted   dayColumns         // days of links, with all their clicks
	broken    []brokenPiece
	kept      int // of broken, that are set aside
	delta     rollup.Delta
}

// daysStored bounds the days of links that one statement stores, and dayBytes the packed
// bytes that it reads of them: a day on which a link had a thousand referrers is fifty
// times as large when it is unpacked.
const daysStored, dayBytes = 5_000, 4 << 20

// foldArea folds the first parts of the area that f is at.
func (db *Store) foldArea(ctx context.Context, tx pgx.Tx, limits *rollerLimits, f *round) error {
	in := &folding{workspace: f.at.Workspace, links: make(map[int64]*linkSum)}
	newest, err := in.takeParts(ctx, tx, limits, f)
	if err != nil {
		return err
	}
	if f.full { // the next round begins where the limits cut
		f.next = Place{f.at.Workspace, newest}
	}
	for rest := in.parts; len(rest) > 0; {
		n := 0
		var keys []linkDay
		for ; n < len(rest); n++ {
			if k := rest[n].linkDay; len(keys) == 0 || k != keys[len(keys)-1] {
				if len(keys) == daysStored {
					break
				}
				keys = append(keys, k)
			}
		}
		if err := in.store(ctx, tx, linkRollups, keys, in.adder(rest[:n])); err != nil {
			return err
		}
		rest = rest[n:]
	}
	failpoint.Hit("fold clicks: links")
	// The workspace's rows come last, since rollers in other areas of it wait for them.
	if err := in.storeTops(ctx, tx, db.pool.Log); err != nil {
		return err
	}
	f.broken = in.broken
	f.links = slices.Collect(maps.Keys(in.links))
	return nil
}

// logBroken reports pieces that a committed transaction has set aside.
func (db *Store) logBroken(pieces []brokenPiece) {
	for _, b := range pieces {
		db.pool.Log.Error("set aside an unreadable part of clicks: they stay counted, and cannot be told apart",
			"what", b.what, "workspace", b.workspace, "link", b.link, "day", midnight(b.day).Format(time.DateOnly), "error", b.reason)
	}
}

// takeParts removes parts and puts them in order. It returns the last area that it met.
func (in *folding) takeParts(ctx context.Context, tx pgx.Tx, limits *rollerLimits, f *round) (newest int64, err error) {
	end := f.at.next().Link
	if f.at.next().Workspace != f.at.Workspace {
		end = 1<<63 - 1
	}
	rows, _ := tx.Query(ctx, takeParts, f.at.Workspace, f.at.Link, end, limits.parts, limits.bytes, packsAtOnce)
	defer rows.Close()
	packs, bytes := 0, 0
	for rows.Next() {
		packs++
		var area int64
		var p pack
		if err := rows.Scan(&area, &p.links, &p.days, &p.clicks, &p.bots, &p.newest, &p.details); err != nil {
			return 0, err
		}
		newest = max(newest, area)
		bytes += arrayBytes
		for i := range p.links {
			bytes += len(p.details[i]) + elementBytes
			in.parts = append(in.parts, part{
				linkDay{p.links[i], int32(p.days[i].Unix() / secondsOfDay)}, countOf(p.clicks[i], p.bots[i]), p.newest[i], p.details[i],
			})
		}
	}
	slices.SortStableFunc(in.parts, func(a, b part) int { return a.compare(b.linkDay) })
	f.parts = len(in.parts)
	f.full = f.parts >= limits.parts || bytes >= limits.bytes || packs == packsAtOnce
	for i := range in.parts {
		p := &in.parts[i]
		f.clicks += p.count.Clicks
		sum := in.links[p.link]
		if sum == nil {
			sum = &linkSum{}
			in.links[p.link] = sum
		}
		sum.count.Add(p.count)
		if p.last.After(sum.last) {
			sum.last = p.last
		}
	}
	return newest, rows.Err()
}

// adder returns a function that adds the parts of a day of a link to it. It is called
// once for each, in their order.
func (in *folding) adder(parts []part) func(linkDay, *rollup.Day) {
	return func(k linkDay, d *rollup.Day) {
		for ; len(parts) > 0 && parts[0].linkDay == k; parts = parts[1:] {
			p := &parts[0]
			if err := readPart(&in.delta, p.detail, p.count); err != nil {
				in.broken = append(in.broken, brokenPiece{in.workspace, k, "part", err.Error(), p.detail})
				addUnread(d, p.count, p.last.UTC().Hour())
				continue
			}
			d.Fold(&in.delta)
		}
	}
}

// dayStatements holds the statements for the rows of links, or of workspaces.
type dayStatements struct{ prepare, have, change, insert string }

// The roller holds the lock of the links' area, so their rows need no locks of their own,
// and missing rows do not appear. Rows are looked up one by one, in order, because for a
// join the planner may read all of a table that was small when it was last analyzed, and
// are changed where they were found. Keys are compared as they are, because a computed
// comparison keeps row-level security from using an index. The row of a workspace is made
// first and locked then, because several transactions add to it.
var (
	linkRollups      = rollupsOf("click_day", "link_id", "")
	workspaceRollups = rollupsOf("click_workspace_day", "workspace_id", " FOR UPDATE")
)

func rollupsOf(days, key, lock string) dayStatements {
	fill := strings.NewReplacer("{lock}", lock, "{days}", days, "{key}", key).Replace
	r := dayStatements{
		have: fill(`
SELECT place, ctid, clicks, bot_clicks, quarters, breakdown, visitors FROM (
	SELECT s.place - 1 AS place, d.*, sum(d.bytes) OVER (ORDER BY s.place ROWS UNBOUNDED PRECEDING) - d.bytes AS before
	FROM unnest($1::bigint[], $2::date[]) WITH ORDINALITY AS s (key, day, place)
	CROSS JOIN LATERAL (
		SELECT ctid, clicks, bot_clicks, quarters, breakdown, visitors, octet_length(breakdown) + octet_length(visitors) AS bytes
		FROM {days} WHERE {key} = s.key AND day = s.day LIMIT 1{lock}) d) sized
WHERE before < $3
ORDER BY place`),
		change: fill(`
UPDATE {days} d
SET clicks = s.clicks, bot_clicks = s.bots, quarters = s.quarters, breakdown = s.breakdown, visitors = s.visitors
FROM unnest($1::tid[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[], $6::bytea[])
     AS s (tid, clicks, bots, quarters, breakdown, visitors)
WHERE d.ctid = s.tid`),
		insert: `
INSERT INTO click_day (workspace_id, link_id, day, clicks, bot_clicks, quarters, breakdown, visitors)
SELECT $1::bigint, s.* FROM unnest($2::bigint[], $3::date[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bytea[], $8::bytea[]) AS s`,
	}
	if key == "workspace_id" {
		r.prepare, r.insert = prepareWorkspaces, ""
	}
	return r
}

// prepareWorkspaces makes the rows of days of workspaces that are not there.
const prepareWorkspaces = `
INSERT INTO click_workspace_day (workspace_id, day, clicks, bot_clicks, quarters, breakdown, visitors)
SELECT s.key, s.day, 0, 0, '', '', '' FROM unnest($1::bigint[], $2::date[]) AS s (key, day)
ON CONFLICT DO NOTHING`

// countLinks adds to the counters of links. It is two statements in one, because ON
// CONFLICT would lock each row before it changes it, and log that. The lock of the area
// keeps others from making the same rows.
const countLinks = `
WITH s AS MATERIALIZED (
	SELECT * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::timestamptz[]) AS s (id, clicks, bots, at)
), changed AS (
	UPDATE link_click c
	SET clicks = c.clicks + least(s.clicks, 9223372036854775807 - c.clicks),
	    bot_clicks = c.bot_clicks + least(s.bots, 9223372036854775807 - c.bot_clicks),
	    last_accessed_at = greatest(c.last_accessed_at, s.at)
	FROM s WHERE c.link_id = s.id
	RETURNING c.link_id
)
INSERT INTO link_click (link_id, workspace_id, clicks, bot_clicks, last_accessed_at)
SELECT s.id, $1::bigint, s.clicks, s.bots, s.at FROM s WHERE s.id NOT IN (SELECT link_id FROM changed)`

// setAside stores pieces that could not be read.
const setAside = `
INSERT INTO click_set_aside (workspace_id, link_id, day, what, reason, body)
VALUES ($1, nullif($2::bigint, 0), date '1970-01-01' + $3::integer, $4, $5, $6)`

// store reads the stored days with some keys, calls add to change each, and writes them
// back. The keys are in order.
func (in *folding) store(ctx context.Context, tx pgx.Tx, to dayStatements, keys []linkDay, add func(linkDay, *rollup.Day)) error {
	for most := len(keys); len(keys) > 0; {
		some := keys[:min(most, len(keys))]
		n, err := in.storeFirst(ctx, tx, to, some, add)
		if err != nil {
			return err
		}
		most, keys = 2*n, keys[n:]
	}
	return nil
}

// storeFirst stores the first of the days, about dayBytes and at least one day, and
// returns their number.
func (in *folding) storeFirst(
	ctx context.Context, tx pgx.Tx, to dayStatements, keys []linkDay, add func(linkDay, *rollup.Day),
) (int, error) {
	ids, days := make([]int64, len(keys)), make([]time.Time, len(keys))
	for i, k := range keys {
		ids[i], days[i] = k.link, midnight(k.day)
	}
	var q pgx.Batch
	if to.prepare != "" {
		q.Queue(to.prepare, ids, days)
	}
	stored, last, bytes := make([]storedDay, len(keys)), int64(0), 0
	q.Queue(to.have, ids, days, dayBytes).Query(scoped.Each(func(found pgx.Rows) error {
		var d storedDay
		err := found.Scan(&last, &d.ctid, &d.clicks, &d.bots, &d.quarters, &d.breakdown, &d.visitors)
		stored[last] = d
		bytes += len(d.breakdown) + len(d.visitors)
		return err
	}))
	if err := tx.SendBatch(ctx, &q).Close(); err != nil {
		return 0, err
	}
	if bytes >= dayBytes { // more rows may follow the last one
		keys = keys[:last+1]
	}
	var old, fresh dayColumns
	var d rollup.Day
	for i, k := range keys {
		for _, b := range stored[i].unpack(&d) {
			in.setAside(to, k, b)
		}
		add(k, &d)
		column := &fresh
		if stored[i].ctid.Valid {
			column = &old
		}
		column.addDay(ids[i], days[i], stored[i].ctid, &d)
	}
	q = pgx.Batch{}
	q.Queue(to.change, old.ctids, old.clicks, old.bots, old.quarters, old.breakdowns, old.visitors).Exec(func(t pgconn.CommandTag) error {
		if n := t.RowsAffected(); n != int64(len(old.ctids)) {
			return fmt.Errorf("%d of %d days were changed meanwhile", int64(len(old.ctids))-n, len(old.ctids))
		}
		return nil
	})
	if len(fresh.keys) > 0 {
		q.Queue(to.insert, in.workspace, fresh.keys, fresh.days, fresh.clicks, fresh.bots, fresh.quarters, fresh.breakdowns, fresh.visitors)
	}
	if to.prepare == "" {
		for _, c := range []*dayColumns{&old, &fresh} {
			in.counted.keys, in.counted.days = append(in.counted.keys, c.keys...), append(in.counted.days, c.days...)
			in.counted.clicks, in.counted.bots = append(in.counted.clicks, c.clicks...), append(in.counted.bots, c.bots...)
		}
		in.queueCounters(&q, keys)
	}
	for _, b := range in.broken[in.kept:] {
		q.Queue(setAside, b.workspace, b.link, b.day, b.what, b.reason, b.body)
	}
	in.kept = len(in.broken)
	return len(keys), tx.SendBatch(ctx, &q).Close()
}

// setAside notes a piece of a day, of a link or of a workspace.
func (in *folding) setAside(from dayStatements, k linkDay, b brokenPiece) {
	b.workspace, b.linkDay = in.workspace, k
	if from.prepare != "" {
		b.workspace, b.link = k.link, 0
	}
	in.broken = append(in.broken, b)
}

// storedDay is a row of click_day, click_workspace_day or click_workspace_part; the zero
// value stands for a missing row.
type storedDay struct {
	ctid                          pgtype.TID // not valid: there is no row
	clicks, bots                  int64
	quarters, breakdown, visitors []byte
}

// unpack reads the stored columns into the memory of d, and returns the unreadable ones.
// If the quarters are lost, their clicks count in the first quarter; if the breakdown is
// lost, its clicks count as others.
func (s *storedDay) unpack(d *rollup.Day) (broken []brokenPiece) {
	lost := func(what string, err error, body []byte) {
		broken = append(broken, brokenPiece{what: what, reason: err.Error(), body: body})
	}
	if err := d.Quarters.Unpack(s.quarters); err != nil {
		lost("quarters", err, s.quarters)
	}
	if count, told := countOf(s.clicks, s.bots), d.Total(); told.Clicks < count.Clicks {
		missing := count.Clicks - told.Clicks
		d.Quarters[0].Add(rollup.Count{Clicks: missing, Bots: min(missing, count.Bots-min(count.Bots, told.Bots))})
	}
	if err := d.Breakdown.Unpack(s.breakdown); err != nil {
		lost("breakdown", err, s.breakdown)
		d.Breakdown.AddOther(d.Total())
	}
	if err := d.Visitors.Unpack(s.visitors); err != nil {
		lost("visitors", err, s.visitors)
	}
	return broken
}

// queueCounters adds to the counters of the links of days.
func (in *folding) queueCounters(q *pgx.Batch, days []linkDay) {
	var ids, clicks, bots []int64
	var last []time.Time
	for i, k := range days {
		if i > 0 && days[i-1].link == k.link {
			continue
		}
		sum := in.links[k.link]
		if sum.count.Clicks == 0 {
			continue // its first days were stored before
		}
		ids, last = append(ids, k.link), append(last, sum.last)
		clicks, bots = append(clicks, int64(sum.count.Clicks)), append(bots, int64(sum.count.Bots))
		sum.count = rollup.Count{}
	}
	q.Queue(countLinks, in.workspace, ids, clicks, bots, last)
}

// dayColumns are the parallel arrays of days.
type dayColumns struct {
	keys                           []int64
	days                           []time.Time
	ctids                          []pgtype.TID
	clicks, bots                   []int64
	quarters, breakdowns, visitors [][]byte

	packed []byte // the last three, one behind the other
}

func (c *dayColumns) addDay(key int64, day time.Time, ctid pgtype.TID, d *rollup.Day) {
	count := d.Total()
	c.keys, c.days, c.ctids = append(c.keys, key), append(c.days, day), append(c.ctids, ctid)
	c.clicks, c.bots = append(c.clicks, int64(count.Clicks)), append(c.bots, int64(count.Bots))
	c.pack(&c.quarters, d.Quarters.Append)
	c.pack(&c.breakdowns, d.Breakdown.Append)
	c.pack(&c.visitors, d.Visitors.Append)
}

func (c *dayColumns) pack(column *[][]byte, form func([]byte) []byte) {
	begin := len(c.packed)
	c.packed = form(c.packed)
	*column = append(*column, c.packed[begin:len(c.packed):len(c.packed)])
}

// takeWorkspaceParts removes and returns the first parts of workspaces [$1, $2). Every
// transaction that takes parts, and then rows of days, locks them in this order.
const takeWorkspaceParts = `
DELETE FROM click_workspace_part WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM click_workspace_part WHERE workspace_id >= $1 AND workspace_id < $2 ORDER BY workspace_id, day LIMIT $3 FOR UPDATE))
RETURNING workspace_id, day - date '1970-01-01', clicks, bot_clicks, quarters, breakdown, visitors`

// workspacePartsAtOnce bounds the parts of workspaces in one transaction.
const workspacePartsAtOnce = 100

// foldWorkspaces folds the first parts of workspaces [from, end). It returns the number
// of parts, and the last workspace.
func (in *folding) foldWorkspaces(ctx context.Context, tx pgx.Tx, from, end int64) (n int, last int64, err error) {
	rows, _ := tx.Query(ctx, takeWorkspaceParts, from, end, workspacePartsAtOnce)
	defer rows.Close()
	sums := make(map[linkDay]*rollup.Day)
	for rows.Next() {
		var k linkDay
		var s storedDay
		if err := rows.Scan(&k.link, &k.day, &s.clicks, &s.bots, &s.quarters, &s.breakdown, &s.visitors); err != nil {
			return 0, 0, err
		}
		n, last = n+1, max(last, k.link)
		d := &rollup.Day{}
		for _, b := range s.unpack(d) {
			in.setAside(workspaceRollups, k, b)
		}
		if sums[k] == nil {
			sums[k] = d
		} else {
			sums[k].Merge(d)
		}
	}
	if err := rows.Err(); err != nil || n == 0 {
		return 0, 0, err
	}
	keys := slices.SortedFunc(maps.Keys(sums), linkDay.compare)
	return n, last, in.store(ctx, tx, workspaceRollups, keys, func(k linkDay, d *rollup.Day) { d.Merge(sums[k]) })
}
