//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/bench"
)

func TestARunMeasuresEverythingAndWritesItDown(t *testing.T) {
	o, err := parseOptions([]string{"-links", "2000", "-changes", "2000", "-rounds", "1", "-creates", "10", "-rate", "100", "-targets", "../../testdata/links.csv", "-out", t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, measure(t.Context(), o))
	r, err := bench.Read(o.Out, "replication")
	require.NoError(t, err)
	require.Len(t, r.Sections, 3)
	for _, s := range r.Sections {
		require.NotEmpty(t, s.Goals, s.Name)
		for _, c := range s.Cases {
			require.Positive(t, c.Measures[0].Summary.Median, "%s: %s", s.Name, c.Name)
		}
	}
	text, err := os.ReadFile(filepath.Join(o.Out, "RESULTS.md"))
	require.NoError(t, err)
	require.Contains(t, string(text), "Snapshots of 2000 links")
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for name, args := range map[string]string{
		"unknown section": "-only nothing", "unknown argument": "now", "-rounds": "-rounds 0", "-rate": "-rate 0", "-links": "-links 1",
	} {
		_, err := parseOptions(strings.Fields(args))
		require.ErrorContains(t, err, name)
	}
}
