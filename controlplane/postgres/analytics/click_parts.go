package analytics

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/controlplane/postgres/scoped"
	"waypost/controlplane/rollup"
)

const (
	// A click's own time is believed within these bounds around its receipt.
	maxClickAhead = 5 * time.Minute
	maxClickAge   = 30 * 24 * time.Hour

	// maxClicksOfLink bounds the clicks of one link in one batch: no link is followed that
	// often, and a wrong number must not poison the counter.
	maxClicksOfLink = 1 << 32

	// maxPartBytes bounds the parts of a batch: each part repeats the profiles of its
	// rows, so that a small batch can grow very large. The most rows with the longest
	// referrers and utm parameters that an edge sends stay below.
	maxPartBytes = 24 * clickbatch.MaxBytes

	quartersOfDay = rollup.Quarters
)

// clickParts holds parallel arrays, in the order of workspace, link and day, and their
// sums.
type clickParts struct {
	workspaces, links []int64
	days              []time.Time
	clicks, bots      []int64
	lasts             []time.Time
	details           [][]byte

	sums dayColumns // of workspaces, whose ids are the keys

	known, unknown uint64 // clicks
	redated        uint64 // of these, counted now because their time cannot be
	bytes          int    // of details
}

// quarterCount is clicks alike in a quarter of an hour.
type quarterCount struct {
	quarter int64 // since 1970
	profile uint32
	clicks  uint64
}

// partMaker makes parts of the links of one batch.
type partMaker struct {
	batch    *waypost.ClickBatch
	utm      map[int64]bool // workspaces that count utm parameters
	now      time.Time
	out      *clickParts
	rows     []quarterCount // of a link, used again
	profiles []uint32       // of a part, in order, used again
	part     rollup.Delta
	packed   []byte // details, one behind the other

	alias     uint8 // of the address of the part
	workspace int64 // of the parts since the last call of sumUp
	sums      map[int64]*daySum
}

// daySum is the clicks of a workspace on a day.
type daySum struct {
	counts   map[quarterCount]uint64 // of keys whose clicks are zero
	visitors rollup.Visitors
}

// partsOf judges a batch and packs it, with the utm parameters of workspaces that count
// them. It fails with EInvalid if the batch cannot be counted.
func partsOf(b *waypost.ClickBatch, targets []target, utm map[int64]bool, now time.Time) (*clickParts, error) {
	order := make([]int, len(targets))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(targets[i].workspace, targets[j].workspace), cmp.Compare(targets[i].link, targets[j].link))
	})
	n := len(order)
	m := &partMaker{batch: b, utm: utm, now: now, sums: make(map[int64]*daySum), out: &clickParts{
		workspaces: make([]int64, 0, n), links: make([]int64, 0, n), days: make([]time.Time, 0, n),
		clicks: make([]int64, 0, n), bots: make([]int64, 0, n), lasts: make([]time.Time, 0, n), details: make([][]byte, 0, n),
	}}
	left := uint64(math.MaxInt64)
	for _, i := range order {
		clicks, _ := b.Clicks(&b.Links[i])
		if clicks == 0 || clicks > maxClicksOfLink || clicks > left {
			return nil, waypost.Errorf(waypost.EInvalid, "the batch has a count that is zero or beyond all bounds")
		}
		left -= clicks
		m.gather(&b.Links[i])
		if targets[i].link == 0 {
			m.out.unknown += clicks
			continue
		}
		m.out.known += clicks
		if targets[i].workspace != m.workspace {
			m.sumUp()
			m.workspace = targets[i].workspace
		}
		if m.split(&b.Links[i], targets[i]); m.out.bytes > maxPartBytes {
			return nil, waypost.Errorf(waypost.EInvalid, "the batch says more of its clicks than can be kept: over %d bytes when it is taken apart", maxPartBytes)
		}
	}
	m.sumUp()
	return m.out, nil
}

// sumUp packs the sums of the workspace, and clears them for the next workspace.
func (m *partMaker) sumUp() {
	m.alias = 0 // numbers of different links mean nothing together
	for _, day := range slices.Sorted(maps.Keys(m.sums)) {
		sum := m.sums[day]
		d := rollup.Day{Visitors: sum.visitors}
		byProfile := make(map[uint32]rollup.Count)
		for k, clicks := range sum.counts {
			c := rollup.Count{Clicks: clicks}
			if m.batch.Profiles[k.profile].Bot {
				c.Bots = clicks
			}
			d.Quarters[k.quarter%quartersOfDay].Add(c)
			all := byProfile[k.profile]
			all.Add(c)
			byProfile[k.profile] = all
		}
		for profile, c := range byProfile {
			p := m.profile(profile)
			d.Breakdown.Add(&p, c)
		}
		m.out.sums.addDay(m.workspace, midnight(int32(day)), pgtype.TID{}, &d)
	}
	clear(m.sums)
}

// profile returns a profile of the batch as the workspace wants it.
func (m *partMaker) profile(n uint32) waypost.ClickProfile {
	p := m.batch.Profiles[n]
	p.Alias = m.alias
	if !m.utm[m.workspace] {
		p.UTM = ""
	}
	return p
}

// utmOf returns the workspaces that count utm parameters. Edges only know the setting per
// domain, which may have links of several workspaces, and see changes with a delay, so
// the control plane filters again.
func (db *Store) utmOf(ctx context.Context, b *waypost.ClickBatch, targets []target) (map[int64]bool, error) {
	if !slices.ContainsFunc(b.Profiles, func(p waypost.ClickProfile) bool { return p.UTM != "" }) {
		return nil, nil
	}
	count := make(map[int64]bool)
	var id int64
	err := db.pool.QueryIn(ctx, scoped.Ingest, `SELECT t.id FROM unnest($1::bigint[]) AS t (id) WHERE `+scoped.CountsUTM("t.id"), []any{workspacesOf(targets)},
		scoped.ForEach([]any{&id}, func() error { count[id] = true; return nil }))
	return count, scoped.Classify("read who counts utm parameters", err)
}

// believed returns a click's own time, or now if that time is impossible.
func believed(at int64, now time.Time) (_ int64, redated bool) {
	if at > now.Add(maxClickAhead).UnixMilli() || at < now.Add(-maxClickAge).UnixMilli() {
		return now.UnixMilli(), true
	}
	return at, false
}

// gather adds a link's rows up by quarter and profile, in order.
func (m *partMaker) gather(l *waypost.LinkClicks) {
	m.rows = m.rows[:0]
	for _, r := range l.Rows {
		at, redated := believed(r.At, m.now)
		if redated {
			m.out.redated += r.Count
		}
		if r.Count > 0 {
			m.rows = append(m.rows, quarterCount{quarter: waypost.Quarter(at) / waypost.QuarterHour, profile: r.Profile, clicks: r.Count})
		}
	}
	slices.SortFunc(m.rows, func(x, y quarterCount) int {
		return cmp.Or(cmp.Compare(x.quarter, y.quarter), cmp.Compare(x.profile, y.profile))
	})
	sums := m.rows[:0]
	for _, r := range m.rows {
		if n := len(sums); n > 0 && sums[n-1].quarter == r.quarter && sums[n-1].profile == r.profile {
			sums[n-1].clicks += r.clicks
			continue
		}
		sums = append(sums, r)
	}
	m.rows = sums
}

// split makes a part for each day of a link's rows.
func (m *partMaker) split(l *waypost.LinkClicks, t target) {
	for rows := m.rows; len(rows) > 0; {
		day := rows[0].quarter / quartersOfDay
		n := 1
		for n < len(rows) && rows[n].quarter/quartersOfDay == day {
			n++
		}
		m.addPart(l, t, day, rows[:n], n == len(rows))
		rows = rows[n:]
	}
}

func (m *partMaker) addPart(l *waypost.LinkClicks, t target, day int64, rows []quarterCount, lastDay bool) {
	m.alias, m.profiles = t.alias, m.profiles[:0]
	for _, r := range rows {
		m.profiles = append(m.profiles, r.profile)
	}
	slices.Sort(m.profiles)
	m.profiles = slices.Compact(m.profiles)

	p := &m.part
	p.Profiles, p.Rows, p.Visitors = p.Profiles[:0], p.Rows[:0], p.Visitors[:0]
	for _, profile := range m.profiles {
		p.Profiles = append(p.Profiles, m.profile(profile))
	}
	sum := m.sums[day]
	if sum == nil {
		sum = &daySum{counts: make(map[quarterCount]uint64)}
		m.sums[day] = sum
	}
	for _, r := range rows {
		sum.counts[quarterCount{quarter: r.quarter, profile: r.profile}] += r.clicks
		profile, _ := slices.BinarySearch(m.profiles, r.profile)
		p.Rows = append(p.Rows, rollup.Row{Quarter: uint8(r.quarter % quartersOfDay), Profile: uint32(profile), Clicks: r.clicks})
	}
	m.visit(l, day, lastDay)
	for _, v := range p.Visitors {
		sum.visitors.Add(v.Hash, v.Bot)
	}
	total := p.Total()
	o := m.out
	o.workspaces, o.links, o.days = append(o.workspaces, t.workspace), append(o.links, t.link), append(o.days, midnight(int32(day)))
	o.clicks, o.bots = append(o.clicks, int64(total.Clicks)), append(o.bots, int64(total.Bots))
	o.lasts = append(o.lasts, m.last(l, day, rows[len(rows)-1].quarter))
	begin := len(m.packed)
	m.packed = p.Append(m.packed)
	o.details, o.bytes = append(o.details, m.packed[begin:len(m.packed):len(m.packed)]), len(m.packed)
}

// visit adds the visitors of its day to a part. Visitors of a day without clicks made
// clicks with an impossible time; they count on the link's last day.
func (m *partMaker) visit(l *waypost.LinkClicks, day int64, lastDay bool) {
	for _, v := range l.Visitors {
		mine := int64(v.Day) == day
		if lastDay && !mine {
			_, clicked := slices.BinarySearchFunc(m.rows, int64(v.Day), func(r quarterCount, day int64) int {
				return cmp.Compare(r.quarter/quartersOfDay, day)
			})
			mine = !clicked
		}
		if mine {
			m.part.Visitors = append(m.part.Visitors, rollup.Visitor{Hash: v.Hash, Bot: v.Bot})
		}
	}
	slices.SortFunc(m.part.Visitors, rollup.Visitor.Compare)
	m.part.Visitors = slices.Compact(m.part.Visitors)
}

// last returns the time of the newest click of a day, as exactly as the batch has it.
func (m *partMaker) last(l *waypost.LinkClicks, day, quarter int64) time.Time {
	newest := quarter * waypost.QuarterHour
	see := func(at int64) {
		at, _ = believed(at, m.now)
		if waypost.Quarter(at)/waypost.QuarterHour/quartersOfDay == day {
			newest = max(newest, at)
		}
	}
	see(l.Last)
	for _, r := range l.Rows {
		see(r.At)
	}
	return time.UnixMilli(newest)
}

// pack is a row of click_pack: parallel arrays of parts.
type pack struct {
	links, clicks, bots []int64
	days, newest        []time.Time
	details             [][]byte
}

const (
	secondsOfDay = 24 * 60 * 60

	// The ids of links of one area differ only in their low bits: in smallestArea bits at
	// least, and in largestArea bits at most. An area has areaStep bits more than the
	// areas in it. See click_areas.
	smallestArea, largestArea, areaStep = 8, 16, 2

	// A row of packBytes fits a page of PostgreSQL. Each part takes partBytes besides its
	// detail.
	packBytes, partBytes = 7_900, 5*8 + 4 + 4
)

// areaOf returns the area of 2^bits links that a link is in.
func areaOf(link int64, bits uint) int64 { return link>>bits<<bits | int64(bits) }

// areasOf returns all areas that links are in.
func areasOf(links []int64) []int64 {
	var areas []int64
	for bits := uint(smallestArea); bits <= largestArea; bits += areaStep {
		for _, link := range links {
			areas = append(areas, areaOf(link, bits))
		}
	}
	return areas
}

// queue adds the parts as rows.
func (p *clickParts) queue(q *pgx.Batch, node string, boot [16]byte, seq int64) {
	p.cut(0, len(p.links), largestArea+areaStep, func(area int64, from, to int) {
		q.Queue(addPack, node, boot, seq, p.workspaces[from], area, p.links[from:to], p.days[from:to],
			p.clicks[from:to], p.bots[from:to], p.lasts[from:to], p.details[from:to])
	})
	if s := &p.sums; len(s.keys) > 0 {
		q.Queue(addWorkspaceParts, node, boot, seq, s.keys, s.days, s.clicks, s.bots, s.quarters, s.breakdowns, s.visitors)
	}
}

// cut calls row for the rows that the parts [from, to) become. The parts are of one area
// of 2^bits links, unless bits is above the largest area. They become one row if that
// fits a page, otherwise rows of smaller areas, and in the smallest area as many rows as
// needed.
func (p *clickParts) cut(from, to int, bits uint, row func(area int64, from, to int)) {
	for from < to {
		end, size := from, 0
		for end < to && bits <= largestArea && size <= packBytes {
			size += partBytes + len(p.details[end])
			end++
		}
		switch {
		case bits <= largestArea && size <= packBytes:
			row(areaOf(p.links[from], bits), from, end)
		case bits == smallestArea:
			end = max(end-1, from+1)
			row(areaOf(p.links[from], bits), from, end)
		default:
			end = from + 1
			for end < to && p.workspaces[end] == p.workspaces[from] && p.links[end]>>(bits-areaStep) == p.links[from]>>(bits-areaStep) {
				end++
			}
			p.cut(from, end, bits-areaStep, row)
		}
		from = end
	}
}

// takePartsOf removes the parts of a link and returns them. The caller keeps rollers off
// the link's area.
var takePartsOf = `
WITH rest AS MATERIALIZED (
	SELECT p.ctid AS place, array_agg(s.link ORDER BY s.n) FILTER (WHERE s.link <> $2) AS links,
	       array_agg(s.day ORDER BY s.n) FILTER (WHERE s.link <> $2) AS days,
	       array_agg(s.clicks ORDER BY s.n) FILTER (WHERE s.link <> $2) AS clicks,
	       array_agg(s.bots ORDER BY s.n) FILTER (WHERE s.link <> $2) AS bot_clicks,
	       array_agg(s.at ORDER BY s.n) FILTER (WHERE s.link <> $2) AS newest,
	       array_agg(s.detail ORDER BY s.n) FILTER (WHERE s.link <> $2) AS details
	FROM click_pack p
	CROSS JOIN LATERAL unnest(p.links, p.days, p.clicks, p.bot_clicks, p.newest, p.details) WITH ORDINALITY
		AS s (link, day, clicks, bots, at, detail, n)
	WHERE ` + scoped.OfWorkspace("p.workspace_id", "$1") + ` AND p.area = ANY ($3::bigint[]) AND $2::bigint = ANY (p.links)
	GROUP BY p.ctid),
emptied AS (DELETE FROM click_pack p USING rest r WHERE p.ctid = r.place AND r.links IS NULL),
kept AS (
	UPDATE click_pack p SET links = r.links, days = r.days, clicks = r.clicks, bot_clicks = r.bot_clicks, newest = r.newest,
		details = r.details
	FROM rest r WHERE p.ctid = r.place AND r.links IS NOT NULL)
SELECT s.day - date '1970-01-01', extract(hour FROM s.at AT TIME ZONE 'UTC')::integer, s.clicks, s.bots, s.detail
FROM click_pack p
CROSS JOIN LATERAL unnest(p.links, p.days, p.clicks, p.bot_clicks, p.newest, p.details) AS s (link, day, clicks, bots, at, detail)
WHERE ` + scoped.OfWorkspace("p.workspace_id", "$1") + ` AND p.area = ANY ($3::bigint[]) AND s.link = $2`
