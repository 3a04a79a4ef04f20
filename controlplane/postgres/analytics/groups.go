package analytics

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
	"waypost/controlplane/rollup"
)

// liveLinks and liveDays bound the links of a group, and the days on which they have
// clicks, because they are added up while a request waits. Tests change them.
var liveLinks, liveDays = 20_000, 20_000

const (
	// groupStep bounds the links of one statement, whose clicks by day are in memory, and
	// areasLooked the areas that are looked up one by one.
	groupStep   = 10_000
	areasLooked = 5_000
)

// groupReader adds up the clicks of the links of a group, at the moment of its
// transaction. A reader with a limit fails with errLarge beyond it.
type groupReader struct {
	db        *Store
	tx        pgx.Tx
	workspace waypost.WorkspaceID
	ids       []int64 // in order
	left      int     // days of links that may be read; negative: any number
	total     rollup.Count
	totalled  bool // the total is known, because days were read before

	// counted gets the clicks of each link and day, in steps.
	counted func(step map[linkDay]rollup.Count)
}

// errLarge says that a question cannot be answered while a request waits.
var errLarge = errors.New("there are too many links, or they have clicks on too many days")

// readGroup finds the links of a group, at most as many as most unless it is negative.
func (db *Store) readGroup(
	ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, g *controlplane.LinkGroup, most int,
) (*groupReader, error) {
	r := &groupReader{db: db, tx: tx, workspace: ws, left: -1, counted: func(map[linkDay]rollup.Count) {}}
	rows, _ := tx.Query(ctx, `SELECT id FROM link_group($1, $2, nullif($3, 0), nullif($4, ''), nullif($5, -1))`,
		ws, append([]string{}, g.Tags...), g.Domain, g.Creator, most)
	var id *int64
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error {
		if id == nil {
			return errLarge
		}
		r.ids = append(r.ids, *id)
		return nil
	}); err != nil {
		return nil, err
	}
	slices.Sort(r.ids)
	return r, nil
}

// Three statements read the clicks of links: parts that are not folded yet, the days, and
// the clicks of all time. Each finds its rows by an index, as sparklines do.
var (
	groupParts = `
SELECT s.link_id, s.day - date '1970-01-01', extract(hour FROM s.at AT TIME ZONE 'UTC')::integer, s.clicks, s.bots,
	CASE WHEN s.day >= date '1970-01-01' + $3::integer
	      AND s.day < date '1970-01-01' + $4::integer THEN s.detail END
FROM click_pack k
CROSS JOIN LATERAL unnest(k.links, k.days, k.clicks, k.bot_clicks, k.newest, k.details) AS s (link_id, day, clicks, bots, at, detail)
WHERE ` + scoped.OfWorkspace("k.workspace_id", "$1") + ` AND s.link_id IN (SELECT unnest($2::bigint[]))`
	groupPartsOfAreas = groupParts + ` AND k.area = ANY($5::bigint[])`

	groupDays = `
SELECT s.id, d.* FROM unnest($4::bigint[]) s (id)
CROSS JOIN LATERAL (
	SELECT day - date '1970-01-01', clicks, bot_clicks, quarters, breakdown, visitors FROM click_day
	WHERE link_id = s.id AND ` + ofDays + ` OFFSET 0) d
LIMIT $5`

	groupTotal = `
SELECT c.clicks, c.bot_clicks FROM unnest($2::bigint[]) s (id)
CROSS JOIN LATERAL (SELECT clicks, bot_clicks FROM link_click WHERE link_id = s.id AND ` + scoped.OfWorkspace("workspace_id", "$1") + ` OFFSET 0) c`
)

// days adds up the days [first, end), and at the first call all clicks to the total.
func (r *groupReader) days(ctx context.Context, first, end int32) (map[int32]*rollup.Day, error) {
	days := make(map[int32]*rollup.Day)
	of := func(n int32) *rollup.Day {
		if days[n] == nil {
			days[n] = &rollup.Day{}
		}
		return days[n]
	}
	var link, clicks, bots int64
	var n int32
	for step := range slices.Chunk(r.ids, groupStep) {
		counts := make(map[linkDay]rollup.Count)
		count := func(c rollup.Count) {
			c.Add(counts[linkDay{link, n}])
			counts[linkDay{link, n}] = c
		}
		areas := areasOf(step)
		slices.Sort(areas)
		sql, args := groupParts, []any{r.workspace, step, first, end}
		if areas = slices.Compact(areas); len(areas) <= areasLooked {
			sql, args = groupPartsOfAreas, append(args, areas)
		}
		var hour int
		var detail []byte
		rows, _ := r.tx.Query(ctx, sql, args...)
		if _, err := pgx.ForEachRow(rows, []any{&link, &n, &hour, &clicks, &bots, &detail}, func() error {
			c := countOf(clicks, bots)
			if !r.totalled {
				r.total.Add(c)
			}
			if n >= first && n < end {
				r.db.addPart(of(n), detail, c, hour)
				count(c)
			}
			return nil
		}); err != nil {
			return nil, err
		}

		if !r.totalled {
			rows, _ = r.tx.Query(ctx, groupTotal, r.workspace, step)
			if _, err := pgx.ForEachRow(rows, []any{&clicks, &bots}, func() error {
				r.total.Add(countOf(clicks, bots))
				return nil
			}); err != nil {
				return nil, err
			}
		}

		var limit *int
		if r.left >= 0 {
			limit = new(r.left + 1)
		}
		var s storedDay
		var d rollup.Day
		rows, _ = r.tx.Query(ctx, groupDays, r.workspace, first, end, step, limit)
		if _, err := pgx.ForEachRow(rows, []any{&link, &n, &s.clicks, &s.bots, &s.quarters, &s.breakdown, &s.visitors}, func() error {
			if r.left == 0 {
				return errLarge
			}
			r.left = max(r.left-1, -1)
			_ = s.unpack(&d) // the next roller reports a broken piece
			to := of(n)
			to.Quarters.Merge(&d.Quarters)
			to.Breakdown.Absorb(&d.Breakdown)
			to.Visitors.Merge(&d.Visitors)
			count(d.Total())
			return nil
		}); err != nil {
			return nil, err
		}
		for _, d := range days {
			d.Breakdown.Trim(namesInHand)
		}
		r.counted(counts)
	}
	for _, d := range days {
		d.Complete()
	}
	r.totalled = true
	return days, nil
}

// GroupClicks implements controlplane.StatsStore.
func (db *Store) GroupClicks(
	ctx context.Context, ws waypost.WorkspaceID, g controlplane.LinkGroup, s *controlplane.Span, n *controlplane.NameQuery, top int,
) (c controlplane.GroupCounted, err error) {
	as := scoped.TenantOf(ws).LookingUp()
	first, _ := s.Days()
	question := keptQuestion{Tags: slices.Sorted(slices.Values(g.Tags)), Domain: g.Domain, Creator: g.Creator}
	kept, err := question.ask(ctx, db.pool, ws, first)
	if err != nil {
		return c, err
	}
	var best []rollup.LinkCount
	links := make(map[int64]rollup.Count)
	err = db.pool.Transact(ctx, as, as.ReadOptions(), func(tx pgx.Tx) error {
		if kept != 0 {
			stored := &keptReader{db: db, tx: tx, workspace: ws, question: kept}
			best, err = stored.group(ctx, s, n, top, &c)
			return err
		}
		r, err := db.readGroup(ctx, tx, ws, &g, liveLinks)
		if err != nil {
			return err
		}
		r.left, r.counted = liveDays, func(step map[linkDay]rollup.Count) {
			for of, count := range step {
				count.Add(links[of.link])
				links[of.link] = count
			}
		}
		c.Counted, err = counted(s, n, func(first, end int32) (map[int32]*rollup.Day, error) { return r.days(ctx, first, end) })
		c.Links, c.Clicks, c.Bots = int64(len(r.ids)), int64(r.total.Clicks), int64(r.total.Bots)
		c.Top.Exact = true
		return err
	})
	if errors.Is(err, errLarge) {
		err = question.keep(ctx, db.pool, ws, first)
	}
	if err != nil {
		return controlplane.GroupCounted{}, scoped.Classify("count the clicks of a group of links", err)
	}
	if kept == 0 {
		known := make([]rollup.LinkCount, 0, len(links))
		for link, count := range links {
			known = append(known, rollup.LinkCount{Link: link, Count: count})
		}
		best, _ = rollup.Best(known, top, 0)
	}
	c.Top.Links, err = db.nameLinks(ctx, ws, best)
	return c, err
}
