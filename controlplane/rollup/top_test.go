package rollup_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost/controlplane/rollup"
)

func counted(link int64, clicks uint64) rollup.LinkCount {
	return rollup.LinkCount{Link: link, Count: rollup.Count{Clicks: clicks}}
}

// mostOf returns the links that a Top of all counts must have.
func mostOf(counts map[int64]uint64, most int) (links []rollup.LinkCount) {
	for link, n := range counts {
		if n > 0 {
			links = append(links, counted(link, n))
		}
	}
	slices.SortFunc(links, func(x, y rollup.LinkCount) int {
		return cmp.Or(cmp.Compare(y.Clicks, x.Clicks), cmp.Compare(x.Link, y.Link))
	})
	return links[:min(len(links), most)]
}

func TestTop_TopHasTheLinksWithTheMostClicksHoweverTheyGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int{1, 3, rollup.MaxTop}).Draw(t, "most")
		top, counts := &rollup.Top{}, map[int64]uint64{}
		for range rapid.IntRange(1, 30).Draw(t, "rounds") {
			more := rapid.MapOfN(rapid.Int64Range(1, 12), rapid.Uint64Range(1, 9), 1, 6).Draw(t, "more")
			var now []rollup.LinkCount
			for link, n := range more {
				counts[link] += n
				now = append(now, counted(link, counts[link]))
			}
			top.Set(now...)
			top.Cut(most)
			packed := top.Append(nil)
			var err error
			top, err = rollup.UnpackTop(packed)
			require.NoError(t, err)
			require.Equal(t, packed, top.Append(nil))
		}
		want := mostOf(counts, most)
		sum := func(links []rollup.LinkCount) (clicks uint64) {
			for _, l := range links {
				require.Equal(t, counts[l.Link], l.Clicks)
				clicks += l.Clicks
			}
			return clicks
		}
		require.Len(t, top.Links(), len(want))
		require.Equal(t, sum(want), sum(top.Links()), "the same, but for links with equal clicks")
		for _, l := range top.Links() {
			delete(counts, l.Link)
		}
		for link, n := range counts {
			require.LessOrEqual(t, n, top.Floor(), link)
		}
	})
}

func TestTop_ForgottenLinkLeavesTheTopAndWhatOthersCanHaveStays(t *testing.T) {
	top := &rollup.Top{}
	top.Set(counted(1, 5), counted(2, 9), counted(3, 7))
	top.Cut(2)
	top.Set(counted(2, 0))
	require.Equal(t, []rollup.LinkCount{counted(3, 7)}, top.Links())
	require.EqualValues(t, 5, top.Floor())
}

func TestBest_OfNoLinksIsExact(t *testing.T) {
	for _, known := range [][]rollup.LinkCount{nil, {counted(7, 3)}} {
		best, exact := rollup.Best(known, 0, 5)
		require.Empty(t, best)
		require.True(t, exact)
	}
}

// Whatever the lists leave out, the bounds hold, and what is called exact is.
func TestTop_FirstLinksOfManyDaysAreFoundByTheirLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sum rollup.TopSum
		all := map[int64]uint64{}
		for range rapid.IntRange(1, 6).Draw(t, "days") {
			day := rapid.MapOfN(rapid.Int64Range(1, 12), rapid.Uint64Range(1, 40), 0, 12).Draw(t, "day")
			top := &rollup.Top{}
			for link, n := range day {
				all[link] += n
				top.Set(counted(link, n))
			}
			top.Cut(rapid.IntRange(1, 12).Draw(t, "kept"))
			sum.AddDay(top)
		}
		bounds := sum.Bounds()
		for i, b := range bounds[:len(bounds)-1] {
			require.GreaterOrEqual(t, b.Most, all[b.Link])
			require.True(t, i == 0 || bounds[i-1].Most >= b.Most)
		}
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		var known []rollup.LinkCount
		for i, b := range bounds {
			best, exact := rollup.Best(known, limit, max(b.Most, bounds[len(bounds)-1].Most))
			if exact {
				want := mostOf(all, limit)
				require.Len(t, best, len(want))
				for n := range want {
					require.Equal(t, want[n].Clicks, best[n].Clicks)
				}
			}
			if i < len(bounds)-1 {
				known = append(known, counted(b.Link, all[b.Link]))
			}
		}
	})
}
