package keyrange_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost"
	"waypost/keyrange"
)

// drawRanges draws ranges of up to that many regions that lie side by side in their
// prefixes, in all states, leased to all degrees.
func drawRanges(t *rapid.T, regions int) []keyrange.Range {
	const prefixes = 4
	var ranges []keyrange.Range
	var end [prefixes]int64
	for id := range rapid.IntRange(1, 3*regions).Draw(t, "ranges") {
		prefix := rapid.IntRange(0, prefixes-1).Draw(t, "prefix")
		r := keyrange.Range{ID: int64(id + 1), Prefix: prefix, Lo: end[prefix]}
		r.Hi = r.Lo + rapid.OneOf(rapid.Int64Range(1, 30_000), rapid.Int64Range(1, suffixes)).Draw(t, "length")
		r.Next = r.Lo + rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(0, r.Hi-r.Lo), rapid.Just(r.Hi-r.Lo)).Draw(t, "leased")
		r.Region = waypost.Region(fmt.Sprintf("r%02d", rapid.IntRange(1, regions).Draw(t, "region")))
		r.State = rapid.SampledFrom([]keyrange.State{
			keyrange.Live, keyrange.Live, keyrange.Live, keyrange.Draining,
			keyrange.Retired,
		}).Draw(t, "state")
		end[prefix] = r.Hi
		ranges = append(ranges, r)
	}
	return ranges
}

func drawRates(t *rapid.T, regions int) keyrange.Rates {
	rates := keyrange.Rates{}
	for i := range regions {
		if rapid.IntRange(0, 4).Draw(t, "measured") > 0 {
			rates[waypost.Region(fmt.Sprintf("r%02d", i+1))] = rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1, 100),
				rapid.Float64Range(0.001, 100_000)).Draw(t, "rate")
		}
	}
	return rates
}

// reserve is the least number of counters of a region that mints.
const reserve = 10_000

// stretch is an interval of counters in one pair of hands.
type stretch struct {
	prefix int
	lo, hi int64
	owner  string
}

// owners returns the owner of each stretch of counters, leased or not.
func owners(ranges []keyrange.Range, leased bool) []stretch {
	var all []stretch
	for _, r := range ranges {
		s := stretch{r.Prefix, r.Next, r.Hi, string(r.State)}
		if leased {
			s = stretch{r.Prefix, r.Lo, r.Next, fmt.Sprint(r.State, r.Region)}
		}
		if s.lo < s.hi {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b stretch) int { return cmp.Or(cmp.Compare(a.prefix, b.prefix), cmp.Compare(a.lo, b.lo)) })
	var joined []stretch
	for _, s := range all {
		if n := len(joined); n > 0 && joined[n-1].prefix == s.prefix && joined[n-1].owner == s.owner && joined[n-1].hi == s.lo {
			joined[n-1].hi = s.hi
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

func transfers(steps []keyrange.Step) int {
	pairs := map[[2]waypost.Region]bool{}
	for _, s := range steps {
		pairs[[2]waypost.Region{s.From, s.To}] = true
	}
	return len(pairs)
}

func TestRebalance_AnyPlanKeepsEveryCounterAndEqualisesTheRegions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		regions := rapid.IntRange(1, 7).Draw(t, "regions")
		ranges, rates := drawRanges(t, regions), drawRates(t, regions)
		plan := rebalance(t, ranges, rates)
		require.Equal(t, plan, rebalance(t, ranges, rates), "the same input gives the same plan")
		after := apply(t, ranges, plan.Steps)

		require.NoError(t, keyrange.Disjoint(after))
		require.Equal(t, owners(ranges, false), owners(after, false), "no counter appears, disappears or is leased")
		require.Equal(t, owners(ranges, true), owners(after, true), "what is leased stays where it is")
		sums := unissued(after)
		for _, f := range plan.After {
			require.Equal(t, sums[f.Region], f.Unissued, "the forecast of %s", f.Region)
		}
		checkEqual(t, plan)
		checkMargins(t, ranges, plan)
		require.LessOrEqual(t, transfers(plan.Steps), max(0, len(plan.Before)-1))

		took, gave := map[waypost.Region]bool{}, map[waypost.Region]bool{}
		for _, s := range plan.Steps {
			took[s.To], gave[s.From] = true, true
			require.Positive(t, s.Counters)
		}
		for _, f := range plan.After {
			require.False(t, took[f.Region] && gave[f.Region], "%s gives and takes", f.Region)
			require.False(t, took[f.Region] && f.Rate == 0, "%s is idle and takes", f.Region)
			require.False(t, gave[f.Region] && f.Unissued < reserve, "%s is stripped bare", f.Region)
		}
	})
}

// checkEqual checks that all regions that mint last equally long. One that is down to
// its reserve may last longer, and none need do when there is too little for all.
func checkEqual(t require.TestingT, plan keyrange.Plan) {
	if len(plan.Steps) == 0 && plan.Reason != "all regions last equally long, within 10 %" {
		return
	}
	for _, long := range plan.After {
		if long.Rate == 0 || float64(long.Unissued) <= 1.22*reserve+10 {
			continue
		}
		for _, short := range plan.After {
			require.LessOrEqual(t, minutesLeft(long), 1.10*minutesLeft(short), "%s outlasts %s", long.Region, short.Region)
		}
	}
}

// margin returns the counters of a range that a cut must leave.
func margin(r keyrange.Range, ranges []keyrange.Range, plan keyrange.Plan) int64 {
	var keeps, parts int64
	for _, f := range plan.After {
		if f.Region == r.Region {
			keeps = f.Unissued
		}
	}
	for _, other := range ranges {
		if other.Region == r.Region && other.State == keyrange.Live && other.Remainder() > 0 {
			parts++
		}
	}
	return max(1, min(max(reserve, keeps/10*9/10), r.Remainder()/10, keeps/parts*9/10))
}

// checkMargins checks that cuts leave room for the leases of the time to come.
func checkMargins(t require.TestingT, ranges []keyrange.Range, plan keyrange.Plan) {
	for _, s := range plan.Steps {
		for _, r := range ranges {
			if s.At != 0 && r.ID == s.Range {
				require.GreaterOrEqual(t, s.At-r.Next, margin(r, ranges, plan))
				require.Less(t, s.At, r.Hi)
			}
		}
	}
}

func TestRebalance_PlanStillAppliesWhenMoreHasBeenLeased(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranges, rates := drawRanges(t, 4), drawRates(t, 4)
		plan := rebalance(t, ranges, rates)
		later := slices.Clone(ranges)
		for i, r := range ranges {
			cut := slices.ContainsFunc(plan.Steps, func(s keyrange.Step) bool { return s.Range == r.ID && s.At != 0 })
			whole := slices.ContainsFunc(plan.Steps, func(s keyrange.Step) bool { return s.Range == r.ID && s.At == 0 })
			if cut && !whole {
				later[i].Next += margin(r, ranges, plan)
			}
		}
		apply(t, later, plan.Steps) // fails when a step is refused
	})
}

func TestRebalance_PlanOfManyRegionsEqualisesThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		regions := rapid.IntRange(13, 40).Draw(t, "regions")
		ranges, rates := drawRanges(t, regions), drawRates(t, regions)
		plan := rebalance(t, ranges, rates)
		after := apply(t, ranges, plan.Steps)
		require.NoError(t, keyrange.Disjoint(after))
		checkEqual(t, plan)
		require.Less(t, transfers(plan.Steps), len(plan.Before))
	})
}

// The planner is compared with a search that knows nothing of groups: it tries all
// sets of transfers of multiples of a million counters. It is coarser, so the planner
// may do better, but never worse.
func TestRebalance_NoPlanWithFewerTransfersExists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		regions := rapid.IntRange(2, 4).Draw(t, "regions")
		var ranges []keyrange.Range
		have, minted, rates := make([]int64, regions), make([]float64, regions), keyrange.Rates{}
		for i := range regions {
			region := waypost.Region(fmt.Sprintf("r%02d", i+1))
			have[i] = rapid.Int64Range(1, 30).Draw(t, "millions")
			minted[i] = float64(rapid.IntRange(1, 4).Draw(t, "rate"))
			rates[region] = minted[i]
			ranges = append(ranges, live(int64(i+1), region, 0, 1_000_000*have[i]))
		}
		plan := rebalance(t, ranges, rates)
		checkEqual(t, plan)
		require.Len(t, plan.Steps, transfers(plan.Steps), "regions with one range need no second step")
		for fewer := range len(plan.Steps) {
			require.False(t, equalises(have, minted, fewer), "%d transfers would do instead of %+v", fewer, plan.Steps)
		}
	})
}

func equalises(have []int64, minted []float64, transfers int) bool {
	if transfers == 0 {
		shortest, longest := float64(have[0])/minted[0], float64(have[0])/minted[0]
		for i := range have {
			shortest, longest = min(shortest, float64(have[i])/minted[i]), max(longest, float64(have[i])/minted[i])
		}
		return longest <= 1.0994*shortest // the planner keeps a little room for rounding
	}
	for from := range have {
		for to := range have {
			for n := int64(1); from != to && n < have[from]; n++ {
				have[from] -= n
				have[to] += n
				ok := equalises(have, minted, transfers-1)
				have[from] += n
				have[to] -= n
				if ok {
					return true
				}
			}
		}
	}
	return false
}
