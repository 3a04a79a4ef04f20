package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/internal/datadir"
)

// spaceOf is a range store that knows one key space, or nothing.
type spaceOf struct {
	controlplane.RangeStore
	space controlplane.KeySpace
	err   error
}

func (s spaceOf) KeySpace(context.Context) (controlplane.KeySpace, error) { return s.space, s.err }

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

func TestTheKeyPoolIsShownForAllRegionsAndNotAtAllWithoutADatabase(t *testing.T) {
	space := controlplane.KeySpace{
		Prefixes: 3844, FreePrefixes: 3841, PrefixSize: 1000, Held: "nobody remembers",
		Rates: map[waypost.Region]float64{"eu": 8},
		Ranges: []controlplane.Range{
			{ID: 1, Hi: 1000, Next: 300, Returned: 20, Region: "eu", State: controlplane.RangeLive},
			{ID: 2, Hi: 1000, Next: 1000, Region: "us", State: controlplane.RangeLive},
			{ID: 3, Hi: 1000, Region: "us", State: controlplane.RangeDraining},
		},
	}
	require.Equal(t, []string{
		"kgs_free_prefixes 3841",
		"kgs_pool_exhaustion_minutes{eu} 90", "kgs_pool_exhaustion_minutes{us} +Inf",
		"kgs_pool_size{eu} 720", "kgs_pool_size{us} 0",
		"kgs_prefix_size 1000", "waypost_keys_held 1",
	}, scraped(t, keyPool{spaceOf{space: space}}))
	space.Held = ""
	require.Contains(t, scraped(t, keyPool{spaceOf{space: space}}), "waypost_keys_held 0")
	require.Empty(t, scraped(t, keyPool{spaceOf{err: errors.New("away")}}))
}

func TestTheMemoryOfTheKeysIsAFileThatNobodyElseReads(t *testing.T) {
	root := t.TempDir()
	dir, err := datadir.Open(root, datadir.Control, 0o700)
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	m := keyMemory{dir}
	nothing, err := m.Load()
	require.NoError(t, err)
	require.Nil(t, nothing)
	for _, document := range []string{"first", "second"} {
		require.NoError(t, m.Save([]byte(document)))
		got, err := m.Load()
		require.NoError(t, err)
		require.Equal(t, document, string(got))
	}
	info, err := os.Stat(dir.Path("keys.witness"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, m.SetAside())
	nothing, err = m.Load()
	require.NoError(t, err)
	require.Nil(t, nothing)
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	var kept []byte
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "keys.witness.unreadable-") {
			kept, err = os.ReadFile(dir.Path(e.Name()))
			require.NoError(t, err)
		}
	}
	require.Equal(t, "second", string(kept), "what cannot be read is kept for people to look at")
}
