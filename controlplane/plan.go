package controlplane

import (
	"time"

	"waypost/keyrange"
)

// planRanges puts the key ranges to keyrange.Rebalance and its answer into steps
// that ChangeRanges takes.
func planRanges(space KeySpace, now time.Time) (RangePlan, error) {
	ranges := make([]keyrange.Range, len(space.Ranges))
	for i := range space.Ranges {
		r := &space.Ranges[i]
		ranges[i] = keyrange.Range{ID: r.ID, Prefix: r.Prefix, Lo: r.Lo, Hi: r.Hi, Next: r.Next, Region: r.Region, State: keyrange.State(r.State)}
	}
	plan, err := keyrange.Rebalance(ranges, space.Rates, keyrange.Options{})
	if err != nil {
		return RangePlan{}, err
	}
	result := RangePlan{
		MadeAt: now.UTC(), Fingerprint: space.Fingerprint(), Reason: plan.Reason,
		Before: suppliesOf(plan.Before), After: suppliesOf(plan.After),
	}
	for _, s := range plan.Steps {
		result.Steps = append(result.Steps, RangeStep{Action: MoveRange, Range: s.Range, Region: s.To, At: s.At, Remainder: s.At == 0})
	}
	return result, nil
}

func suppliesOf(forecasts []keyrange.Forecast) []Supply {
	supplies := make([]Supply, len(forecasts))
	for i, f := range forecasts {
		supplies[i] = Supply{Region: f.Region, Unissued: f.Unissued, Rate: f.Rate}
	}
	return supplies
}
