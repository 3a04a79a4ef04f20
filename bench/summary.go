package bench

import (
	"fmt"
	"slices"
)

// Summary is the middle and the range of a value over the rounds of a run.
type Summary struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Summarize gives the summary of one value per round, the zero summary for none.
// The median of an even number of rounds is the mean of the two in the middle.
func Summarize(rounds []float64) Summary {
	if len(rounds) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(rounds))
	n := len(sorted)
	return Summary{
		Median: (sorted[(n-1)/2] + sorted[n/2]) / 2,
		Min:    sorted[0],
		Max:    sorted[n-1],
	}
}

// Ratios divides value by base round by round: what ran side by side is compared,
// and a machine that slows down half-way changes neither ratio. Both must have as
// many rounds, and no base may be zero.
func Ratios(value, base []float64) ([]float64, error) {
	if len(value) != len(base) {
		return nil, fmt.Errorf("%d rounds cannot be compared with %d", len(value), len(base))
	}
	ratios := make([]float64, len(value))
	for i := range value {
		if base[i] == 0 {
			return nil, fmt.Errorf("round %d of the base is zero", i+1)
		}
		ratios[i] = value[i] / base[i]
	}
	return ratios, nil
}
