package analytics

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
	"waypost/controlplane/rollup"
)

// LinksClicks implements controlplane.StatsStore, in one statement, so that no click is
// seen twice or missed while parts are folded. OFFSET 0 has each link looked up alone:
// for a join the planner may read all rows of a workspace.
func (db *Store) LinksClicks(
	ctx context.Context, ws waypost.WorkspaceID, links []controlplane.LinkName, span *controlplane.Span,
) (map[controlplane.LinkName][]int64, error) {
	all := make(map[controlplane.LinkName][]int64, len(links))
	asked := make(map[controlplane.LinkName]bool, len(links))
	var names []controlplane.LinkName // each once
	var domains []int64
	var codes []string
	for _, l := range links {
		if !asked[l] {
			asked[l] = true
			names, domains, codes = append(names, l), append(domains, int64(l.Domain)), append(codes, string(l.Code))
		}
	}
	first, end := span.Days()
	err := db.pool.QueryIn(ctx, scoped.TenantOf(ws).LookingUp(), `
		WITH named AS MATERIALIZED (
			SELECT n.ord::integer AS ord, l.id FROM unnest($2::integer[], $3::text[]) WITH ORDINALITY n (domain, code, ord)
			CROSS JOIN LATERAL (
				SELECT id FROM link WHERE domain_id = n.domain AND code = n.code AND `+scoped.OfWorkspace("workspace_id", "$1")+`
				AND deleted_at IS NULL OFFSET 0) l)
		SELECT ord, 0, 0, 0, 0::bigint, 0::bigint, NULL::bytea FROM named
		UNION ALL
		SELECT n.ord, 1, d.day - date '1970-01-01', 0, d.clicks, d.bot_clicks, d.quarters
		FROM named n CROSS JOIN LATERAL (
			SELECT day, clicks, bot_clicks, quarters FROM click_day
			WHERE link_id = n.id AND day >= date '1970-01-01' + $4::integer AND day < date '1970-01-01' + $5::integer
			AND `+scoped.OfWorkspace("workspace_id", "$1")+` OFFSET 0) d
		UNION ALL
		SELECT n.ord, 2, p.day - date '1970-01-01', extract(hour FROM p.last_accessed_at AT TIME ZONE 'UTC')::integer,
		       p.clicks, p.bot_clicks, p.detail
		FROM (SELECT DISTINCT unnest(click_areas(id)) AS area FROM named) a CROSS JOIN LATERAL (
			SELECT link_id, day, last_accessed_at, clicks, bot_clicks, detail FROM click_part
			WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND area = a.area AND link_id IN (SELECT id FROM named) OFFSET 0) p
		JOIN named n ON n.id = p.link_id
		WHERE p.day >= date '1970-01-01' + $4::integer AND p.day < date '1970-01-01' + $5::integer`,
		[]any{ws, domains, codes, first, end}, func(rows pgx.Rows) error {
			const dayRow, partRow = 1, 2 // 0: the link alone
			var ord, kind, hour int
			var day int32
			var s storedDay
			_, err := pgx.ForEachRow(rows, []any{&ord, &kind, &day, &hour, &s.clicks, &s.bots, &s.quarters}, func() error {
				line := all[names[ord-1]]
				if line == nil {
					line = make([]int64, len(span.Bounds)-1)
					all[names[ord-1]] = line
				}
				switch kind {
				case dayRow:
					addSteps(line, span, day, db.readDay(&s))
				case partRow:
					var d rollup.Day
					db.addPart(&d, s.quarters, countOf(s.clicks, s.bots), hour)
					addSteps(line, span, day, &d)
				}
				return nil
			})
			return err
		})
	return all, scoped.Classify("count the clicks of links", err)
}

// addSteps adds a day of a link to the steps of a span.
func addSteps(line []int64, span *controlplane.Span, day int32, d *rollup.Day) {
	for q, count := range d.Quarters {
		if count.Clicks == 0 {
			continue
		}
		if step, ok := span.Step(midnight(day).Add(time.Duration(q) * 15 * time.Minute)); ok {
			line[step] += int64(count.Clicks)
		}
	}
}
