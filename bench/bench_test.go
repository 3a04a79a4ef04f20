//go:build linux

package bench_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/bench"
)

func TestMedian(t *testing.T) {
	require.True(t, math.IsNaN(bench.Median(nil)))
	for want, rounds := range map[float64][]float64{3: {3}, 5: {9, 1, 5}, 2.5: {4, 1}, 2: {2, 2, 2, 2, 900}} {
		require.InDelta(t, want, bench.Median(rounds), 1e-9)
	}
}

func section(name string) bench.Section {
	cpu := func(rounds ...float64) []bench.Measure {
		return []bench.Measure{{Name: "CPU µs", Compared: true, Rounds: rounds}, {Name: "memory MB", Rounds: rounds[:1]}}
	}
	s := bench.Section{Name: name, Title: "One million links", Notes: []string{"nginx was not measured."}, Cases: []bench.Case{
		{Name: "bare", What: "a constant.", Measures: cpu(10, 20, 10)},
		{Name: "redirect", What: "a link.", Base: "bare", Measures: cpu(15, 24, 14)},
	}}
	s.AddRatioGoal("redirect", "CPU µs", 1.2)
	s.AddGoal("redirect", "memory MB", 130)
	s.AddGoal("unknown", "memory MB", 130)
	return s
}

func TestSection_ShowsFiguresRatiosAndGoals(t *testing.T) {
	s := section("one")
	text := s.Markdown()
	for _, part := range []string{
		"| case | CPU µs | ratio | memory MB |\n",
		"| bare | 10 (10 – 20) |  | 10 |\n",
		"| redirect | 15 (14 – 24) | 1.40 (1.20 – 1.50) | 15 |\n",
		"* goal **missed**: redirect, CPU µs over that of bare ≤ 1.20, measured 1.40\n",
		"* goal **met**: redirect, memory MB ≤ 130, measured 15\n",
		"* **bare**: a constant.\n* **redirect**: a link.\n* nginx was not measured.\n",
	} {
		require.Contains(t, text, part)
	}
	require.NotContains(t, text, "unknown")
}

func TestSection_ReplacesItselfInResults(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"one", "two", "three"} {
		s := section(name)
		require.NoError(t, s.Put(dir))
	}
	again := bench.Section{Name: "two", Title: "Measured later"}
	require.NoError(t, again.Put(dir))
	text, err := os.ReadFile(filepath.Join(dir, "RESULTS.md"))
	require.NoError(t, err)
	require.Regexp(t, `(?s)^# Measurements\n.*A goal is a bound.*\n\n<!-- section one -->\n\n## One.*<!-- section two -->\n\n## Measured later\n\n<!-- section three -->\n\n## One`, string(text))
	require.Equal(t, 2, strings.Count(string(text), "One million links"))

	head, _, _ := strings.Cut(string(text), "<!-- section")
	results, err := os.ReadFile("RESULTS.md")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(results), head), "the results have the head that the next run gives them")
}

func TestOptions_ChooseSections(t *testing.T) {
	for args, want := range map[string]string{
		"":                "small ",
		"-full":           "small large ",
		"-only large":     "large ",
		"-only large,bad": "",
	} {
		var o bench.Options
		require.NoError(t, o.Parse(o.Flags("x"), append(strings.Fields(args), "-out", t.TempDir())))
		ran := ""
		part := func(name string, full bool) bench.Part {
			return bench.Part{Name: name, Full: full, Measure: func(context.Context) (bench.Section, error) {
				ran += name + " "
				return section(name), nil
			}}
		}
		err := o.Run(t.Context(), []bench.Part{part("small", false), part("large", true)})
		require.Equal(t, want == "", err != nil, "%v", err)
		require.Equal(t, want, ran)
	}
	var o bench.Options
	require.Error(t, o.Parse(o.Flags("x"), []string{"-rounds", "0"}))
	require.Error(t, o.Parse(o.Flags("x"), []string{"more"}))
}

func TestOptions_AFailedSectionDoesNotStopTheOthers(t *testing.T) {
	var o bench.Options
	require.NoError(t, o.Parse(o.Flags("x"), []string{"-out", t.TempDir()}))
	ran := 0
	err := o.Run(t.Context(), []bench.Part{
		{Name: "one", Measure: func(context.Context) (bench.Section, error) { return bench.Section{}, errors.New("it failed") }},
		{Name: "two", Measure: func(context.Context) (bench.Section, error) { ran++; return section("two"), nil }},
	})
	require.ErrorContains(t, err, "one: it failed")
	require.Equal(t, 1, ran)
}
