package controlplane_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/controlplane"
)

// The intervals are those of Newcombe, "Two-sided confidence intervals for the single
// proportion: comparison of seven methods" (1998), table I, method 3.
func TestVariants_HaveTheirShareOfTheRuleAndItsInterval(t *testing.T) {
	for _, c := range []struct {
		clicks, others int64
		share          float64
		interval       [2]float64
	}{
		{81, 182, 0.3080, [2]float64{0.2553, 0.3662}},
		{15, 133, 0.1014, [2]float64{0.0624, 0.1605}},
		{1, 28, 0.0345, [2]float64{0.0061, 0.1718}},
		{20, 0, 1, [2]float64{0.8389, 1}},
	} {
		b := controlplane.Breakdown{Named: []controlplane.NamedClicks{
			{Name: "3/12", Clicks: c.clicks}, {Name: "", Clicks: 1_000}, {Name: "4/12", Clicks: 500}, {Name: "10/1", Clicks: 7},
		}}
		if c.others > 0 {
			b.Named = append(b.Named, controlplane.NamedClicks{Name: "3/2", Clicks: c.others})
		}
		all := controlplane.VariantsOf(&b)
		v := all[len(all)-3]
		require.Equal(t, []string{"3", "12"}, []string{v.Rule, v.Variant})
		require.Equal(t, c.clicks, v.Clicks)
		require.InDelta(t, c.share, v.Share, 0.00005)
		require.InDelta(t, c.interval[0], v.Low, 0.00005)
		require.InDelta(t, c.interval[1], v.High, 0.00005)
		require.Equal(t, []string{"4", "10"}, []string{all[len(all)-2].Rule, all[len(all)-1].Rule}, "by the numbers of the rules")
	}
	require.Empty(t, controlplane.VariantsOf(&controlplane.Breakdown{}))
}
