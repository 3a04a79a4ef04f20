package analytics

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane/postgres/scoped"
	"waypost/controlplane/rollup"
)

const (
	selectTops = `
SELECT day, top FROM click_workspace_day WHERE workspace_id = $1 AND day = ANY($2::date[]) ORDER BY day FOR UPDATE`

	updateTops = `
UPDATE click_workspace_day d SET top = s.top
FROM unnest($2::date[], $3::bytea[]) AS s (day, top)
WHERE d.workspace_id = $1 AND d.day = s.day`
)

// storeTops puts the links of a round among those with the most clicks of their days. The
// rows of these days are the roller's already, and no one else counts for these links.
func (in *folding) storeTops(ctx context.Context, tx pgx.Tx, log *slog.Logger) error {
	now := make(map[int64][]rollup.LinkCount)
	for i, link := range in.counted.keys {
		day := in.counted.days[i].Unix()
		now[day] = append(now[day], rollup.LinkCount{Link: link, Count: countOf(in.counted.clicks[i], in.counted.bots[i])})
	}
	days := make([]time.Time, 0, len(now))
	for day := range now {
		days = append(days, time.Unix(day, 0).UTC())
	}
	slices.SortFunc(days, time.Time.Compare)
	if _, err := tx.Exec(ctx, prepareWorkspaces, slices.Repeat([]int64{in.workspace}, len(days)), days); err != nil {
		return err
	}
	rows, _ := tx.Query(ctx, selectTops, in.workspace, days)
	days = days[:0]
	var packed [][]byte
	var day time.Time
	var old []byte
	if _, err := pgx.ForEachRow(rows, []any{&day, &old}, func() error {
		top, why := unpackTop(old)
		if why != nil {
			log.Error(unreadableTop, "workspace", in.workspace, "day", day.Format(time.DateOnly), "error", why)
		}
		top.Set(now[day.Unix()]...)
		days, packed = append(days, day), append(packed, top.Append(nil))
		return nil
	}); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, updateTops, in.workspace, days, packed)
	return err
}

const unreadableTop = "cannot read the list of the links with the most clicks of a day"

// unpackTop reads the list of a day. If it cannot be read, it returns one in which every
// link may have any number of clicks.
func unpackTop(packed []byte) (*rollup.Top, error) {
	top, err := rollup.UnpackTop(packed)
	if err != nil {
		return rollup.UnknownTop(rollup.MaxCount), err
	}
	return top, nil
}

const (
	// linksInHand bounds the links in memory from the lists of days. daysCounted bounds
	// the days of links that are counted to put the first links in order.
	linksInHand = 300_000
	daysCounted = 200_000

	// partsOfTops bounds the parts that are looked through.
	partsOfTops = 20_000
)

// selectTopDays reads the lists of days, and the first parts of links that are not folded
// into the lists yet. The last row has the number of parts. They are not read from
// click_part, which unpacks their details, too, for twice as long.
var selectTopDays = `
WITH part AS MATERIALIZED (
	SELECT unnest(links) AS link_id, unnest(days) AS day, unnest(clicks) AS clicks, unnest(bot_clicks) AS bot_clicks
	FROM click_pack
	WHERE ` + scoped.OfWorkspace("workspace_id", "$1") + ` LIMIT $4)
SELECT 0, 0, 0, 0, top FROM click_workspace_day WHERE ` + ofDays + `
UNION ALL
SELECT 1, link_id, least(sum(clicks), 9223372036854775807)::bigint, least(sum(bot_clicks), 9223372036854775807)::bigint, NULL
FROM part WHERE day >= date '1970-01-01' + $2::integer AND day < date '1970-01-01' + $3::integer GROUP BY link_id
UNION ALL
SELECT 2, 0, count(*), 0, NULL FROM part`

// Two statements count the clicks of links in days, each by an index: countFolded counts
// folded clicks, and countParts clicks that are not folded yet. Days are read link by
// link, because for a join the planner may read all of the table.
var (
	countFolded = `
SELECT s.id, least(c.clicks, 9223372036854775807)::bigint, least(c.bots, 9223372036854775807)::bigint
FROM unnest($4::bigint[]) AS s (id)
CROSS JOIN LATERAL (
	SELECT sum(clicks) AS clicks, sum(bot_clicks) AS bots FROM click_day WHERE link_id = s.id AND ` + ofDays + `) c
WHERE c.clicks > 0`
	countParts = `
SELECT s.link_id, least(sum(s.clicks), 9223372036854775807)::bigint, least(sum(s.bots), 9223372036854775807)::bigint
FROM click_pack k CROSS JOIN LATERAL unnest(k.links, k.days, k.clicks, k.bot_clicks) AS s (link_id, day, clicks, bots)
WHERE ` + scoped.OfWorkspace("k.workspace_id", "$1") + ` AND k.area = ANY ($5::bigint[]) AND s.link_id = ANY ($4::bigint[])
  AND s.day >= date '1970-01-01' + $2::integer AND s.day < date '1970-01-01' + $3::integer
GROUP BY s.link_id`
)

// topCount counts the clicks of links in days, at one moment.
type topCount struct {
	tx         pgx.Tx
	workspace  waypost.WorkspaceID
	first, end int32
	sum        rollup.TopSum
	folded     map[int64]rollup.Count
	parts      map[int64]rollup.Count // of the parts that were read
	allParts   bool                   // all parts were read
	partly     bool                   // parts are counted link by link
}

// TopLinks returns the links of a workspace with the most clicks in days [first, end),
// with all their clicks of these days. It reads a bounded amount, however many links
// there are; the result is exact if no other link can have more clicks than the last one
// returned.
func (db *Store) TopLinks(
	ctx context.Context, ws waypost.WorkspaceID, first, end int32, limit int,
) (top []rollup.LinkCount, exact bool, err error) {
	as := scoped.TenantOf(ws).LookingUp()
	err = db.pool.Transact(ctx, as, as.ReadOptions(), func(tx pgx.Tx) (err error) {
		c := &topCount{tx: tx, workspace: ws, first: first, end: end, folded: make(map[int64]rollup.Count), parts: make(map[int64]rollup.Count)}
		top, exact, err = c.top(ctx, limit, db.pool.Log)
		return err
	})
	return top, exact, scoped.Classify("find the links with the most clicks", err)
}

func (c *topCount) top(ctx context.Context, limit int, log *slog.Logger) (top []rollup.LinkCount, exact bool, err error) {
	if !c.partly {
		if err := c.addLists(ctx, log); err != nil {
			return nil, false, err
		}
	}
	bounds := c.sum.Bounds()
	links, unlisted := bounds[:len(bounds)-1], bounds[len(bounds)-1].Most
	var known []rollup.LinkCount
	left := max(daysCounted/int(c.end-c.first), 2*limit)
	if !c.allParts || c.partly {
		left = min(left, 20*limit) // the result is inexact, however much is counted
	}
	for n := 2 * limit; ; n *= 2 {
		n = min(n, left, len(links))
		ids := make([]int64, n)
		for i := range ids {
			ids[i] = links[i].Link
		}
		if err := c.count(ctx, countFolded, c.folded, ids); err != nil {
			return nil, false, err
		}
		if c.partly {
			if err := c.count(ctx, countParts, c.parts, ids, areasOf(ids)); err != nil {
				return nil, false, err
			}
		}
		known = append(known, c.counts(ids)...)
		links, left = links[n:], left-n
		rest := unlisted
		if len(links) > 0 {
			rest = max(rest, links[0].Most)
		}
		if top, exact = rollup.Best(known, limit, rest); exact || left == 0 || len(links) == 0 {
			break
		}
	}
	if c.allParts || len(top) == 0 {
		return top, exact && c.allParts, nil
	}
	// Other links may have more clicks by now. Count the parts of the returned links, so
	// that their own numbers are right.
	ids := make([]int64, len(top))
	for i := range top {
		ids[i] = top[i].Link
	}
	clear(c.parts)
	if err := c.count(ctx, countParts, c.parts, ids, areasOf(ids)); err != nil {
		return nil, false, err
	}
	top, _ = rollup.Best(c.counts(ids), limit, 0)
	return top, false, nil
}

// counts returns the known clicks of links.
func (c *topCount) counts(ids []int64) []rollup.LinkCount {
	all := make([]rollup.LinkCount, len(ids))
	for i, id := range ids {
		all[i] = rollup.LinkCount{Link: id, Count: c.folded[id]}
		all[i].Add(c.parts[id])
	}
	return all
}

// addLists adds the lists of days up, and the clicks that are in parts.
func (c *topCount) addLists(ctx context.Context, log *slog.Logger) error {
	most := max(linksInHand/int(c.end-c.first), 100)
	rows, _ := c.tx.Query(ctx, selectTopDays, c.workspace, c.first, c.end, partsOfTops)
	var kind int
	var link, clicks, bots int64
	var packed []byte
	_, err := pgx.ForEachRow(rows, []any{&kind, &link, &clicks, &bots, &packed}, func() error {
		switch kind {
		case 0:
			top, why := unpackTop(packed)
			if why != nil {
				log.Error(unreadableTop, "workspace", c.workspace, "error", why)
			}
			top.Cut(most)
			c.sum.AddDay(top)
		case 1:
			c.parts[link] = countOf(clicks, bots)
			c.sum.AddClicks(link, c.parts[link].Clicks)
		case 2:
			c.allParts = clicks < partsOfTops
		}
		return nil
	})
	return err
}

// count reads the clicks of links.
func (c *topCount) count(ctx context.Context, sql string, into map[int64]rollup.Count, ids []int64, more ...any) error {
	if len(ids) == 0 {
		return nil
	}
	rows, _ := c.tx.Query(ctx, sql, append([]any{c.workspace, c.first, c.end, ids}, more...)...)
	var link, clicks, bots int64
	_, err := pgx.ForEachRow(rows, []any{&link, &clicks, &bots}, func() error {
		into[link] = countOf(clicks, bots)
		return nil
	})
	return err
}
