package keyrange_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/keyrange"
)

func TestRange_ValidateRefusesWhatIsNoRange(t *testing.T) {
	require.NoError(t, keyrange.Range{ID: 7, Lo: 100, Hi: 200, Next: 150, Region: "eu", State: keyrange.Live}.Validate())
	for name, r := range map[string]keyrange.Range{
		"it goes on outside":      {ID: 7, Lo: 100, Hi: 200, Next: 201, Region: "eu", State: keyrange.Live},
		"it has no counter":       {},
		"its state is unknown":    {ID: 1, Hi: 9, Region: "eu", State: "asleep"},
		"its region is no region": {ID: 1, Hi: 9, Region: "EU!", State: keyrange.Live},
	} {
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(r.Validate()), name)
	}
}

func TestRange_OverlappingRangesAreFound(t *testing.T) {
	live := func(id int64, prefix int, lo, hi int64) keyrange.Range {
		return keyrange.Range{ID: id, Prefix: prefix, Lo: lo, Hi: hi, Next: lo, Region: "eu", State: keyrange.Live}
	}
	retired := live(9, 1, 0, 1000)
	retired.State = keyrange.Retired
	draining := live(8, 1, 0, 1000)
	draining.State = keyrange.Draining

	require.NoError(t, keyrange.Disjoint(nil))
	require.NoError(t, keyrange.Disjoint([]keyrange.Range{live(1, 1, 500, 1000), live(2, 1, 0, 500), live(3, 2, 0, 1000), retired}))
	for name, ranges := range map[string][]keyrange.Range{
		"by one counter":     {live(1, 1, 499, 1000), live(2, 1, 0, 500)},
		"one in the other":   {live(1, 1, 0, 1000), live(2, 1, 400, 500)},
		"twice the same":     {live(1, 1, 0, 10), live(1, 1, 0, 10)},
		"with draining ones": {draining, live(1, 1, 999, 1001)},
	} {
		require.Equal(t, waypost.EConflict, waypost.CodeOf(keyrange.Disjoint(ranges)), name)
	}
	require.EqualError(t, keyrange.Disjoint([]keyrange.Range{live(1, 1, 499, 1000), live(2, 1, 0, 500)}),
		"ranges 2 and 1 of prefix 1 both hold counter 499")
}

func TestRange_RangeThatIsLeasedToItsEndHasNoRemainder(t *testing.T) {
	require.Equal(t, int64(0), keyrange.Range{Lo: 5, Hi: 15, Next: 15}.Remainder())
	require.Equal(t, int64(1), keyrange.Range{Lo: 5, Hi: 15, Next: 14}.Remainder())
}
