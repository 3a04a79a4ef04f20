package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/rollup"
)

var _ controlplane.StatsStore = (*DB)(nil)

const (
	// daysAtOnce bounds what is in memory of a long time. Each day is seen whole.
	daysAtOnce = 31

	// namesInHand bounds what is in memory of names, of which a thousand are shown.
	namesInHand = 50_000
)

// LinkClicks implements controlplane.StatsStore.
func (db *DB) LinkClicks(ctx context.Context, ws waypost.WorkspaceID, link int64, s *controlplane.Span) (controlplane.Counted, error) {
	return db.counted(ctx, ws, []int64{link}, s)
}

// counted adds up the days that a span touches.
func (db *DB) counted(ctx context.Context, ws waypost.WorkspaceID, links []int64, s *controlplane.Span) (controlplane.Counted, error) {
	var c controlplane.Counted
	var all rollup.Breakdown
	first, end := s.Days()
	for ; first < end; first += daysAtOnce {
		days, err := db.ClicksByDay(ctx, ws, ClickDays{Links: links, First: first, End: min(first+daysAtOnce, end)})
		if err != nil {
			return controlplane.Counted{}, err
		}
		for n, d := range days {
			for q, count := range d.Quarters {
				if count.Clicks > 0 {
					c.Quarters = append(c.Quarters, controlplane.QuarterClicks{
						At: midnight(n).Unix() + int64(q)*15*60, Clicks: int64(count.Clicks), Bots: int64(count.Bots),
					})
				}
			}
			all.Merge(&d.Breakdown)
			visitors, bots := d.Visitors.Count()
			c.Visitors += int64(visitors)
			c.Bots += int64(bots)
		}
		all.Trim(namesInHand)
	}
	for d, from := range [controlplane.Dimensions]rollup.Dimension{
		controlplane.Countries: rollup.Country, controlplane.Cities: rollup.City, controlplane.Devices: rollup.Device,
		controlplane.Browsers: rollup.Browser, controlplane.Systems: rollup.OS, controlplane.Referrers: rollup.Referrer,
	} {
		names, other := all.Names(from)
		b := &c.Breakdowns[d]
		b.Other = int64(other.Clicks)
		for _, n := range names {
			if from == rollup.City && n.Name != "" {
				country, city := rollup.SplitCity(n.Name)
				n.Name = city + ", " + country
			}
			b.Named = append(b.Named, controlplane.NamedClicks{Name: n.Name, Clicks: int64(n.Clicks)})
		}
	}
	return c, nil
}

// WorkspaceClicks implements controlplane.StatsStore.
func (db *DB) WorkspaceClicks(ctx context.Context, ws waypost.WorkspaceID, s *controlplane.Span, top int) (controlplane.Counted, controlplane.TopLinks, error) {
	c, err := db.counted(ctx, ws, nil, s)
	if err != nil || top == 0 {
		return c, controlplane.TopLinks{Exact: true}, err
	}
	first, end := s.Days()
	most, exact, err := db.TopLinks(ctx, ws, first, end, top)
	if err != nil {
		return controlplane.Counted{}, controlplane.TopLinks{}, err
	}
	named, err := db.nameLinks(ctx, ws, most)
	return c, controlplane.TopLinks{Links: named, Exact: exact}, err
}

// nameLinks tells what links are. Those that were purged are left out; deleted ones are
// there, since their clicks were counted.
func (db *DB) nameLinks(ctx context.Context, ws waypost.WorkspaceID, counts []rollup.LinkCount) ([]controlplane.TopLink, error) {
	ids := make([]int64, len(counts))
	for i := range counts {
		ids[i] = counts[i].Link
	}
	byID := make(map[int64]controlplane.TopLink, len(ids))
	err := db.queryIn(ctx, tenantOf(ws), `
		SELECT l.id, l.domain_id, CASE WHEN d.id = $3 THEN '' ELSE d.host END, l.code, l.original_url, l.title
		FROM link l JOIN domain d ON d.id = l.domain_id
		WHERE `+ofWorkspace("l.workspace_id", "$1")+` AND l.id = ANY($2::bigint[])`, []any{ws, ids, waypost.DefaultDomain}, func(rows pgx.Rows) error {
		for rows.Next() {
			var id int64
			var l controlplane.TopLink
			if err := rows.Scan(&id, &l.Domain, &l.Host, &l.Code, &l.OriginalURL, &l.Title); err != nil {
				return err
			}
			byID[id] = l
		}
		return rows.Err()
	})
	named := make([]controlplane.TopLink, 0, len(counts))
	for _, c := range counts {
		if l, found := byID[c.Link]; found {
			l.Clicks, l.Bots = int64(c.Clicks), int64(c.Bots)
			named = append(named, l)
		}
	}
	return named, classify("name links", err)
}

// WorkspaceTotals implements controlplane.StatsStore, in one statement, so that no click
// is seen twice or not at all.
func (db *DB) WorkspaceTotals(ctx context.Context, ws waypost.WorkspaceID) (clicks, bots int64, err error) {
	err = db.queryIn(ctx, tenantOf(ws), `
		SELECT least(coalesce(sum(s.clicks), 0), 9223372036854775807)::bigint, least(coalesce(sum(s.bot_clicks), 0), 9223372036854775807)::bigint FROM (
			SELECT clicks, bot_clicks FROM click_workspace_day WHERE `+ofWorkspace("workspace_id", "$1")+`
			UNION ALL
			SELECT clicks, bot_clicks FROM click_part WHERE `+ofWorkspace("workspace_id", "$1")+`) s`, []any{ws}, func(rows pgx.Rows) error {
		for rows.Next() {
			if err := rows.Scan(&clicks, &bots); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	return clicks, bots, classify("count the clicks of a workspace", err)
}
