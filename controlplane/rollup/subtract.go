package rollup

import (
	"cmp"
	"slices"
)

// minus takes o away, and leaves nothing where there is less. What is left of bots is
// within what is left of all.
func (c Count) minus(o Count) Count {
	d := Count{Clicks: c.Clicks - min(c.Clicks, o.Clicks), Bots: c.Bots - min(c.Bots, o.Bots)}
	d.Bots = min(d.Bots, d.Clicks)
	return d
}

// Subtract takes away what o has, of which everything was added before. In every
// dimension the sum falls by that of o: clicks of a name that is not kept here are taken
// from the others, and others of o that are more than those here, because each has
// named another thousand, from the names with the fewest clicks.
func (b *Breakdown) Subtract(o *Breakdown) {
	for d := range dimensions {
		rest := o.other[d]
		for _, n := range o.names[d].list {
			have := b.names[d].get(n.Name)
			rest.Add(n.minus(have))
			b.names[d].keep(n.Name, have.minus(n.Count))
		}
		have := b.other[d]
		b.other[d] = have.minus(rest)
		b.takeFewest(d, rest.minus(have))
	}
}

// takeFewest takes clicks from the names that have the fewest.
func (b *Breakdown) takeFewest(d Dimension, rest Count) {
	if rest.Clicks == 0 {
		return
	}
	names := slices.Clone(b.names[d].list)
	slices.SortFunc(names, func(x, y Named) int {
		return cmp.Or(cmp.Compare(x.Clicks, y.Clicks), cmp.Compare(x.Name, y.Name))
	})
	for _, n := range names {
		if rest.Clicks == 0 {
			return
		}
		b.names[d].keep(n.Name, n.minus(rest))
		rest = rest.minus(n.Count)
	}
}

// Trim keeps the names with the most clicks, that many at most in a dimension, and
// makes others of the rest.
func (b *Breakdown) Trim(most int) {
	for d := range dimensions {
		if len(b.names[d].list) <= most {
			continue
		}
		for _, n := range b.names[d].most()[most:] {
			b.names[d].keep(n.Name, Count{})
			b.other[d].Add(n.Count)
		}
	}
}
