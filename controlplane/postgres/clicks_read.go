package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane/rollup"
)

// The clicks of a link l are in its row of link_click, c, and in parts, p, that are
// not folded into it yet. One statement sees each click in one of them.
const (
	clickCounts = `least(coalesce(c.clicks, 0) + coalesce(p.clicks, 0), 9223372036854775807)::bigint,
       least(coalesce(c.bot_clicks, 0) + coalesce(p.bots, 0), 9223372036854775807)::bigint, greatest(c.last_accessed_at, p.at)`
	joinParts = `LEFT JOIN LATERAL (
	SELECT sum(p.clicks) AS clicks, sum(p.bot_clicks) AS bots, max(p.last_accessed_at) AS at
	FROM unnest(click_areas(l.id)) a
	CROSS JOIN LATERAL (SELECT link_id, clicks, bot_clicks, last_accessed_at FROM click_part WHERE workspace_id = l.workspace_id AND area = a) p
	WHERE p.link_id = l.id) p ON true`
)

// ClickDays says of which days (UTC, since 1970) clicks are asked: [First, End), and of
// which links of a workspace; nil means all.
type ClickDays struct {
	Links      []int64
	First, End int32
}

// kinds of rows of a click query.
const (
	hourRow = iota
	dayRow
	partRow
)

// selectDays gives hours, days and parts in one statement, so that no click is seen
// twice or not at all while parts are folded.
func selectDays(hours, days, which, areas string) string {
	return `
SELECT 0, (h.hour AT TIME ZONE 'UTC')::date - date '1970-01-01', extract(hour FROM h.hour AT TIME ZONE 'UTC')::integer,
       ARRAY[h.q0, h.q1, h.q2, h.q3], ARRAY[h.b0, h.b1, h.b2, h.b3], NULL::bytea, NULL::bytea
FROM ` + hours + ` h
WHERE ` + ofWorkspace("h.workspace_id", "$1") + ` AND h.hour >= $4::timestamptz AND h.hour < $5::timestamptz` + which + `
UNION ALL
SELECT 1, d.day - date '1970-01-01', 0, NULL, NULL, d.breakdown, d.visitors
FROM ` + days + ` d
WHERE ` + ofWorkspace("d.workspace_id", "$1") + ` AND d.day >= date '1970-01-01' + $2::integer AND d.day < date '1970-01-01' + $3::integer` + which + `
UNION ALL
SELECT 2, p.day - date '1970-01-01', extract(hour FROM p.last_accessed_at AT TIME ZONE 'UTC')::integer, ARRAY[p.clicks], ARRAY[p.bot_clicks], p.detail, NULL
FROM click_part p
WHERE ` + ofWorkspace("p.workspace_id", "$1") + ` AND p.day >= date '1970-01-01' + $2::integer AND p.day < date '1970-01-01' + $3::integer` + which + areas
}

// ClicksByDay gives what is known of the clicks of links, or of all of a workspace, to
// the newest, by day (UTC, since 1970). Days without clicks are not there. A
// breakdown that cannot be read is in it as others.
func (db *DB) ClicksByDay(ctx context.Context, ws waypost.WorkspaceID, q ClickDays) (map[int32]*rollup.Day, error) {
	sql, args := selectDays("click_workspace_hour", "click_workspace_day", "", ""), []any{ws, q.First, q.End, midnight(q.First), midnight(q.End)}
	if q.Links != nil {
		sql = selectDays("click_hour", "click_day", " AND link_id = ANY($6::bigint[])", " AND area = ANY($7::bigint[])")
		args = append(args, q.Links, areasOf(q.Links))
	}
	days := make(map[int32]*rollup.Day)
	err := db.queryIn(ctx, tenantOf(ws), sql, args, func(rows pgx.Rows) error {
		var kind, hour int
		var n int32
		var clicks, bots []int64
		var packed, visitors []byte
		for rows.Next() {
			if err := rows.Scan(&kind, &n, &hour, &clicks, &bots, &packed, &visitors); err != nil {
				return err
			}
			d := days[n]
			if d == nil {
				d = &rollup.Day{}
				days[n] = d
			}
			switch kind {
			case hourRow:
				for q := range clicks {
					d.Quarters[4*hour+q].Add(countOf(clicks[q], bots[q]))
				}
			case dayRow:
				if err := db.mergeDay(d, packed, visitors); err != nil {
					return err
				}
			case partRow:
				if len(clicks) != 1 || len(bots) != 1 {
					continue
				}
				if why := foldPart(d, packed, countOf(clicks[0], bots[0]), hour); why != nil {
					db.log.Error("a part of clicks cannot be read; its clicks are told, and no more of it", "error", why)
				}
			}
		}
		return rows.Err()
	})
	// Days that only have quarters, or the other way round, are whole all the same.
	for _, d := range days {
		d.Complete()
	}
	return days, classify("read clicks by day", err)
}

// mergeDay adds a packed day. What cannot be read is logged and left out: the clicks are
// still told by the hours.
func (db *DB) mergeDay(d *rollup.Day, breakdown, visitors []byte) error {
	b, err := rollup.UnpackBreakdown(breakdown)
	if err == nil {
		d.Breakdown.Merge(b)
	} else {
		db.log.Error("a breakdown of clicks cannot be read", "error", err)
	}
	v, err := rollup.UnpackVisitors(visitors)
	if err == nil {
		d.Visitors.Merge(v)
	} else {
		db.log.Error("a set of visitors cannot be read", "error", err)
	}
	return nil
}

// foldPart adds a part of which the columns say how many clicks it has. One that cannot
// be read, or says something else, is counted as others in the hour of its newest click.
func foldPart(d *rollup.Day, detail []byte, said rollup.Count, hour int) error {
	p, err := rollup.UnpackDelta(detail)
	if err == nil && p.Total() != said {
		err = waypost.Errorf(waypost.EInvalid, "a part of clicks does not add up to its clicks")
	}
	if err != nil {
		d.Quarters[4*hour].Add(said)
		d.Breakdown.AddOther(said)
		return err
	}
	d.Fold(p)
	return nil
}

func countOf(clicks, bots int64) rollup.Count {
	c := rollup.Count{Clicks: min(uint64(max(clicks, 0)), rollup.MaxCount)}
	c.Bots = min(uint64(max(bots, 0)), c.Clicks)
	return c
}

func midnight(day int32) time.Time { return time.Unix(int64(day)*24*60*60, 0).UTC() }
