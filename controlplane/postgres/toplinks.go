package postgres

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane/rollup"
)

const (
	selectTops = `
SELECT day, clicks, top FROM click_workspace_day WHERE workspace_id = $1 AND day = ANY($2::date[]) ORDER BY day FOR UPDATE`

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
	rows, err := tx.Query(ctx, selectTops, in.workspace, days)
	if err != nil {
		return err
	}
	days = days[:0]
	var packed [][]byte
	var day time.Time
	var clicks int64
	var old []byte
	if _, err := pgx.ForEachRow(rows, []any{&day, &clicks, &old}, func() error {
		top, why := unpackTop(old, clicks)
		if why != nil {
			log.Error(unreadableTop, "workspace", in.workspace, "day", day.Format(time.DateOnly), "error", why)
		}
		top.Set(now[day.Unix()]...)
		days, packed = append(days, day), append(packed, top.Append(nil))
		return nil
	}); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, updateTops, in.workspace, days, packed)
	return err
}

const unreadableTop = "the links with the most clicks of a day are unknown: their list cannot be read"

// unpackTop reads the list of a day with that many clicks. If the list cannot be read, it
// returns one in which every link may have all of them.
func unpackTop(packed []byte, clicks int64) (*rollup.Top, error) {
	top, err := rollup.UnpackTop(packed)
	if err != nil {
		return rollup.UnknownTop(countOf(clicks, 0).Clicks), err
	}
	return top, nil
}

const (
	// linksInHand bounds what is in memory of the lists of days, and daysCounted, in days
	// of links, what is counted to put the first of them in order.
	linksInHand = 300_000
	daysCounted = 200_000

	// partsOfTops bounds the parts that are looked through.
	partsOfTops = 100_000
)

// selectTopDays reads the lists of days, and the parts of links that are not folded into
// the lists yet, in one statement, so that no click is seen twice or missed. The last row
// has the number of parts.
var selectTopDays = `
WITH part AS MATERIALIZED (
	SELECT link_id, clicks, day >= date '1970-01-01' + $2::integer AND day < date '1970-01-01' + $3::integer AS wanted FROM click_part
	WHERE ` + ofWorkspace("workspace_id", "$1") + ` LIMIT $4)
SELECT 0, 0, clicks, top FROM click_workspace_day
WHERE ` + ofWorkspace("workspace_id", "$1") + ` AND day >= date '1970-01-01' + $2::integer AND day < date '1970-01-01' + $3::integer
UNION ALL
SELECT 1, link_id, least(sum(clicks), 9223372036854775807)::bigint, NULL FROM part WHERE wanted GROUP BY link_id
UNION ALL
SELECT 2, 0, count(*), NULL FROM part`

// countTops reads the clicks of links in days, each by the index.
var countTops = `
SELECT s.id, least(sum(c.clicks), 9223372036854775807)::bigint, least(sum(c.bot_clicks), 9223372036854775807)::bigint
FROM unnest($4::bigint[]) AS s (id)
CROSS JOIN LATERAL (
	SELECT clicks, bot_clicks FROM click_day
	WHERE ` + ofWorkspace("workspace_id", "$1") + ` AND link_id = s.id AND day >= date '1970-01-01' + $2::integer AND day < date '1970-01-01' + $3::integer
	UNION ALL
	SELECT clicks, bot_clicks FROM click_part
	WHERE ` + ofWorkspace("workspace_id", "$1") + ` AND area = ANY (click_areas(s.id)) AND link_id = s.id AND day >= date '1970-01-01' + $2::integer
		AND day < date '1970-01-01' + $3::integer) c
GROUP BY s.id`

// TopLinks returns the links of a workspace with the most clicks in days [first, end),
// with all their clicks of these days. It reads a bounded amount, however many links
// there are; the result is exact if no other link can have more clicks than the last one
// returned.
func (db *ClickStore) TopLinks(
	ctx context.Context, ws waypost.WorkspaceID, first, end int32, limit int,
) (top []rollup.LinkCount, exact bool, err error) {
	var sum rollup.TopSum
	allParts, err := db.addTops(ctx, &sum, ws, first, end)
	if err != nil {
		return nil, false, classify("read the links with the most clicks", err)
	}
	bounds := sum.Bounds()
	links, unlisted := bounds[:len(bounds)-1], bounds[len(bounds)-1].Most
	var known []rollup.LinkCount
	for left, n := max(daysCounted/int(end-first), 2*limit), 2*limit; ; n *= 2 {
		n = min(n, left, len(links))
		if known, err = db.countTops(ctx, known, ws, first, end, links[:n]); err != nil {
			return nil, false, classify("count the links with the most clicks", err)
		}
		links, left = links[n:], left-n
		rest := unlisted
		if len(links) > 0 {
			rest = max(rest, links[0].Most)
		}
		if top, exact = rollup.Best(known, limit, rest); exact || left == 0 || len(links) == 0 {
			return top, exact && allParts, nil
		}
	}
}

// addTops adds the lists of days up, and the clicks that are in parts. It is false when
// there are more parts than are looked through.
func (db *ClickStore) addTops(
	ctx context.Context, sum *rollup.TopSum, ws waypost.WorkspaceID, first, end int32,
) (allParts bool, err error) {
	most := max(linksInHand/int(end-first), 100)
	err = db.pool.queryIn(ctx, tenantOf(ws), selectTopDays, []any{ws, first, end, partsOfTops}, func(rows pgx.Rows) error {
		var kind int
		var link, clicks int64
		var packed []byte
		_, err := pgx.ForEachRow(rows, []any{&kind, &link, &clicks, &packed}, func() error {
			switch kind {
			case 0:
				top, why := unpackTop(packed, clicks)
				if why != nil {
					db.pool.log.Error(unreadableTop, "workspace", ws, "error", why)
				}
				top.Cut(most)
				sum.AddDay(top)
			case 1:
				sum.AddClicks(link, countOf(clicks, 0).Clicks)
			case 2:
				allParts = clicks < partsOfTops
			}
			return nil
		})
		return err
	})
	return allParts, err
}

func (db *ClickStore) countTops(
	ctx context.Context, known []rollup.LinkCount, ws waypost.WorkspaceID, first, end int32, links []rollup.Bound,
) ([]rollup.LinkCount, error) {
	if len(links) == 0 {
		return known, nil
	}
	ids := make([]int64, len(links))
	for i := range links {
		ids[i] = links[i].Link
	}
	err := db.pool.queryIn(ctx, tenantOf(ws), countTops, []any{ws, first, end, ids}, func(rows pgx.Rows) error {
		var link, clicks, bots int64
		_, err := pgx.ForEachRow(rows, []any{&link, &clicks, &bots}, func() error {
			known = append(known, rollup.LinkCount{Link: link, Count: countOf(clicks, bots)})
			return nil
		})
		return err
	})
	return known, err
}
