package keys_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane/keys"
)

// spaceOf is a range store that knows one key space, or nothing.
type spaceOf struct {
	keys.RangeStore
	space keys.KeySpace
	err   error
}

func (s spaceOf) KeySpace(context.Context) (keys.KeySpace, error) { return s.space, s.err }

// scraped returns the gauges of a collector as "name{label} value".
func scraped(t *testing.T, c prometheus.Collector) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	var lines []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "{" + l.GetValue() + "}"
			}
			lines = append(lines, fmt.Sprint(name, " ", m.GetGauge().GetValue()))
		}
	}
	return lines
}

func TestPool_CoversAllRegionsAndNothingWithoutADatabase(t *testing.T) {
	space := keys.KeySpace{
		Prefixes: 3844, FreePrefixes: 3841, PrefixSize: 1000, Held: "nobody remembers",
		Rates: map[waypost.Region]float64{"eu": 8},
	}
	for _, b := range []api.RangeBounds{
		{ID: 1, Hi: 1000, Next: 300, Returned: 20, Region: "eu", State: keys.RangeLive},
		{ID: 2, Hi: 1000, Next: 1000, Region: "us", State: keys.RangeLive},
		{ID: 3, Hi: 1000, Region: "us", State: keys.RangeDraining},
	} {
		space.Ranges = append(space.Ranges, keys.Range{Range: api.Range{RangeBounds: b}})
	}
	require.Equal(t, []string{
		"kgs_free_prefixes 3841",
		"kgs_pool_exhaustion_minutes{eu} 90", "kgs_pool_exhaustion_minutes{us} +Inf",
		"kgs_pool_size{eu} 720", "kgs_pool_size{us} 0",
		"kgs_prefix_size 1000", "waypost_keys_held 1",
	}, scraped(t, keys.Pool{Store: spaceOf{space: space}}))
	space.Held = ""
	require.Contains(t, scraped(t, keys.Pool{Store: spaceOf{space: space}}), "waypost_keys_held 0")
	require.Empty(t, scraped(t, keys.Pool{Store: spaceOf{err: errors.New("away")}}))
}
