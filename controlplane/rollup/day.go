package rollup

// MaxCount is the highest count: sums saturate at it. Twice MaxCount still fits a bigint
// of PostgreSQL.
const MaxCount = 1 << 61

// Count is a number of clicks and, of these, of bots.
type Count struct{ Clicks, Bots uint64 }

// Add adds o.
func (c *Count) Add(o Count) {
	c.Clicks, c.Bots = plus(c.Clicks, o.Clicks), plus(c.Bots, o.Bots)
}

// plus adds two numbers, each MaxCount at most.
func plus(a, b uint64) uint64 { return min(min(a, MaxCount)+min(b, MaxCount), MaxCount) }

// sound reports whether c can be the count of a name or quarter.
func (c Count) sound() bool {
	return c.Clicks >= 1 && c.Clicks <= MaxCount && c.Bots <= c.Clicks
}

// Day holds the clicks of a day (UTC), of one link or of many. The zero value is a day
// without clicks.
type Day struct {
	Quarters  QuarterCounts
	Breakdown Breakdown
	Visitors  Visitors
}

// Fold adds a delta.
func (d *Day) Fold(p *Delta) {
	for _, row := range p.Rows {
		c := p.count(row)
		d.Quarters[row.Quarter].Add(c)
		d.Breakdown.Add(&p.Profiles[row.Profile], c)
	}
	for _, v := range p.Visitors {
		d.Visitors.Add(v.Hash, v.Bot)
	}
}

// Merge adds another day's clicks, or another link's of the same day.
func (d *Day) Merge(o *Day) {
	d.Quarters.Merge(&o.Quarters)
	d.Breakdown.Merge(&o.Breakdown)
	d.Visitors.Merge(&o.Visitors)
}

// Total is the clicks of all quarters.
func (d *Day) Total() Count { return d.Quarters.Total() }

// Complete adds clicks that are missing in a breakdown, because it could not be read, to
// the others, so that every dimension adds up to the quarters.
func (d *Day) Complete() {
	total := d.Total()
	for dim := range dimensions {
		have := d.Breakdown.Total(dim)
		if have.Clicks < total.Clicks {
			missing := Count{Clicks: total.Clicks - have.Clicks}
			missing.Bots = min(missing.Clicks, total.Bots-min(total.Bots, have.Bots))
			d.Breakdown.other[dim].Add(missing)
		}
	}
}
