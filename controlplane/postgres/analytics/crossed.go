package analytics

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
	"waypost/controlplane/rollup"
)

// crossedRows bounds the single clicks that are read for one table. Tests change it.
// crossedLinks and crossedDays bound a group, as liveLinks and liveDays do.
var crossedRows = 1_000_000

const crossedLinks, crossedDays = 50_000, 200_000

// singleNames are the names of a single click as breakdowns show them.
var singleNames = map[controlplane.Dimension]string{
	controlplane.Countries: `coalesce(nullif(e.country, ''), 'unknown')`,
	controlplane.Cities:    `CASE WHEN e.city = '' THEN 'unknown' ELSE e.city || ', ' || e.country END`,
	controlplane.Devices:   `coalesce(nullif(e.device, ''), 'unknown')`,
	controlplane.Browsers:  `coalesce(nullif(e.browser, ''), 'unknown')`,
	controlplane.Systems:   `coalesce(nullif(e.os, ''), 'unknown')`,
	controlplane.Referrers: `coalesce(nullif(e.referrer, ''), 'direct')`,
}

// The single clicks of a workspace, and of some of its links, in the days [$2, $3).
var (
	singlesOfAll = `click_event e WHERE ` + singlesOfDays
	singlesOf    = `unnest($5::bigint[]) i (id) CROSS JOIN LATERAL (
		SELECT * FROM click_event e WHERE e.link_id = i.id AND ` + singlesOfDays + ` OFFSET 0) e`
	singlesOfDays = scoped.OfWorkspace("e.workspace_id", "$1") + `
		AND e.at >= timestamptz '1970-01-01 00:00Z' + $2::integer * interval '24 hours'
		AND e.at < timestamptz '1970-01-01 00:00Z' + $3::integer * interval '24 hours'`
)

// selectCrossed adds up single clicks by two names. It replaces names that are not among
// the first by an empty name, and so a name that is called like the others. It has at
// least one row, which says whether the bound cut clicks off.
const selectCrossed = `
WITH e AS MATERIALIZED (SELECT {rows} AS r, {columns} AS c, e.clicks, e.bot FROM {singles} LIMIT $4 + 1),
p AS MATERIALIZED (SELECT r, c, sum(clicks) AS n FROM e WHERE NOT bot GROUP BY r, c),
r AS (SELECT r FROM p WHERE r <> 'other' GROUP BY r ORDER BY sum(n) DESC, r LIMIT {names}),
c AS (SELECT c FROM p WHERE c <> 'other' GROUP BY c ORDER BY sum(n) DESC, c LIMIT {names})
SELECT cut, coalesce(r.r, ''), coalesce(c.c, ''), coalesce(sum(p.n), 0)::bigint
FROM (SELECT count(*) > $4 AS cut FROM e) b LEFT JOIN p ON true LEFT JOIN r ON r.r = p.r LEFT JOIN c ON c.c = p.c GROUP BY 1, 2, 3`

// countPeople counts the clicks of people of a workspace in days.
var countPeople = `
SELECT coalesce(sum(clicks - bot_clicks), 0)::bigint FROM (
	SELECT clicks, bot_clicks FROM click_workspace_day WHERE ` + ofDays + `
	UNION ALL SELECT clicks, bot_clicks FROM click_workspace_part WHERE ` + ofDays + `) d`

var errManySingles = waypost.Errorf(waypost.EInvalid, "there are too many links or single clicks to cross at once: ask for fewer days")

// CrossedClicks implements controlplane.StatsStore.
func (db *Store) CrossedClicks(
	ctx context.Context, ws waypost.WorkspaceID, q *controlplane.CrossedQuery, link int64, g controlplane.LinkGroup, s *controlplane.Span,
) (cells []controlplane.CrossedCell, clicks int64, err error) {
	as := scoped.TenantOf(ws).LookingUp()
	first, end := s.Days()
	err = db.pool.Transact(ctx, as, as.ReadOptions(), func(tx pgx.Tx) error {
		singles, args := singlesOfAll, []any{ws, first, end, crossedRows}
		r, err := &groupReader{db: db, tx: tx, workspace: ws, ids: []int64{link}}, error(nil)
		switch {
		case link == 0 && q.Group.IsZero():
			err = tx.QueryRow(ctx, countPeople, ws, first, end).Scan(&clicks)
		case link == 0:
			r, err = db.readGroup(ctx, tx, ws, &g, crossedLinks)
			fallthrough
		default:
			if err != nil {
				return err
			}
			singles, args = singlesOf, append(args, r.ids)
			r.left, r.totalled, r.counted = crossedDays, true, func(step map[linkDay]rollup.Count) {
				for _, c := range step {
					clicks += int64(c.Clicks - c.Bots)
				}
			}
			_, err = r.days(ctx, first, end)
		}
		if err != nil {
			return err
		}
		rows, _ := tx.Query(ctx, strings.NewReplacer("{rows}", singleNames[q.Rows], "{columns}", singleNames[q.Columns],
			"{singles}", singles, "{names}", strconv.Itoa(controlplane.MaxCrossedNames)).Replace(selectCrossed), args...)
		var cut bool
		var c controlplane.CrossedCell
		_, err = pgx.ForEachRow(rows, []any{&cut, &c.Row, &c.Column, &c.Clicks}, func() error {
			if cut {
				return errManySingles
			}
			if c.Clicks > 0 {
				cells = append(cells, c)
			}
			return nil
		})
		return err
	})
	if errors.Is(err, errLarge) || scoped.PgCode(err) == scoped.QueryCanceled {
		err = errManySingles
	}
	return cells, clicks, scoped.Classify("cross single clicks", err)
}
