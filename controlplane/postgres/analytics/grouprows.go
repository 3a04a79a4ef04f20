package analytics

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// tableLinks and tableDays bound the links, and the days of links, of a table of groups.
const tableLinks, tableDays = 100_000, 200_000

// groupNames are the names of the groups that a link l is in.
var groupNames = map[controlplane.GroupBy]string{
	controlplane.ByTag:     `ARRAY(SELECT DISTINCT unnest(l.tags))`,
	controlplane.ByDomain:  `ARRAY[(SELECT CASE WHEN d.id = 1 THEN '' ELSE d.host END FROM domain d WHERE d.id = l.domain_id)]`,
	controlplane.ByCreator: `ARRAY[l.created_by]`,
}

// selectGroupRows counts links by name (kind 0), their clicks by name and day (1), the
// clicks of the workspace (2), and says whether a bound cut links or days off (3), in one
// statement, so that no click is seen twice or missed while parts are folded.
var selectGroupRows = `
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
SELECT 3, '', 0, ((SELECT count(*) FROM l) > $4 OR (SELECT count(*) FROM d) > $5)::integer, 0`

var errLargeTable = waypost.Errorf(waypost.EInvalid,
	"the workspace has more than %d links, or they have clicks on too many days: ask for fewer days", tableLinks)

// GroupRows implements controlplane.StatsStore.
func (db *Store) GroupRows(
	ctx context.Context, ws waypost.WorkspaceID, by controlplane.GroupBy, first, end int32,
) (rows []controlplane.GroupRow, clicks int64, err error) {
	places := make(map[string]int)
	row := func(name string) *controlplane.GroupRow {
		at, found := places[name]
		if !found {
			at = len(rows)
			places[name], rows = at, append(rows, controlplane.GroupRow{Name: name, Days: make([]int64, end-first)})
		}
		return &rows[at]
	}
	before := 2*first - end
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws).LookingUp(), strings.ReplaceAll(selectGroupRows, "{names}", groupNames[by]),
		[]any{ws, before, end, tableLinks, tableDays}, func(found pgx.Rows) error {
			var kind int
			var name string
			var day int32
			var n, bots int64
			_, err := pgx.ForEachRow(found, []any{&kind, &name, &day, &n, &bots}, func() error {
				const links, ofName, ofWorkspace, cut = 0, 1, 2, 3
				switch kind {
				case links:
					row(name).Links = n
				case ofName:
					r := row(name)
					if day < first {
						r.Before += n
						break
					}
					r.Clicks, r.Bots, r.Days[day-first] = r.Clicks+n, r.Bots+bots, n
				case ofWorkspace:
					if day >= first {
						clicks += n
					}
				case cut:
					if n > 0 {
						return errLargeTable
					}
				}
				return nil
			})
			return err
		})
	return rows, clicks, scoped.Classify("count the clicks of groups of links", err)
}
