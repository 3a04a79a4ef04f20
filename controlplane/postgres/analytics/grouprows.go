package analytics

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// tableLinks and tableDays bound the links, and the days of links, of a table of groups
// that is counted while a request waits. Tests change them.
var tableLinks, tableDays = 20_000, 60_000

// groupNames are the names of the groups that a link l is in.
var groupNames = map[controlplane.GroupBy]string{
	controlplane.ByTag:     `ARRAY(SELECT DISTINCT unnest(l.tags))`,
	controlplane.ByDomain:  `ARRAY[(SELECT CASE WHEN d.id = 1 THEN '' ELSE d.host END FROM domain d WHERE d.id = l.domain_id)]`,
	controlplane.ByCreator: `ARRAY[l.created_by]`,
}

// selectGroupTable counts links by name (kind 0), their clicks by name and day (1), the
// clicks of the workspace (2), and says whether a bound cut links or days off (3), in one
// statement, so that no click is seen twice or missed while parts are folded.
var selectGroupTable = `
WITH l AS MATERIALIZED (
	SELECT l.id, {names} AS names FROM link l WHERE ` + scoped.OfWorkspace("l.workspace_id", "$1") + ` AND l.deleted_at IS NULL LIMIT $4 + 1
), d AS MATERIALIZED (
	SELECT l.id, d.* FROM l CROSS JOIN LATERAL (
		SELECT day, clicks, bot_clicks FROM click_day WHERE link_id = l.id AND ` + ofDays + ` OFFSET 0) d LIMIT $5 + 1
), counted AS (
	SELECT * FROM d
	UNION ALL
	SELECT s.link_id, s.day, s.clicks, s.bots
	FROM click_pack k CROSS JOIN LATERAL unnest(k.links, k.days, k.clicks, k.bot_clicks) AS s (link_id, day, clicks, bots)
	WHERE ` + scoped.OfWorkspace("k.workspace_id", "$1") + `
	  AND s.day >= date '1970-01-01' + $2::integer AND s.day < date '1970-01-01' + $3::integer
), w AS (
	SELECT day, clicks, bot_clicks FROM click_workspace_day WHERE ` + ofDays + `
	UNION ALL
	SELECT day, clicks, bot_clicks FROM click_workspace_part WHERE ` + ofDays + `
)
SELECT 0, n.name, 0, count(*), 0::bigint FROM l CROSS JOIN LATERAL unnest(l.names) n (name) GROUP BY 2
UNION ALL
SELECT 1, n.name, c.day - date '1970-01-01', least(sum(c.clicks), 9223372036854775807)::bigint,
	least(sum(c.bot_clicks), 9223372036854775807)::bigint
FROM counted c JOIN l ON l.id = c.id CROSS JOIN LATERAL unnest(l.names) n (name) GROUP BY 2, 3
UNION ALL
SELECT 2, '', day - date '1970-01-01', least(sum(clicks), 9223372036854775807)::bigint, 0 FROM w GROUP BY 3
UNION ALL
SELECT 3, '', 0, coalesce((SELECT count(*) FROM l) > $4 OR (SELECT count(*) FROM d) > $5, false)::integer, 0`

// groupTable counts clicks by the names of groups and by day, from a day on.
type groupTable struct {
	First  int32            `json:"first"`
	Clicks []int64          `json:"clicks"` // of the workspace
	Groups []groupTableName `json:"groups"`
}

type groupTableName struct {
	Name   string  `json:"name"`
	Links  int64   `json:"links"`
	Clicks []int64 `json:"clicks,omitzero"` // nil: it has none
	Bots   []int64 `json:"bots,omitzero"`
}

// readGroupTable counts the clicks of the days [first, end). It fails with errLarge if
// there are more links, or more days of links, than the bounds allow; nil: any number.
func readGroupTable(
	ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, by controlplane.GroupBy, first, end int32, links, days *int,
) (*groupTable, error) {
	t := &groupTable{First: first, Clicks: make([]int64, end-first)}
	places := make(map[string]int)
	of := func(name string) *groupTableName {
		at, found := places[name]
		if !found {
			at = len(t.Groups)
			places[name], t.Groups = at, append(t.Groups, groupTableName{Name: name})
		}
		return &t.Groups[at]
	}
	var kind int
	var name string
	var day int32
	var n, bots int64
	rows, _ := tx.Query(ctx, strings.ReplaceAll(selectGroupTable, "{names}", groupNames[by]), ws, first, end, links, days)
	_, err := pgx.ForEachRow(rows, []any{&kind, &name, &day, &n, &bots}, func() error {
		const links, ofName, ofWorkspace, cut = 0, 1, 2, 3
		switch kind {
		case links:
			of(name).Links = n
		case ofName:
			g := of(name)
			if g.Clicks == nil {
				g.Clicks, g.Bots = make([]int64, end-first), make([]int64, end-first)
			}
			g.Clicks[day-first], g.Bots[day-first] = n, bots
		case ofWorkspace:
			t.Clicks[day-first] = n
		case cut:
			if n > 0 {
				return errLarge
			}
		}
		return nil
	})
	return t, err
}

// rows returns the groups with their clicks of the days [first, end), and of as many days
// before, and the clicks of the workspace.
func (t *groupTable) rows(first, end int32) (c controlplane.GroupsCounted) {
	// Days after the table have no clicks yet.
	from, to := first-t.First, min(end-t.First, int32(len(t.Clicks)))
	sum := func(days []int64, from, to int32) (n int64) {
		for _, day := range days[min(from, int32(len(days))):min(to, int32(len(days)))] {
			n += day
		}
		return n
	}
	c.Clicks = sum(t.Clicks, from, max(from, to))
	for _, g := range t.Groups {
		row := controlplane.GroupRow{Name: g.Name, Links: g.Links, Days: make([]int64, end-first)}
		if g.Clicks != nil && from < to {
			copy(row.Days, g.Clicks[from:to])
			row.Clicks, row.Bots = sum(g.Clicks, from, to), sum(g.Bots, from, to)
		}
		row.Before = sum(g.Clicks, from-(end-first), from)
		c.Rows = append(c.Rows, row)
	}
	return c
}

// GroupRows implements controlplane.StatsStore.
func (db *Store) GroupRows(
	ctx context.Context, ws waypost.WorkspaceID, by controlplane.GroupBy, first, end int32,
) (c controlplane.GroupsCounted, err error) {
	before := 2*first - end
	question := keptQuestion{By: by}
	kept, err := question.ask(ctx, db.pool, ws, before)
	if err != nil {
		return c, err
	}
	as := scoped.TenantOf(ws).LookingUp()
	err = db.pool.Transact(ctx, as, as.ReadOptions(), func(tx pgx.Tx) error {
		if kept != 0 {
			stored := &keptReader{db: db, tx: tx, workspace: ws, question: kept}
			c, err = stored.rows(ctx, first, end)
			return err
		}
		t, err := readGroupTable(ctx, tx, ws, by, before, end, &tableLinks, &tableDays)
		if err == nil {
			c = t.rows(first, end)
		}
		return err
	})
	if errors.Is(err, errLarge) {
		err = question.keep(ctx, db.pool, ws, before)
	}
	return c, scoped.Classify("count the clicks of groups of links", err)
}
