package keyrange

import (
	"cmp"
	"slices"

	"waypost"
)

// tolerance bounds the time of the region that lasts longest, relative to the one that is
// exhausted first: 10 %, less the effect of rounding to whole counters.
const tolerance = 1.0995

// Rates holds the keys that regions mint per minute.
type Rates map[waypost.Region]float64

// reserve is the least number of counters of every region that mints: one lease.
const reserve = 10_000

// idlePart divides the sum of the measured rates: a region without a measured rate is
// assumed to have that part. It loses the counters beyond its share, and gets none.
const idlePart = 100

// Forecast says how long a region's keys last.
type Forecast struct {
	Region   waypost.Region
	Unissued int64   // counters of its live ranges that no lease holds
	Rate     float64 // measured keys per minute; 0 for an idle region
}

// Plan lists the steps after which all regions last equally long.
type Plan struct {
	Steps         []Step     // in the order in which they must be done
	Reason        string     // why there are no steps; empty when there are
	Before, After []Forecast // ordered by region
}

// Rebalance plans transfers after which all regions are exhausted at the same time,
// within 10 %, with as few transfers between regions as possible. Only unleased counters
// of live ranges count, and only they move. The plan depends on the arguments alone.
//
// When nothing needs to be done or can be done, the plan has a reason and no steps. The
// error is waypost.EInvalid for impossible ranges or rates, and waypost.EConflict for
// ranges that overlap. DESIGN.md has the formulas.
func Rebalance(ranges []Range, rates Rates) (Plan, error) {
	regions, err := supplies(ranges, rates)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{Before: forecasts(regions)}
	if plan.Reason = weigh(regions); plan.Reason == "" {
		plan.Steps = steps(regions)
		if len(plan.Steps) == 0 {
			plan.Reason = "all regions last equally long, within 10 %"
		}
	}
	plan.After = forecasts(regions)
	return plan, nil
}

// supply is the planner's state of a region.
type supply struct {
	region   waypost.Region
	unissued int64
	rate     float64 // measured
	weight   float64 // the rate that the plan assumes; 0 leaves the region out
	ranges   []pile  // live, with a remainder, by ID
}

// lasts returns the minutes that the supply lasts at the assumed rate.
func (s *supply) lasts() float64 { return float64(s.unissued) / s.weight }

// supplies sums up the counters of every region, ordered by region.
func supplies(ranges []Range, rates Rates) ([]*supply, error) {
	byRegion := map[waypost.Region]*supply{}
	of := func(region waypost.Region) *supply {
		s := byRegion[region]
		if s == nil {
			s = &supply{region: region}
			byRegion[region] = s
		}
		return s
	}
	var total int64
	seen := map[int64]bool{}
	for _, r := range ranges {
		if err := r.Validate(); err != nil {
			return nil, err
		}
		if r.State != Live {
			continue
		}
		if seen[r.ID] {
			return nil, waypost.Errorf(waypost.EInvalid, "there are two ranges %d", r.ID)
		}
		seen[r.ID] = true
		if total += r.Remainder(); total < 0 {
			return nil, waypost.Errorf(waypost.EInvalid, "the ranges hold more counters than can be")
		}
		s := of(r.Region)
		s.unissued += r.Remainder()
		if r.Remainder() > 0 {
			s.ranges = append(s.ranges, pile{Range: r})
		}
	}
	if err := Disjoint(ranges); err != nil {
		return nil, err
	}
	for region, rate := range rates {
		if _, err := waypost.ParseRegion(string(region)); err != nil {
			return nil, err
		}
		if !isRate(rate) {
			return nil, waypost.Errorf(waypost.EInvalid, "%v keys per minute of region %s is no rate", rate, region)
		}
		if rate < 1e-9 { // a key in two thousand years
			rate = 0
		}
		of(region).rate = rate
	}
	regions := make([]*supply, 0, len(byRegion))
	for _, s := range byRegion {
		slices.SortFunc(s.ranges, func(a, b pile) int { return cmp.Compare(a.ID, b.ID) })
		regions = append(regions, s)
	}
	slices.SortFunc(regions, func(a, b *supply) int { return cmp.Compare(a.region, b.region) })
	return regions, nil
}

// isRate refuses NaN, and rates that would mint all possible codes in a minute.
func isRate(f float64) bool { return f >= 0 && f <= 1e18 }

func forecasts(regions []*supply) []Forecast {
	all := make([]Forecast, len(regions))
	for i, s := range regions {
		all[i] = Forecast{Region: s.region, Unissued: s.unissued, Rate: s.rate}
	}
	return all
}

// weigh sets the weights, or returns the reason why there is nothing to plan. A region's
// weight is its share of all counters divided by the time that all regions are to last,
// so that a region with its share lasts as long as all, and the rest is proportion.
func weigh(regions []*supply) (reason string) {
	var all int64
	var minted float64
	for _, s := range regions {
		all += s.unissued
		minted += s.rate
	}
	switch {
	case len(regions) < 2:
		return "there is no second region to share with"
	case minted == 0:
		return "no region is known to have minted a key in the last hour"
	}
	idle := minted / idlePart
	// A tenth more than the reserve, because a region may end up a tenth below its share.
	const floor = tolerance*reserve + 2
	share := func(s *supply, minutes float64) float64 {
		if s.rate > 0 {
			return max(s.rate*minutes, floor)
		}
		return min(float64(s.unissued), max(idle*minutes, floor))
	}
	fits := func(minutes float64) bool {
		var sum float64
		for _, s := range regions {
			sum += share(s, minutes)
		}
		return sum <= float64(all)
	}
	if !fits(0) {
		return "there are too few counters left to share"
	}
	short, long := 0.0, float64(all)/minted
	for range 200 { // more than a float64 has bits
		if middle := short + (long-short)/2; fits(middle) {
			short = middle
		} else {
			long = middle
		}
	}
	if short == 0 {
		return "there are too few counters left to share"
	}
	for _, s := range regions {
		if own := share(s, short); s.rate > 0 || own < float64(s.unissued) {
			s.weight = own / short
		}
	}
	return ""
}
