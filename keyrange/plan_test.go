package keyrange_test

import (
	"cmp"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/keyrange"
)

// suffixes of a prefix with the default lengths.
const suffixes = 916_132_832

func live(id int64, region waypost.Region, next, hi int64) keyrange.Range {
	return keyrange.Range{ID: id, Prefix: int(id), Hi: hi, Next: next, Region: region, State: keyrange.Live}
}

func rebalance(t require.TestingT, ranges []keyrange.Range, rates keyrange.Rates) keyrange.Plan {
	plan, err := keyrange.Rebalance(ranges, rates)
	require.NoError(t, err)
	require.Equal(t, len(plan.Steps) == 0, plan.Reason != "", "a plan has steps, or a reason for having none: %+v", plan)
	return plan
}

// apply does what a plan says. Pieces that are cut off get IDs from 1,000,001 on.
func apply(t require.TestingT, ranges []keyrange.Range, steps []keyrange.Step) []keyrange.Range {
	now := append([]keyrange.Range(nil), ranges...)
	for n, step := range steps {
		var done bool
		for i, r := range now {
			if r.ID != step.Range {
				continue
			}
			stays, moves := divide(t, step, r)
			require.Equal(t, step.Counters, moves.Remainder())
			done = true
			if stays == (keyrange.Range{}) {
				now[i] = moves
				break
			}
			moves.ID = int64(1_000_001 + n)
			now[i] = stays
			now = append(now, moves)
			break
		}
		require.True(t, done, "step %d is for an unknown range: %+v", n, step)
	}
	return now
}

// divide returns the part of a range that stays when a step is carried out, which is the
// zero Range when all of it moves, and the part that moves.
func divide(t require.TestingT, s keyrange.Step, r keyrange.Range) (stays, moves keyrange.Range) {
	require.NoError(t, r.Validate())
	fits := r.Prefix == s.Prefix && r.State == keyrange.Live && r.Region == s.From && s.From != s.To && r.Hi == s.Hi
	at := cmp.Or(s.At, r.Next)
	require.True(t, fits && r.Next <= at && at < r.Hi, "%+v on %+v", s, r)
	moves = r
	moves.Region = s.To
	if at == r.Lo {
		return keyrange.Range{}, moves
	}
	stays = r
	stays.Hi = at
	moves.ID, moves.Lo, moves.Next = 0, at, at
	return stays, moves
}

// minutesLeft returns the minutes until a region is exhausted.
func minutesLeft(f keyrange.Forecast) float64 {
	if f.Rate <= 0 {
		return math.Inf(1)
	}
	return float64(f.Unissued) / f.Rate
}

func unissued(ranges []keyrange.Range) map[waypost.Region]int64 {
	sums := map[waypost.Region]int64{}
	for _, r := range ranges {
		if r.State == keyrange.Live {
			sums[r.Region] += r.Remainder()
		}
	}
	return sums
}

// spread is by how much the region that lasts longest outlasts the one that does not.
func spread(forecasts []keyrange.Forecast) float64 {
	shortest, longest := math.Inf(1), 0.0
	for _, f := range forecasts {
		if f.Rate > 0 {
			shortest, longest = min(shortest, minutesLeft(f)), max(longest, minutesLeft(f))
		}
	}
	return longest / shortest
}

func TestRebalance_RegionThatMintsFiftyTimesAsMuchGetsAPieceOfEachOfTheOthers(t *testing.T) {
	ranges := []keyrange.Range{live(1, "ap", 2e6, suffixes), live(2, "eu", 100e6, suffixes), live(3, "us", 2e6, suffixes)}
	rates := keyrange.Rates{"ap": 100, "eu": 5000, "us": 100}
	plan := rebalance(t, ranges, rates)
	require.Len(t, plan.Steps, 2)
	for _, step := range plan.Steps {
		require.Equal(t, waypost.Region("eu"), step.To)
		require.Greater(t, step.At, int64(2e6))
	}
	require.Greater(t, spread(plan.Before), 50.0)
	require.LessOrEqual(t, spread(plan.After), 1.001)
	after := apply(t, ranges, plan.Steps)
	require.NoError(t, keyrange.Disjoint(after))
	sums := unissued(after)
	for _, f := range plan.After {
		require.Equal(t, sums[f.Region], f.Unissued)
	}
	// Once it is carried out there is nothing left to do.
	require.Empty(t, rebalance(t, after, rates).Steps)
}

func TestRebalance_Plan(t *testing.T) {
	retired, draining := live(8, "eu", 0, 100e6), live(9, "eu", 0, 100e6)
	retired.State, draining.State = keyrange.Retired, keyrange.Draining
	type steps = []keyrange.Step
	for name, c := range map[string]struct {
		ranges []keyrange.Range
		rates  keyrange.Rates
		steps  steps
		reason string
	}{
		"is empty without ranges": {reason: "there is no second region to share with"},
		"is empty for one region": {
			ranges: []keyrange.Range{live(1, "eu", 0, 50e6), live(2, "eu", 0, 60e6)}, rates: keyrange.Rates{"eu": 3},
			reason: "there is no second region to share with",
		},
		"is empty when nobody mints": {
			ranges: []keyrange.Range{live(1, "eu", 0, 50e6), live(2, "us", 0, 1e6)}, rates: keyrange.Rates{"eu": 0},
			reason: "no region is known to have minted a key in the last hour",
		},
		"is empty when all is well": {
			ranges: []keyrange.Range{live(1, "eu", 0, 50e6), live(2, "us", 0, 54e6)}, rates: keyrange.Rates{"eu": 3, "us": 3},
			reason: "all regions last equally long, within 10 %",
		},
		"is empty when there is not a lease for everyone": {
			ranges: []keyrange.Range{live(1, "eu", 0, 15_000), live(2, "us", 0, 0+1)}, rates: keyrange.Rates{"eu": 1, "us": 1},
			reason: "there are too few counters left to share",
		},
		"leaves draining and retired ranges alone": {
			ranges: []keyrange.Range{live(1, "eu", 0, 50e6), live(2, "us", 0, 54e6), retired, draining}, rates: keyrange.Rates{"eu": 3, "us": 3},
			reason: "all regions last equally long, within 10 %",
		},
		"takes a whole range when it fits": {
			ranges: []keyrange.Range{live(1, "eu", 0, 60e6), live(2, "eu", 1000, 41e6), live(3, "us", 0, 20e6)},
			rates:  keyrange.Rates{"eu": 2, "us": 2},
			steps:  steps{{Range: 2, Prefix: 2, At: 0, Hi: 41e6, Counters: 41e6 - 1000, From: "eu", To: "us"}},
		},
		"cuts a range when none fits": {
			ranges: []keyrange.Range{live(1, "eu", 0, 80e6), live(2, "us", 0, 20e6)}, rates: keyrange.Rates{"eu": 2, "us": 2},
			steps: steps{{Range: 1, Prefix: 1, At: 50e6, Hi: 80e6, Counters: 30e6, From: "eu", To: "us"}},
		},
		"takes several whole ranges when none is large enough": {
			ranges: []keyrange.Range{live(1, "eu", 0, 20e6), live(2, "eu", 0, 20e6), live(3, "eu", 0, 20e6), live(4, "eu", 0, 20e6), live(5,
				"us", 0, 1e6)},
			rates: keyrange.Rates{"eu": 2, "us": 2},
			steps: steps{
				{Range: 1, Prefix: 1, Hi: 20e6, Counters: 20e6, From: "eu", To: "us"},
				{Range: 2, Prefix: 2, Hi: 20e6, Counters: 20e6, From: "eu", To: "us"},
			},
		},
		"gives to a region that mints and has nothing": {
			ranges: []keyrange.Range{live(1, "eu", 0, 80e6)}, rates: keyrange.Rates{"eu": 3, "us": 1},
			steps: steps{{Range: 1, Prefix: 1, At: 60e6, Hi: 80e6, Counters: 20e6, From: "eu", To: "us"}},
		},
		"leaves an idle region its share": {
			ranges: []keyrange.Range{live(1, "ap", 0, 100e6), live(2, "eu", 0, 1e6)}, rates: keyrange.Rates{"eu": 5},
			steps: steps{{Range: 1, Prefix: 1, At: 1e6, Hi: 100e6, Counters: 99e6, From: "ap", To: "eu"}},
		},
		"gives an idle region nothing where that would do": {
			ranges: []keyrange.Range{live(1, "ap", 0, 2_020_000), live(2, "br", 0, 95e6), live(3, "eu", 0, 106_500_000)},
			rates:  keyrange.Rates{"br": 1, "eu": 1},
			steps:  steps{{Range: 3, Prefix: 3, At: 100_750_000, Hi: 106_500_000, Counters: 5_750_000, From: "eu", To: "br"}},
		},
		"gives an idle region nothing": {
			ranges: []keyrange.Range{live(1, "ap", 0, 1000), live(2, "eu", 0, 50e6)}, rates: keyrange.Rates{"eu": 5, "ap": 0, "us": 0},
			reason: "all regions last equally long, within 10 %",
		},
		"cuts one range for two regions from the top": {
			ranges: []keyrange.Range{live(1, "ap", 0, 97e6), live(2, "eu", 0, 1e6), live(3, "us", 0, 2e6)},
			rates:  keyrange.Rates{"ap": 2, "eu": 1, "us": 1},
			steps: steps{
				{Range: 1, Prefix: 1, At: 73e6, Hi: 97e6, Counters: 24e6, From: "ap", To: "eu"},
				{Range: 1, Prefix: 1, At: 50e6, Hi: 73e6, Counters: 23e6, From: "ap", To: "us"},
			},
		},
		"shares among pairs rather than among all": {
			ranges: []keyrange.Range{live(1, "a", 0, 90e6), live(2, "b", 0, 80e6), live(3, "c", 0, 10e6), live(4, "d", 0, 20e6)},
			rates:  keyrange.Rates{"a": 1, "b": 1, "c": 1, "d": 1},
			steps: steps{
				{Range: 1, Prefix: 1, At: 50e6, Hi: 90e6, Counters: 40e6, From: "a", To: "c"},
				{Range: 2, Prefix: 2, At: 50e6, Hi: 80e6, Counters: 30e6, From: "b", To: "d"},
			},
		},
		"does not touch who is within the tolerance": {
			ranges: []keyrange.Range{live(1, "a", 0, 52e6), live(2, "b", 0, 80e6), live(3, "c", 0, 48e6), live(4, "d", 0, 20e6)},
			rates:  keyrange.Rates{"a": 1, "b": 1, "c": 1, "d": 1},
			steps:  steps{{Range: 2, Prefix: 2, At: 50e6, Hi: 80e6, Counters: 30e6, From: "b", To: "d"}},
		},
		"cuts two ranges when all are a little too large to be taken whole": {
			ranges: []keyrange.Range{live(1, "eu", 0, 60e6), live(2, "eu", 0, 60e6), live(3, "eu", 0, 60e6)},
			rates:  keyrange.Rates{"eu": 123, "us": 57},
			steps: steps{
				{Range: 1, Prefix: 1, At: 6e6, Hi: 60e6, Counters: 54e6, From: "eu", To: "us"},
				{Range: 2, Prefix: 2, At: 57e6, Hi: 60e6, Counters: 3e6, From: "eu", To: "us"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := rebalance(t, c.ranges, c.rates)
			require.Equal(t, c.steps, plan.Steps)
			require.Equal(t, c.reason, plan.Reason)
		})
	}
}

func TestRebalance_ForecastTellsHowLongEveryRegionLasts(t *testing.T) {
	draining := live(3, "eu", 0, 9e6)
	draining.State = keyrange.Draining
	plan := rebalance(t, []keyrange.Range{live(1, "eu", 1e6, 6e6), live(2, "eu", 0, 1e6), draining, live(4, "ap", 5, 6)},
		keyrange.Rates{"eu": 2000, "us": 0})
	require.Equal(t, []keyrange.Forecast{{"ap", 1, 0}, {"eu", 6e6, 2000}, {"us", 0, 0}}, plan.Before)
	require.Equal(t, plan.Before, plan.After)
	require.InDelta(t, 3000, minutesLeft(plan.Before[1]), 1e-9)
	require.True(t, math.IsInf(minutesLeft(plan.Before[0]), 1))
}

func TestRebalance_PlanRefusesWhatMakesNoSense(t *testing.T) {
	fine := []keyrange.Range{live(1, "eu", 0, 50e6), live(2, "us", 0, 54e6)}
	twin := fine[1]
	twin.Prefix, twin.ID = 1, 1
	overlapping := fine[1]
	overlapping.Prefix = 1
	for name, c := range map[string]struct {
		ranges []keyrange.Range
		rates  keyrange.Rates
		code   waypost.ErrorCode
	}{
		"a negative rate":          {fine, keyrange.Rates{"eu": -1}, waypost.EInvalid},
		"a rate that is no number": {fine, keyrange.Rates{"eu": math.NaN()}, waypost.EInvalid},
		"an infinite rate":         {fine, keyrange.Rates{"eu": math.Inf(1)}, waypost.EInvalid},
		"a rate beyond all codes":  {fine, keyrange.Rates{"eu": math.MaxFloat64}, waypost.EInvalid},
		"a region that is none":    {fine, keyrange.Rates{"": 1}, waypost.EInvalid},
		"a range that is none":     {[]keyrange.Range{{}}, nil, waypost.EInvalid},
		"the same range twice":     {[]keyrange.Range{fine[0], twin}, nil, waypost.EInvalid},
		"too many counters": {
			[]keyrange.Range{live(1, "eu", 0, math.MaxInt64), live(2, "eu", 0, math.MaxInt64)}, nil, waypost.EInvalid,
		},
		"ranges that overlap": {[]keyrange.Range{fine[0], overlapping}, nil, waypost.EConflict},
	} {
		_, err := keyrange.Rebalance(c.ranges, c.rates)
		require.Equal(t, c.code, waypost.CodeOf(err), "%s: %v", name, err)
	}
}

func TestRebalance_ExtremesMakeNoBadPlan(t *testing.T) {
	const most = 62 * 62 * 62 * 62 * 62 * 62 * 62 * 62 * 62
	for _, rates := range []keyrange.Rates{
		{"a": math.SmallestNonzeroFloat64, "b": 1e18},
		{"a": math.SmallestNonzeroFloat64},
		{"a": 1e-9},
		{"a": 1e18, "b": 1e18, "c": 1e18},
		{"a": 1e-9, "b": 1e18, "c": 1},
	} {
		ranges := []keyrange.Range{live(1, "a", 0, most), live(2, "b", 0, most), live(3, "c", most-1, most)}
		plan := rebalance(t, ranges, rates)
		require.NoError(t, keyrange.Disjoint(apply(t, ranges, plan.Steps)))
	}
}
