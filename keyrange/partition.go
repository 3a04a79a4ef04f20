package keyrange

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// exactRegions is up to how many regions the fewest transfers are searched for. The
// work grows with the third power of two, and worse.
const exactRegions = 12

// rounding is what sums of floating point numbers may differ by.
const rounding = 1 + 1e-9

// partition parts the regions into as many groups as possible such that all last
// equally long, within the tolerance, once each group has shared among itself what
// it has. Sharing takes one transfer less than the group has members, and no set
// of transfers can do better: the regions that it connects are such groups.
func partition(regions []*supply) [][]*supply {
	all := timeOf(regions)
	if len(regions) > exactRegions {
		return partitionMany(regions, all)
	}
	times := lotTimes(regions)
	atMost := len(mostGroups(times, all/tolerance, all*tolerance))
	// A partition is allowed whatever group of it lasts shortest, if the others last no
	// longer than the tolerance. So every group is tried as the shortest.
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

// partitionMany is partition for many regions: who is within the tolerance already
// stays alone, and the others are parted as well as can be or share with one another.
func partitionMany(regions []*supply, all float64) (best [][]*supply) {
	best = [][]*supply{regions}
	candidates := []float64{all}
	for _, s := range regions {
		if t := s.lasts(); t >= all/tolerance/rounding && t <= all*rounding {
			candidates = append(candidates, t)
		}
	}
	slices.Sort(candidates)
	for _, low := range slices.Compact(candidates) {
		var alone, rest []*supply
		for _, s := range regions {
			if within(s.lasts(), low, low*tolerance) {
				alone = append(alone, s)
			} else {
				rest = append(rest, s)
			}
		}
		var groups [][]*supply
		if len(rest) <= exactRegions {
			groups = pick(rest, mostGroups(lotTimes(rest), low, low*tolerance))
		}
		if groups == nil && len(rest) > 0 {
			// The heaviest first: they can give or take most.
			slices.SortStableFunc(alone, func(a, b *supply) int { return cmp.Compare(b.weight, a.weight) })
			for !within(timeOf(rest), low, low*tolerance) && len(alone) > 0 {
				rest, alone = append(rest, alone[0]), alone[1:]
			}
			groups = [][]*supply{rest}
		}
		for _, s := range alone {
			groups = append(groups, []*supply{s})
		}
		if len(groups) > len(best) {
			best = groups
		}
	}
	return best
}

// mostGroups parts all regions into as many groups as possible that last low to high,
// where times holds how long each set of regions lasts together. Groups and sets are
// bits of regions. There may be no way to do so.
func mostGroups(times []float64, low, high float64) []uint {
	allowed := make([]bool, len(times))
	for set, t := range times {
		allowed[set] = within(t, low, high)
	}
	count := make([]int8, len(times)) // groups in a set, -1: it cannot be parted
	group := make([]uint, len(times)) // one of them
	for set := uint(1); set < uint(len(times)); set++ {
		count[set] = -1
		first := set & -set // is in some group: try them all
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

// lot is a set of regions that share what they have.
type lot struct {
	unissued, weight float64
	idle             float64 // how long the first idle one lasts by itself
}

func (l lot) with(s *supply) lot {
	l.unissued += float64(s.unissued)
	l.weight += s.weight
	if s.rate == 0 {
		l.idle = min(l.idle, s.lasts())
	}
	return l
}

// lasts is how long all of them last, or -1 when they should not share, because an
// idle one would be given something.
func (l lot) lasts() float64 {
	t := l.unissued / l.weight
	if t > l.idle*rounding {
		return -1
	}
	return t
}

var noRegion = lot{idle: math.Inf(1)}

// lotTimes tells how long every set of regions lasts; the empty one does not.
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

// timeOf is lotTimes of one set.
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
