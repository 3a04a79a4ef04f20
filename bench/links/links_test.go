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

const realLinks = "../../testdata/links.csv"

func TestARunOfListsMeasuresThemAndWritesThemDown(t *testing.T) {
	o, err := parseOptions([]string{"-only", "list", "-listed", "2000", "-rounds", "1", "-requests", "2", "-targets", realLinks, "-out", t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, measure(t.Context(), o))
	r, err := bench.Read(o.Out, "links")
	require.NoError(t, err)
	require.Len(t, r.Sections, 1)
	require.Len(t, r.Sections[0].Cases, len(listCases()))
	text, err := os.ReadFile(filepath.Join(o.Out, "RESULTS.md"))
	require.NoError(t, err)
	require.Contains(t, string(text), "Lists of 2000 links")
}

func TestAnImportAndCreatesAreMeasuredOnAWholeSystem(t *testing.T) {
	o, err := parseOptions([]string{"-only", "import,creates", "-import", "2000", "-plain", "1000", "-rounds", "1", "-round", "50ms", "-callers", "8", "-targets", realLinks, "-out", t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, measure(t.Context(), o))
	r, err := bench.Read(o.Out, "links")
	require.NoError(t, err)
	require.Len(t, r.Sections, 2)
	for _, s := range r.Sections {
		require.NotEmpty(t, s.Goals, s.Name)
		for _, c := range s.Cases {
			require.Positive(t, c.Measures[0].Summary.Median, "%s: %s", s.Name, c.Name)
		}
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for name, args := range map[string]string{
		"unknown section": "-only nothing", "unknown argument": "now", "-rounds": "-rounds 0", "-round": "-round 1us", "-callers": "-callers 0", "-import": "-import 1",
	} {
		_, err := parseOptions(strings.Fields(args))
		require.ErrorContains(t, err, name)
	}
}
