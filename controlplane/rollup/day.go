package rollup

// Day is what is known of the clicks of a day (UTC), of a link or of many. The zero
// value is a day without any.
type Day struct {
	Quarters  [Quarters]Count
	Breakdown Breakdown
	Visitors  Visitors
}

// Fold adds a part.
func (d *Day) Fold(p *Part) {
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
	for q := range d.Quarters {
		d.Quarters[q].Add(o.Quarters[q])
	}
	d.Breakdown.Merge(&o.Breakdown)
	d.Visitors.Merge(&o.Visitors)
}

// Total is the clicks of all quarters.
func (d *Day) Total() Count {
	var sum Count
	for _, c := range d.Quarters {
		sum.Add(c)
	}
	return sum
}

// Complete puts clicks that a breakdown does not have, because it could not be read, among
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
