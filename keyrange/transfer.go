package keyrange

import (
	"cmp"
	"math"
	"slices"
)

// pile is a live range in the course of planning. Its Hi sinks as pieces are cut off.
type pile struct {
	Range
	margin int64 // kept between Next and a cut
}

// steps plans the transfers and does them on the supplies.
func steps(regions []*supply, opts Options) (all []Step) {
	var sharing []*supply
	for _, s := range regions {
		if s.weight > 0 {
			sharing = append(sharing, s)
		}
	}
	groups := partition(sharing)
	shortest, longest := math.Inf(1), 0.0
	for _, g := range groups {
		shortest, longest = min(shortest, timeOf(g)), max(longest, timeOf(g))
	}
	// Any band as wide as the tolerance that holds all groups would do; in the middle
	// one there is most room for taking ranges whole.
	low := (shortest + longest/tolerance) / 2
	for _, g := range groups {
		if len(g) > 1 {
			all = append(all, share(g, low, opts)...)
		}
	}
	return all
}

// party is a region that gives or takes.
type party struct {
	*supply
	target      int64 // what it is to have in the end
	least, most int64 // what it may have instead
}

// share plans the transfers within a group: the one who has most too much gives to
// the one who lacks most, until the first has no more than it should have, or the
// second no less. So each transfer settles a party, and the last one two.
func share(group []*supply, low float64, opts Options) (all []Step) {
	parties := targets(group, low, opts)
	var givers, takers []*party
	for _, p := range parties {
		switch {
		case p.unissued > p.target:
			p.setMargins(opts)
			givers = append(givers, p)
		case p.unissued < p.target:
			takers = append(takers, p)
		}
	}
	slices.SortStableFunc(givers, func(a, b *party) int { return cmp.Compare(b.unissued-b.target, a.unissued-a.target) })
	slices.SortStableFunc(takers, func(a, b *party) int { return cmp.Compare(b.target-b.unissued, a.target-a.unissued) })
	for len(givers) > 0 && len(takers) > 0 {
		from, to := givers[0], takers[0]
		need := min(from.unissued-from.target, to.target-to.unissued)
		less := max(0, min(from.most-from.target, to.target-to.least))
		more := max(0, min(from.target-from.least, to.most-to.target))
		pieces := from.give(need, less, more)
		var given int64
		for _, step := range pieces {
			step.From, step.To = from.region, to.region
			all = append(all, step)
			given += step.Counters
		}
		from.unissued -= given
		to.unissued += given
		from.target -= given - need
		to.target += given - need
		if from.unissued <= from.target {
			givers = givers[1:]
		}
		if to.unissued >= to.target {
			takers = takers[1:]
		}
	}
	return all
}

// targets divides what the group has by weight, to the last counter.
func targets(group []*supply, low float64, opts Options) []*party {
	var all int64
	var weight float64
	for _, s := range group {
		all += s.unissued
		weight += s.weight
	}
	parties := make([]*party, len(group))
	left := all
	for i, s := range group {
		p := &party{supply: s}
		p.target = min(left, int64(float64(all)*(s.weight/weight)))
		p.least = max(opts.Reserve, int64(math.Ceil(s.weight*low)))
		p.most = int64(s.weight * low * tolerance)
		if s.rate == 0 {
			p.most = min(p.most, s.unissued) // idle: it is given nothing
		}
		left -= p.target
		parties[i] = p
	}
	for i, p := range parties { // what rounding has left
		more := left / int64(len(parties)-i)
		p.target += more
		left -= more
	}
	return parties
}

// setMargins sets what is kept of the ranges that are cut. Together the margins are
// no more than what the region keeps, or there could be nothing left to cut.
func (p *party) setMargins(opts Options) {
	margin := opts.Margin
	if margin == 0 {
		margin = max(opts.Reserve, p.target/10)
	}
	for i := range p.ranges {
		p.ranges[i].margin = max(1, min(margin, p.ranges[i].Remainder()/10, p.least/int64(len(p.ranges))))
	}
}

// give cuts need counters off the ranges, in as few pieces as possible, or up to so
// much less or more when a whole range can be had for it.
func (s *supply) give(need, less, more int64) (pieces []Step) {
	for need > 0 {
		at, i := s.choose(need, less, more)
		if i < 0 {
			return pieces
		}
		r := &s.ranges[i]
		step := Step{Range: r.ID, Prefix: r.Prefix, At: at, Hi: r.Hi}
		if at == 0 {
			at = r.Next
		}
		step.Counters = r.Hi - at
		r.Hi = at
		pieces = append(pieces, step)
		if need -= step.Counters; need <= less {
			return pieces
		}
	}
	return pieces
}

// choose picks the next piece: the range and where to cut it, 0 for not at all. The
// range is -1 when nothing fits.
func (s *supply) choose(need, less, more int64) (at int64, index int) {
	whole, cut, large, largest := -1, -1, -1, -1
	for i, r := range s.ranges {
		n := r.Remainder()
		if n == 0 {
			continue
		}
		// The whole range that comes closest to the need.
		if n >= need-less && n <= need+more && (whole < 0 || abs(n-need) < abs(s.ranges[whole].Remainder()-need)) {
			whole = i
		}
		// The smallest range that can be cut.
		if n-r.margin >= need && (cut < 0 || n < s.ranges[cut].Remainder()) {
			cut = i
		}
		// The largest range that is not enough by itself.
		if n < need && (large < 0 || n > s.ranges[large].Remainder()) {
			large = i
		}
		// The largest piece that can be cut off, when all are a little too large to be
		// taken whole, and too small to be cut where they should be.
		if n > r.margin && (largest < 0 || n-r.margin > s.ranges[largest].Remainder()-s.ranges[largest].margin) {
			largest = i
		}
	}
	switch {
	case whole >= 0:
		return 0, whole
	case cut >= 0:
		return s.ranges[cut].Hi - need, cut
	case large >= 0:
		return 0, large
	case largest >= 0:
		return s.ranges[largest].Next + s.ranges[largest].margin, largest
	default:
		return 0, -1
	}
}

func abs(n int64) int64 { return max(n, -n) }
