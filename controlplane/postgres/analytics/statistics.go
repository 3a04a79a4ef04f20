package analytics

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
	"waypost/controlplane/rollup"
)

const (
	// daysAtOnce bounds the days that are in memory at once. Each day is read whole.
	daysAtOnce = 31

	// namesInHand bounds the names in memory. A thousand names are shown.
	namesInHand = 50_000
)

// LinkClicks implements controlplane.StatsStore.
func (db *Store) LinkClicks(
	ctx context.Context, ws waypost.WorkspaceID, link int64, s *controlplane.Span, n *controlplane.NameQuery,
) (controlplane.Counted, error) {
	var address map[string]string
	var err error
	if n != nil && n.By == controlplane.Codes {
		if address, err = db.aliasesOf(ctx, link); err != nil {
			return controlplane.Counted{}, err
		}
		for number, at := range address {
			if at == n.Name {
				n = &controlplane.NameQuery{By: n.By, Name: number}
			}
		}
	}
	c, err := counted(s, n, db.reader(ctx, ws, []int64{link}))
	codes := c.Breakdowns[controlplane.Codes].Named
	if address == nil && slices.ContainsFunc(codes, func(n controlplane.NamedClicks) bool { return n.Name != "" }) {
		address, err = db.aliasesOf(ctx, link)
	}
	for i := range codes {
		codes[i].Name = cmp.Or(address[codes[i].Name], codes[i].Name)
	}
	return c, err
}

// aliasesOf returns the addresses of all aliases that a link has had, by their numbers.
func (db *Store) aliasesOf(ctx context.Context, link int64) (map[string]string, error) {
	address := make(map[string]string)
	var n, at string
	err := db.pool.QueryIn(ctx, scoped.Ingest, `
		SELECT r.n::text, CASE WHEN d.id = 1 THEN '' ELSE d.host END || '/' || coalesce(a.typed_code, a.code, r.code)
		FROM retired_code r JOIN domain d ON d.id = r.domain_id LEFT JOIN link_alias a ON (a.link_id, a.n) = (r.link_id, r.n)
		WHERE r.link_id = $1 ORDER BY r.code DESC`, []any{link}, // capital letters, as typed, are last
		scoped.ForEach([]any{&n, &at}, func() error { address[n] = at; return nil }))
	return address, scoped.Classify("name the aliases of a link", err)
}

// daysReader returns the clicks of the days [first, end) that have any.
type daysReader func(first, end int32) (map[int32]*rollup.Day, error)

// reader returns a reader of the days of links; nil: of the workspace.
func (db *Store) reader(ctx context.Context, ws waypost.WorkspaceID, links []int64) daysReader {
	return func(first, end int32) (map[int32]*rollup.Day, error) {
		return db.ClicksByDay(ctx, ws, ClickDays{Links: links, First: first, End: end})
	}
}

// counted adds up the days that a span touches.
func counted(s *controlplane.Span, of *controlplane.NameQuery, read daysReader) (controlplane.Counted, error) {
	var c controlplane.Counted
	var all rollup.Breakdown
	first, end := s.Days()
	for ; first < end; first += daysAtOnce {
		days, err := read(first, min(first+daysAtOnce, end))
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
			if of != nil {
				c.Named = append(c.Named, namedDay(n, d, of))
			}
			all.Absorb(&d.Breakdown)
			visitors, bots := d.Visitors.Count()
			c.Visitors += int64(visitors)
			c.Bots += int64(bots)
		}
		all.Trim(namesInHand)
	}
	for d, from := range kept {
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

// kept are the dimensions of rollups.
var kept = [controlplane.Dimensions]rollup.Dimension{
	controlplane.Countries: rollup.Country, controlplane.Cities: rollup.City, controlplane.Devices: rollup.Device,
	controlplane.Browsers: rollup.Browser, controlplane.Systems: rollup.OS, controlplane.Referrers: rollup.Referrer,
	controlplane.Rules: rollup.Rule, controlplane.Variants: rollup.Variant, controlplane.Codes: rollup.Alias,
	controlplane.UTM: rollup.UTM, controlplane.UTM + 1: rollup.UTM + 1, controlplane.UTM + 2: rollup.UTM + 2,
	controlplane.UTM + 3: rollup.UTM + 3, controlplane.UTM + 4: rollup.UTM + 4,
}

// namedDay returns the clicks of a name on a day. A variant that is named by its id alone
// counts for each rule that has it.
func namedDay(n int32, d *rollup.Day, of *controlplane.NameQuery) controlplane.NamedDay {
	name := of.Name
	if of.By == controlplane.Variants && !strings.Contains(name, "/") {
		day := controlplane.NamedDay{Day: n}
		names, other := d.Breakdown.Names(rollup.Variant)
		for _, has := range names {
			if _, variant := rollup.SplitVariant(has.Name); variant == name {
				day.Clicks += int64(has.Clicks)
			}
		}
		day.AtLeast = other.Clicks > 0
		return day
	}
	if i := strings.LastIndex(name, ", "); of.By == controlplane.Cities && i >= 0 {
		name = rollup.CityName(name[i+2:], name[:i])
	}
	count, more := d.Breakdown.Named(kept[of.By], name)
	if name == "" && of.Nameless != "" {
		literal, _ := d.Breakdown.Named(kept[of.By], of.Nameless)
		count.Add(literal)
	}
	return controlplane.NamedDay{Day: n, Clicks: int64(count.Clicks), AtLeast: more}
}

// WorkspaceClicks implements controlplane.StatsStore.
func (db *Store) WorkspaceClicks(
	ctx context.Context, ws waypost.WorkspaceID, s *controlplane.Span, n *controlplane.NameQuery, top int,
) (controlplane.Counted, controlplane.TopLinks, error) {
	c, err := counted(s, n, db.reader(ctx, ws, nil))
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

// nameLinks returns the names of links. Purged links are left out; deleted ones are
// included, because their clicks were counted.
func (db *Store) nameLinks(ctx context.Context, ws waypost.WorkspaceID, counts []rollup.LinkCount) ([]controlplane.TopLink, error) {
	ids := make([]int64, len(counts))
	for i := range counts {
		ids[i] = counts[i].Link
	}
	byID := make(map[int64]controlplane.TopLink, len(ids))
	var id int64
	var l controlplane.TopLink
	err := db.pool.QueryIn(ctx, scoped.TenantOf(ws), `
		SELECT l.id, l.domain_id, CASE WHEN d.id = $3 THEN '' ELSE d.host END, coalesce(l.typed_code, l.code), l.original_url, l.title
		FROM link l JOIN domain d ON d.id = l.domain_id
		WHERE `+scoped.OfWorkspace("l.workspace_id", "$1")+` AND l.id = ANY($2::bigint[])`, []any{ws, ids, waypost.DefaultDomain},
		scoped.ForEach([]any{&id, &l.Domain, &l.Host, &l.Code, &l.OriginalURL, &l.Title}, func() error { byID[id] = l; return nil }))
	named := make([]controlplane.TopLink, 0, len(counts))
	for _, c := range counts {
		if l, found := byID[c.Link]; found {
			l.Clicks, l.Bots = int64(c.Clicks), int64(c.Bots)
			named = append(named, l)
		}
	}
	return named, scoped.Classify("name links", err)
}

// WorkspaceTotals implements controlplane.StatsStore, in one statement, so that no click
// is seen twice or not at all.
func (db *Store) WorkspaceTotals(ctx context.Context, ws waypost.WorkspaceID) (clicks, bots int64, err error) {
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws), `
		SELECT least(coalesce(sum(s.clicks), 0), 9223372036854775807)::bigint, least(coalesce(sum(s.bot_clicks), 0),
			9223372036854775807)::bigint FROM (
			SELECT clicks, bot_clicks FROM click_workspace_day WHERE `+scoped.OfWorkspace("workspace_id", "$1")+`
			UNION ALL
			SELECT clicks, bot_clicks FROM click_workspace_part WHERE `+scoped.OfWorkspace("workspace_id", "$1")+`) s`, []any{ws}, scoped.RowInto(&clicks, &bots))
	return clicks, bots, scoped.Classify("count the clicks of a workspace", err)
}

// NewestLink implements controlplane.StatsStore.
func (db *Store) NewestLink(ctx context.Context, ws waypost.WorkspaceID) (id int64, err error) {
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws), `SELECT id FROM link WHERE `+scoped.OfWorkspace("workspace_id", "$1")+
		` AND deleted_at IS NULL ORDER BY created_at DESC, id DESC LIMIT 1`, []any{ws}, scoped.RowInto(&id))
	return id, scoped.Classify("find the newest link", err)
}

// The clicks of a link l are in its row of link_click, c, and in parts, p, that are
// not folded into it yet. One statement sees each click in one of them.
const Counts = `least(coalesce(c.clicks, 0) + coalesce(p.clicks, 0), 9223372036854775807)::bigint,
       least(coalesce(c.bot_clicks, 0) + coalesce(p.bots, 0), 9223372036854775807)::bigint, greatest(c.last_accessed_at, p.at)`

// PartsOfPage adds up the parts of the links of page, which has columns workspace_id and
// id. The rows of parts are read once, and not once for each link, because neighbours
// share them. For a few links it takes less time to look whether a row has one of them
// than to unpack it.
const PartsOfPage = `
	SELECT s.link_id, sum(s.clicks) AS clicks, sum(s.bots) AS bots, max(s.at) AS at
	FROM (SELECT DISTINCT workspace_id, unnest(click_areas(id)) AS area FROM page) a
	CROSS JOIN LATERAL (
		SELECT links, clicks, bot_clicks, newest FROM click_pack WHERE workspace_id = a.workspace_id AND area = a.area OFFSET 0) k
	CROSS JOIN LATERAL unnest(k.links, k.clicks, k.bot_clicks, k.newest) AS s (link_id, clicks, bots, at)
	WHERE ((SELECT count(*) FROM page) > 8 OR k.links && ARRAY(SELECT id FROM page)) AND s.link_id IN (SELECT id FROM page)
	GROUP BY s.link_id`

// ClickDays selects the days [First, End) (UTC, since 1970) and the links of a workspace;
// nil selects all links.
type ClickDays struct {
	Links      []int64
	First, End int32
}

// The days of links, and of a workspace, are read with the parts that are not folded into
// them yet in one statement, so that no click is seen twice or missed while a roller
// folds it.
var (
	selectLinkDays = selectDays("click_day", " AND link_id = ANY($4::bigint[])") + `
UNION ALL
SELECT true, s.day - date '1970-01-01', extract(hour FROM s.at AT TIME ZONE 'UTC')::integer, s.clicks, s.bots, s.detail, NULL, NULL
FROM click_pack k
CROSS JOIN LATERAL unnest(k.links, k.days, k.clicks, k.bot_clicks, k.newest, k.details) AS s (link_id, day, clicks, bots, at, detail)
WHERE ` + scoped.OfWorkspace("k.workspace_id", "$1") + ` AND k.area = ANY($5::bigint[]) AND k.links && $4::bigint[]
  AND s.link_id = ANY($4::bigint[]) AND s.day >= date '1970-01-01' + $2::integer AND s.day < date '1970-01-01' + $3::integer`
	selectWorkspaceDays = selectDays("click_workspace_day", "") + " UNION ALL " + selectDays("click_workspace_part", "")
	ofDays              = scoped.OfWorkspace("workspace_id", "$1") + ` AND day >= date '1970-01-01' + $2::integer AND day < date '1970-01-01' + $3::integer`
)

func selectDays(table, which string) string {
	return `
SELECT false, day - date '1970-01-01', 0, clicks, bot_clicks, quarters, breakdown, visitors
FROM ` + table + `
WHERE ` + ofDays + which
}

// ClicksByDay returns the clicks of links, or of a whole workspace, up to the newest, by
// day (UTC, since 1970). Days without clicks are left out. An unreadable breakdown counts
// as others.
func (db *Store) ClicksByDay(ctx context.Context, ws waypost.WorkspaceID, q ClickDays) (map[int32]*rollup.Day, error) {
	sql, args := selectWorkspaceDays, []any{ws, q.First, q.End}
	if q.Links != nil {
		sql, args = selectLinkDays, append(args, q.Links, areasOf(q.Links))
	}
	days := make(map[int32]*rollup.Day)
	err := db.pool.QueryIn(ctx, scoped.TenantOf(ws).LookingUp(), sql, args, func(rows pgx.Rows) error {
		var part bool
		var hour int
		var n int32
		var s storedDay
		for rows.Next() {
			if err := rows.Scan(&part, &n, &hour, &s.clicks, &s.bots, &s.quarters, &s.breakdown, &s.visitors); err != nil {
				return err
			}
			d := days[n]
			if d == nil {
				d = &rollup.Day{}
				days[n] = d
			}
			if part {
				db.addPart(d, s.quarters, countOf(s.clicks, s.bots), hour)
			} else {
				d.Merge(db.readDay(&s))
			}
		}
		return rows.Err()
	})
	// Count clicks with a lost breakdown as others.
	for _, d := range days {
		d.Complete()
	}
	return days, scoped.Classify("read clicks by day", err)
}

// readDay returns a day, and logs its unreadable columns.
func (db *Store) readDay(s *storedDay) *rollup.Day {
	d := &rollup.Day{}
	for _, b := range s.unpack(d) {
		db.pool.Log.Error("cannot read a part of a day's clicks: they stay counted", "what", b.what, "error", b.reason)
	}
	return d
}

// addPart adds a part with a number of clicks, as its columns have them. If the part is
// unreadable, addPart logs that and counts the clicks as others.
func (db *Store) addPart(d *rollup.Day, detail []byte, said rollup.Count, hour int) {
	var p rollup.Delta
	if err := readPart(&p, detail, said); err != nil {
		db.pool.Log.Error("cannot read a part of clicks: counted it in totals, and as others in breakdowns", "error", err)
		addUnread(d, said, hour)
		return
	}
	d.Fold(&p)
}

// readPart reads a part, and checks its number of clicks against its columns.
func readPart(p *rollup.Delta, detail []byte, said rollup.Count) error {
	if err := p.Unpack(detail); err != nil {
		return err
	}
	if p.Total() != said {
		return waypost.Errorf(waypost.EInvalid, "a part of clicks does not add up to its clicks")
	}
	return nil
}

// addUnread counts clicks of a part that cannot be read as others, in the hour of its
// newest click.
func addUnread(d *rollup.Day, said rollup.Count, hour int) {
	d.Quarters[4*hour].Add(said)
	d.Breakdown.AddOther(said)
}

func countOf(clicks, bots int64) rollup.Count {
	c := rollup.Count{Clicks: min(uint64(max(clicks, 0)), rollup.MaxCount)}
	c.Bots = min(uint64(max(bots, 0)), c.Clicks)
	return c
}

func midnight(day int32) time.Time { return time.Unix(int64(day)*24*60*60, 0).UTC() }
