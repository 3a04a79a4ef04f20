package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/rollup"
)

// stepsOf returns SQL of the clicks of named links by step: from days of UTC where the
// steps are such days, or else from hours. An hour that a step shares with its neighbour,
// as in zones that are not whole hours away from UTC, is taken apart into its quarters.
func stepsOf(s *controlplane.Span) string {
	for _, at := range s.Bounds {
		if at.Unix()%(24*3600) != 0 {
			return `SELECT n.ord, s.step, c.clicks, 0, NULL, 0, 0
		FROM named n CROSS JOIN unnest(trim_array($4::timestamptz[], 1), ($4::timestamptz[])[2:]) WITH ORDINALITY s (begins, ends, step)
		CROSS JOIN LATERAL (SELECT sum(CASE WHEN h.hour >= s.begins AND h.hour + interval '1 hour' <= s.ends
				THEN h.q0 + h.q1 + h.q2 + h.q3 ELSE (SELECT coalesce(sum(q.clicks), 0)
					FROM (VALUES (0, h.q0), (15, h.q1), (30, h.q2), (45, h.q3)) q (minute, clicks)
					WHERE h.hour + q.minute * interval '1 minute' >= s.begins AND h.hour + q.minute * interval '1 minute' < s.ends) END)::bigint AS clicks
			FROM click_hour h
			WHERE h.link_id = n.id AND h.hour > s.begins - interval '1 hour' AND h.hour < s.ends AND ` + ofWorkspace("h.workspace_id", "$1") + `) c
		WHERE c.clicks > 0`
		}
	}
	return `SELECT n.ord, width_bucket(h.day::timestamp AT TIME ZONE 'UTC', $4::timestamptz[]), sum(h.clicks)::bigint, 0, NULL, 0, 0
		FROM named n JOIN click_day h ON h.link_id = n.id AND h.day >= date '1970-01-01' + $5::integer AND h.day < date '1970-01-01' + $6::integer
		WHERE ` + ofWorkspace("h.workspace_id", "$1") + ` GROUP BY 1, 2`
}

// LinksClicks implements controlplane.StatsStore, in one statement, so that no click is
// seen twice or missed while parts are folded.
func (db *ClickStore) LinksClicks(
	ctx context.Context, ws waypost.WorkspaceID, links []controlplane.LinkName, s *controlplane.Span,
) (map[controlplane.LinkName][]int64, error) {
	domains, codes := make([]int64, len(links)), make([]string, len(links))
	for i, l := range links {
		domains[i], codes[i] = int64(l.Domain), string(l.Code)
	}
	first, end := s.Days()
	all := make(map[controlplane.LinkName][]int64, len(links))
	err := db.pool.queryIn(ctx, tenantOf(ws), `
		WITH named AS MATERIALIZED (
			SELECT n.ord::integer AS ord, l.id FROM unnest($2::integer[], $3::text[]) WITH ORDINALITY n (domain, code, ord)
			JOIN link l ON l.domain_id = n.domain AND l.code = n.code
			WHERE `+ofWorkspace("l.workspace_id", "$1")+` AND l.deleted_at IS NULL)
		SELECT ord, 0, 0::bigint, 0::bigint, NULL::bytea, 0, 0 FROM named
		UNION ALL
		`+stepsOf(s)+`
		UNION ALL
		SELECT n.ord, -1, p.clicks, p.bot_clicks, p.detail, p.day - date '1970-01-01',
		       extract(hour FROM p.last_accessed_at AT TIME ZONE 'UTC')::integer
		FROM named n CROSS JOIN LATERAL unnest(click_areas(n.id)) a JOIN click_part p ON p.area = a AND p.link_id = n.id
		WHERE `+ofWorkspace("p.workspace_id", "$1")+` AND p.day >= date '1970-01-01' + $5::integer AND p.day < date '1970-01-01' + $6::integer`,
		[]any{ws, domains, codes, s.Bounds, first, end}, func(rows pgx.Rows) error {
			var ord, step, hour int
			var day int32
			var clicks, bots int64
			var detail []byte
			_, err := pgx.ForEachRow(rows, []any{&ord, &step, &clicks, &bots, &detail, &day, &hour}, func() error {
				line := all[links[ord-1]]
				if line == nil {
					line = make([]int64, len(s.Bounds)-1)
					all[links[ord-1]] = line
				}
				switch {
				case step > 0 && step <= len(line):
					line[step-1] += clicks
				case step < 0:
					db.addPart(line, s, day, detail, countOf(clicks, bots), hour)
				}
				return nil
			})
			return err
		})
	return all, classify("count the clicks of links", err)
}

// addPart adds a part of a link's clicks on a day to the steps of a span.
func (db *ClickStore) addPart(line []int64, s *controlplane.Span, day int32, detail []byte, said rollup.Count, hour int) {
	var d rollup.Day
	if err := foldPart(&d, detail, said, hour); err != nil {
		db.pool.log.Error("cannot read a part of clicks, so it counts in the hour of its newest", "error", err)
	}
	for q, count := range d.Quarters {
		if step, ok := s.Step(midnight(day).Add(time.Duration(q) * 15 * time.Minute)); ok {
			line[step] += int64(count.Clicks)
		}
	}
}
