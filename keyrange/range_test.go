package keyrange_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost"
	"waypost/keyrange"
)

func TestRange_SplitLosesNoCounterAndLeavesWhatIsLeasedInTheLowerPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := keyrange.Range{ID: 7, Prefix: 3, Region: "eu", State: rapid.SampledFrom([]keyrange.State{
			keyrange.Live,
			keyrange.Draining,
		}).Draw(t, "state")}
		r.Lo = rapid.Int64Range(0, 1000).Draw(t, "lo")
		r.Hi = rapid.Int64Range(r.Lo+2, r.Lo+1000).Draw(t, "hi")
		r.Next = rapid.Int64Range(r.Lo, r.Hi-1).Draw(t, "next")
		at := rapid.Int64Range(max(r.Lo+1, r.Next), r.Hi-1).Draw(t, "at")

		a, b, err := keyrange.Split(r, at)
		require.NoError(t, err)
		require.NoError(t, a.Validate())
		require.NoError(t, b.Validate())
		require.Equal(t, keyrange.Range{ID: 7, Prefix: 3, Lo: r.Lo, Hi: at, Next: r.Next, Region: "eu", State: r.State}, a)
		require.Equal(t, keyrange.Range{Prefix: 3, Lo: at, Hi: r.Hi, Next: at, Region: "eu", State: r.State}, b)
		require.Equal(t, r.Remainder(), a.Remainder()+b.Remainder())
		require.NoError(t, keyrange.Disjoint([]keyrange.Range{a, b}))
	})
}

func TestRange_SplitIsRefused(t *testing.T) {
	r := keyrange.Range{ID: 7, Lo: 100, Hi: 200, Next: 150, Region: "eu", State: keyrange.Live}
	retired, torn := r, r
	retired.State = keyrange.Retired
	torn.Next = 201
	for name, c := range map[string]struct {
		r    keyrange.Range
		at   int64
		code waypost.ErrorCode
	}{
		"at its beginning":                {r, 100, waypost.EInvalid},
		"at its end":                      {r, 200, waypost.EInvalid},
		"outside":                         {r, -1, waypost.EInvalid},
		"among what is leased":            {r, 149, waypost.EConflict},
		"when it is retired":              {retired, 160, waypost.EConflict},
		"when it goes on outside":         {torn, 160, waypost.EInvalid},
		"when it is no range at all":      {keyrange.Range{}, 1, waypost.EInvalid},
		"when nobody knows what state is": {keyrange.Range{ID: 1, Hi: 9, Region: "eu", State: "asleep"}, 1, waypost.EInvalid},
		"when its region is no region":    {keyrange.Range{ID: 1, Hi: 9, Region: "EU!", State: keyrange.Live}, 1, waypost.EInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := keyrange.Split(c.r, c.at)
			require.Equal(t, c.code, waypost.CodeOf(err), "%v", err)
		})
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
