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

// groupTable counts clicks by the names of groups and by day. It has only what is not
// zero, because names may have clicks on few days.
type groupTable struct {
	links map[string]int64 // of each name
	days  map[int32]*namedClicks
}

// namedClicks are the clicks of a day.
type namedClicks struct {
	workspace int64
	names     map[string][2]int64 // and of these, of bots
}

// Bounds of the names of a table, and of the days on which names have clicks.
const (
	maxGroups    = 20_000
	maxGroupDays = 2_000_000
)

var errManyGroups = waypost.Errorf(waypost.EInvalid,
	"there are more than %d groups, or they have clicks on more than %d days in all, and no table of them is made", maxGroups, maxGroupDays)

// readGroupTable counts the clicks of the days [first, end). It fails with errLarge if
// there are more links, or more days of links, than the bounds allow; nil: any number. It
// fails with errManyGroups if there are too many names.
func readGroupTable(
	ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, by controlplane.GroupBy, first, end int32, links, days *int,
) (*groupTable, error) {
	t := &groupTable{links: make(map[string]int64), days: make(map[int32]*namedClicks)}
	of := func(day int32) *namedClicks {
		if t.days[day] == nil {
			t.days[day] = &namedClicks{names: make(map[string][2]int64)}
		}
		return t.days[day]
	}
	var kind int
	var name string
	var day int32
	var n, bots int64
	cells, large := 0, false
	rows, _ := tx.Query(ctx, strings.ReplaceAll(selectGroupTable, "{names}", groupNames[by]), ws, first, end, links, days)
	_, err := pgx.ForEachRow(rows, []any{&kind, &name, &day, &n, &bots}, func() error {
		const links, ofName, ofWorkspace, cut = 0, 1, 2, 3
		switch kind {
		case links:
			t.links[name] = n
		case ofName:
			of(day).names[name] = [2]int64{n, bots}
			cells++
		case ofWorkspace:
			of(day).workspace = n
		case cut:
			large = n > 0
		}
		if len(t.links) > maxGroups || cells > maxGroupDays {
			return errManyGroups
		}
		return nil
	})
	if err == nil && large {
		err = errLarge
	}
	return t, err
}

// rows returns the groups with their clicks of the days [first, end), and of as many days
// before, and the clicks of the workspace.
func (t *groupTable) rows(first, end int32) (c controlplane.GroupsCounted) {
	places := make(map[string]int, len(t.links))
	for name, links := range t.links {
		places[name] = len(c.Rows)
		c.Rows = append(c.Rows, controlplane.GroupRow{Name: name, Links: links, Days: make([]int64, end-first)})
	}
	for day, d := range t.days {
		if day >= first && day < end {
			c.Clicks += d.workspace
		}
		for name, n := range d.names {
			at, known := places[name]
			switch r := &c.Rows[at]; {
			case !known || day >= end || day < 2*first-end:
			case day < first:
				r.Before += n[0]
			default:
				r.Clicks, r.Bots, r.Days[day-first] = r.Clicks+n[0], r.Bots+n[1], n[0]
			}
		}
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
	var t *groupTable
	as := scoped.TenantOf(ws).LookingUp()
	err = db.pool.Transact(ctx, as, as.ReadOptions(), func(tx pgx.Tx) (err error) {
		if kept != 0 {
			stored := &keptReader{db: db, tx: tx, workspace: ws, question: kept}
			t, c.Kept, err = stored.table(ctx, before, end)
			return err
		}
		t, err = readGroupTable(ctx, tx, ws, by, before, end, &tableLinks, &tableDays)
		return err
	})
	if errors.Is(err, errLarge) {
		err = question.keep(ctx, db.pool, ws, before)
	}
	if err != nil {
		return c, scoped.Classify("count the clicks of groups of links", err)
	}
	made := t.rows(first, end)
	made.Kept = c.Kept
	return made, nil
}
