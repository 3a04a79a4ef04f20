//go:build linux

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/bench"
)

func TestARunMeasuresEverythingAndWritesItDown(t *testing.T) {
	o, err := parseOptions([]string{"-rounds", "1", "-links", "1000", "-batches", "1", "-clicks", "200", "-out", t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, measure(t.Context(), o))
	r, err := bench.Read(o.Out, "clicks")
	require.NoError(t, err)
	require.Len(t, r.Sections, len(names()))
	for i, s := range r.Sections {
		require.Equal(t, names()[i], s.Name)
		require.Len(t, s.Goals, 2)
		require.Len(t, s.Cases, 4)
		for _, c := range s.Cases {
			require.Positive(t, c.Requests, "%s: %s", s.Name, c.Name)
			require.Positive(t, c.Measures[0].Summary.Median, "%s: %s", s.Name, c.Name)
		}
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-only", "warm"}, {"-rounds", "0"}, {"-links", "10"}, {"-clicks", "100000"}, {"-senders", "0"}, {"more"}, {"-unknown"}} {
		_, err := parseOptions(args)
		require.Error(t, err, args)
	}
}
