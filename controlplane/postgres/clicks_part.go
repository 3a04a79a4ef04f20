package postgres

import (
	"cmp"
	"math"
	"slices"
	"time"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/controlplane/rollup"
)

const (
	// A click's own time is believed within these bounds around its receipt.
	maxClickAhead = 5 * time.Minute
	maxClickAge   = 30 * 24 * time.Hour

	// maxClicksOfLink bounds what one batch may say of one link: nobody clicks that
	// often, and a wrong number must not poison the counter.
	maxClicksOfLink = 1 << 32

	// maxPartBytes bounds what a batch becomes: each part has the profiles of its own rows, so that few
	// bytes of a batch can become very many. The most rows with the longest referrers that an edge sends stay below.
	maxPartBytes = 16 * clickbatch.MaxBytes

	quartersOfDay = rollup.Quarters
)

// clickParts are parallel arrays, in the order of workspace, link and day, and what they add
// up to.
type clickParts struct {
	workspaces, links []int64
	days              []time.Time
	clicks, bots      []int64
	lasts             []time.Time
	details           [][]byte

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
	now      time.Time
	out      *clickParts
	rows     []quarterCount // of a link, used again
	profiles []uint32       // of a part, in order, used again
	part     rollup.Delta
	packed   []byte // details, one behind the other
}

// partsOf judges a batch and packs it. EInvalid: it cannot be counted.
func partsOf(b *waypost.ClickBatch, targets []target, now time.Time) (*clickParts, error) {
	order := make([]int, len(targets))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(targets[i].workspace, targets[j].workspace), cmp.Compare(targets[i].link, targets[j].link))
	})
	n := len(order)
	m := &partMaker{batch: b, now: now, out: &clickParts{
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
		if m.split(&b.Links[i], targets[i]); m.out.bytes > maxPartBytes {
			return nil, waypost.Errorf(waypost.EInvalid, "the batch says more of its clicks than can be kept: over %d bytes when it is taken apart", maxPartBytes)
		}
	}
	return m.out, nil
}

// believed gives a click's own time, or now when that cannot be.
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

// split makes a part of each day that a link's rows are of.
func (m *partMaker) split(l *waypost.LinkClicks, t target) {
	for rows := m.rows; len(rows) > 0; {
		day := rows[0].quarter / quartersOfDay
		n := 1
		for n < len(rows) && rows[n].quarter/quartersOfDay == day {
			n++
		}
		m.add(l, t, day, rows[:n], n == len(rows))
		rows = rows[n:]
	}
}

func (m *partMaker) add(l *waypost.LinkClicks, t target, day int64, rows []quarterCount, lastDay bool) {
	m.profiles = m.profiles[:0]
	for _, r := range rows {
		m.profiles = append(m.profiles, r.profile)
	}
	slices.Sort(m.profiles)
	m.profiles = slices.Compact(m.profiles)

	p := &m.part
	p.Profiles, p.Rows, p.Visitors = p.Profiles[:0], p.Rows[:0], p.Visitors[:0]
	for _, profile := range m.profiles {
		p.Profiles = append(p.Profiles, m.batch.Profiles[profile])
	}
	for _, r := range rows {
		profile, _ := slices.BinarySearch(m.profiles, r.profile)
		p.Rows = append(p.Rows, rollup.Row{Quarter: uint8(r.quarter % quartersOfDay), Profile: uint32(profile), Clicks: r.clicks})
	}
	m.visit(l, day, lastDay)
	total := p.Total()
	o := m.out
	o.workspaces, o.links, o.days = append(o.workspaces, t.workspace), append(o.links, t.link), append(o.days, midnight(int32(day)))
	o.clicks, o.bots = append(o.clicks, int64(total.Clicks)), append(o.bots, int64(total.Bots))
	o.lasts = append(o.lasts, m.last(l, day, rows[len(rows)-1].quarter))
	begin := len(m.packed)
	m.packed = p.Append(m.packed)
	o.details, o.bytes = append(o.details, m.packed[begin:len(m.packed):len(m.packed)]), len(m.packed)
}

// visit gives a part its visitors: those of its day. Who came on a day without clicks
// came with clicks whose time was not believed, on the link's last day.
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

// last gives the time of the newest click of a day, as exactly as the batch tells it.
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
