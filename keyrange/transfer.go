package keyrange

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// pile is the planner's state of a live range. Its Hi sinks as pieces are cut off.
type pile struct {
	Range
	margin int64 // kept between Next and a cut
}

// steps plans the transfers and applies them to the supplies.
func steps(regions []*supply) (all []Step) {
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
	// Any band as wide as the tolerance that holds all groups would do; the middle one
	// leaves the most room for whole ranges.
	low := (shortest + longest/tolerance) / 2
	for _, g := range groups {
		if len(g) > 1 {
			all = append(all, share(g, low)...)
		}
	}
	return all
}

// party is a region that loses or gets counters.
type party struct {
	*supply
	target      int64 // counters that it is to have
	least, most int64 // bounds of the counters that it may have
}

// share plans the transfers within a group: the party with the largest surplus transfers
// to the one with the largest deficit, until one of them reaches its target. So each
// transfer settles a party, and the last one two.
func share(group []*supply, low float64) (all []Step) {
	parties := targets(group, low)
	var givers, takers []*party
	for _, p := range parties {
		switch {
		case p.unissued > p.target:
			p.setMargins()
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

// targets divides the counters of a group by weight, to the last counter.
func targets(group []*supply, low float64) []*party {
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
		p.least = max(reserve, int64(math.Ceil(s.weight*low)))
		p.most = int64(s.weight * low * tolerance)
		if s.rate == 0 {
			p.most = min(p.most, s.unissued) // idle: it gets nothing
		}
		left -= p.target
		parties[i] = p
	}
	for i, p := range parties { // the remainder of rounding
		more := left / int64(len(parties)-i)
		p.target += more
		left -= more
	}
	return parties
}

// setMargins sets the margins of the ranges that are cut: a tenth of the
// region's rest, so that a plan still applies after more counters have been leased. The
// sum of the margins is at most the region's rest, so that something can be cut.
func (p *party) setMargins() {
	margin := max(reserve, p.target/10)
	for i := range p.ranges {
		p.ranges[i].margin = max(1, min(margin, p.ranges[i].Remainder()/10, p.least/int64(len(p.ranges))))
	}
}

// give cuts need counters off the ranges, in as few pieces as possible. It cuts up to
// less fewer or more additional counters when that makes a whole range.
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

// choose returns the range of the next piece and where to cut it, 0 for the whole range.
// The range is -1 when none fits.
func (s *supply) choose(need, less, more int64) (at int64, index int) {
	whole, cut, large, largest := -1, -1, -1, -1
	for i, r := range s.ranges {
		n := r.Remainder()
		if n == 0 {
			continue
		}
		// The whole range closest to the need.
		if n >= need-less && n <= need+more && (whole < 0 || abs(n-need) < abs(s.ranges[whole].Remainder()-need)) {
			whole = i
		}
		// The smallest range that can be cut.
		if n-r.margin >= need && (cut < 0 || n < s.ranges[cut].Remainder()) {
			cut = i
		}
		// The largest range that is not enough alone.
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

// exactRegions bounds the regions for which the fewest transfers are searched. The work
// grows with more than 3^n.
const exactRegions = 12

// rounding bounds the error of sums of floating point numbers.
const rounding = 1 + 1e-9

// partition divides the regions into as many groups as possible such that all last
// equally long, within the tolerance, once each group has shared its counters. Sharing
// takes one transfer less than the group has members. No set of transfers can do better,
// because the regions that transfers connect are such groups. Very many regions are one
// group.
func partition(regions []*supply) [][]*supply {
	all := timeOf(regions)
	if len(regions) > exactRegions {
		return [][]*supply{regions}
	}
	times := lotTimes(regions)
	atMost := len(mostGroups(times, all/tolerance, all*tolerance))
	// A partition is allowed if all its groups last within the tolerance of the shortest
	// one. So every group is tried as the shortest.
	shortest := []float64{}
	for _, t := range times[1:] {
		if t >= all/tolerance/rounding && t <= all*rounding {
			shortest = append(shortest, t)
		}
	}
	slices.Sort(shortest)
	var best []uint
	for _, low := range slices.Compact(shortest) {
		if groups := mostGroups(times, low, low*tolerance); len(groups) > len(best) {
			best = groups
		}
		if len(best) == atMost {
			break
		}
	}
	return pick(regions, best)
}

// mostGroups divides all regions into as many groups as possible that last low to high.
// Times holds the time of each set of regions. Groups and sets are bits of regions. The
// result is nil when there is no such division.
func mostGroups(times []float64, low, high float64) []uint {
	allowed := make([]bool, len(times))
	for set, t := range times {
		allowed[set] = within(t, low, high)
	}
	count := make([]int8, len(times)) // groups in a set, -1: it cannot be divided
	group := make([]uint, len(times)) // one of them
	for set := uint(1); set < uint(len(times)); set++ {
		count[set] = -1
		first := set & -set // belongs to one of the groups: try all
		others := set ^ first
		for some := others; ; some = (some - 1) & others {
			if g := some | first; allowed[g] && count[set^g] >= max(0, count[set]) {
				count[set], group[set] = count[set^g]+1, g
			}
			if some == 0 {
				break
			}
		}
	}
	var groups []uint
	if rest := uint(len(times) - 1); count[rest] > 0 {
		for ; rest != 0; rest ^= group[rest] {
			groups = append(groups, group[rest])
		}
	}
	return groups
}

func within(t, low, high float64) bool { return t >= low/rounding && t <= high*rounding }

// lot is a set of regions that share their counters.
type lot struct {
	unissued, weight float64
	idle             float64 // time of the idle region that is exhausted first
}

func (l lot) with(s *supply) lot {
	l.unissued += float64(s.unissued)
	l.weight += s.weight
	if s.rate == 0 {
		l.idle = min(l.idle, s.lasts())
	}
	return l
}

// lasts returns the time of the set, or -1 when its regions should not share, because an
// idle one would get counters.
func (l lot) lasts() float64 {
	t := l.unissued / l.weight
	if t > l.idle*rounding {
		return -1
	}
	return t
}

var noRegion = lot{idle: math.Inf(1)}

// lotTimes returns the time of every set of regions, and -1 for the empty set.
func lotTimes(regions []*supply) []float64 {
	lots := make([]lot, 1<<len(regions))
	times := make([]float64, len(lots))
	lots[0], times[0] = noRegion, -1
	for set := 1; set < len(lots); set++ {
		last := bits.Len(uint(set)) - 1
		lots[set] = lots[set^1<<last].with(regions[last])
		times[set] = lots[set].lasts()
	}
	return times
}

// timeOf returns the time of one set.
func timeOf(regions []*supply) float64 {
	all := noRegion
	for _, s := range regions {
		all = all.with(s)
	}
	return all.lasts()
}

func pick(regions []*supply, groups []uint) (picked [][]*supply) {
	for _, g := range groups {
		var members []*supply
		for ; g != 0; g &= g - 1 {
			members = append(members, regions[bits.TrailingZeros(g)])
		}
		picked = append(picked, members)
	}
	return picked
}
