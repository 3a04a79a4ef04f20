package bench_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/bench"
)

func TestSummarize(t *testing.T) {
	for name, c := range map[string]struct {
		rounds []float64
		want   bench.Summary
	}{
		"no round is zero":                             {nil, bench.Summary{}},
		"one round is all three":                       {[]float64{3}, bench.Summary{Median: 3, Min: 3, Max: 3}},
		"the middle of an odd number":                  {[]float64{9, 1, 5}, bench.Summary{Median: 5, Min: 1, Max: 9}},
		"the mean of the middle two of an even number": {[]float64{8, 1, 4, 2}, bench.Summary{Median: 3, Min: 1, Max: 8}},
		"an outlier does not move the middle":          {[]float64{2, 2, 2, 2, 900}, bench.Summary{Median: 2, Min: 2, Max: 900}},
	} {
		t.Run(name, func(t *testing.T) {
			given := append([]float64(nil), c.rounds...)
			require.Equal(t, c.want, bench.Summarize(c.rounds))
			require.Equal(t, given, c.rounds, "the rounds keep their order")
		})
	}
}

func TestRatiosCompareRoundByRound(t *testing.T) {
	ratios, err := bench.Ratios([]float64{3, 40}, []float64{2, 20})
	require.NoError(t, err)
	require.Equal(t, []float64{1.5, 2}, ratios)

	_, err = bench.Ratios([]float64{1}, []float64{1, 2})
	require.Error(t, err)
	_, err = bench.Ratios([]float64{1}, []float64{0})
	require.Error(t, err)
}

func section(name string) bench.Section {
	cpu := func(rounds ...float64) []bench.Measure {
		return []bench.Measure{
			{Name: "CPU µs", Compared: true, Rounds: rounds},
			{Name: "memory MB", Rounds: rounds[:1]},
		}
	}
	return bench.Section{
		Name: name, Title: "One million links",
		Made:     time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC),
		Command:  "go run ./bench/redirect",
		Machine:  bench.Machine{CPU: "A CPU", Cores: 4, OS: "An OS", Go: "go1.26"},
		Settings: []bench.Setting{{Name: "links", Value: "1000000"}},
		Cases: []bench.Case{
			{Name: "bare", What: "a constant.", Requests: 300, Measures: cpu(10, 20, 10)},
			{Name: "redirect", What: "a link.", Base: "bare", Requests: 200, Measures: cpu(15, 24, 14)},
		},
		Goals: []bench.Goal{{What: "CPU over bare", Most: 1.2, Figure: 1.4}, {What: "memory", Most: 130, Figure: 124}},
		Notes: []string{"golink was not measured."},
	}
}

func TestEveryCaseIsComparedWithItsBase(t *testing.T) {
	s := section("one")
	require.NoError(t, s.Compare())
	require.Nil(t, s.Find("bare", "CPU µs").Ratio)
	require.Equal(t, &bench.Summary{Median: 1.4, Min: 1.2, Max: 1.5}, s.Find("redirect", "CPU µs").Ratio)
	require.Equal(t, bench.Summary{Median: 15, Min: 14, Max: 24}, s.Find("redirect", "CPU µs").Summary)
	require.Nil(t, s.Find("redirect", "memory MB").Ratio, "nobody asked for it")

	s.Cases[1].Measures[0].Rounds = s.Cases[1].Measures[0].Rounds[1:]
	require.Error(t, s.Compare(), "a round is missing")
	s.Cases[1].Base = "unknown"
	require.Error(t, s.Compare())
}

func TestASectionShowsItsFiguresAndHowTheyWereMade(t *testing.T) {
	s := section("one")
	s.Listing = "10% main.work\n"
	require.NoError(t, s.Compare())
	text := s.Markdown()
	for _, part := range []string{
		"| case | CPU µs | min – max | ratio | min – max | memory MB | requests |\n",
		"| bare | 10 | 10 – 20 |  |  | 10 | 300 |\n",
		"| redirect | 15 | 14 – 24 | 1.400 | 1.200 – 1.500 | 15 | 200 |\n",
		"* goal **missed**: CPU over bare ≤ 1.20, measured 1.40\n",
		"* goal **met**: memory ≤ 130, measured 124\n",
		"* **bare**: a constant.\n",
		"* golink was not measured.\n",
		"* made: 2026-03-01 12:30 UTC, `go run ./bench/redirect`, on A CPU, 4 cores, An OS, go1.26\n",
		"* links: 1000000\n",
		"```\n10% main.work\n```\n",
	} {
		require.Contains(t, text, part)
	}
}

func TestAFigureThatWasNotTakenIsLeftEmpty(t *testing.T) {
	s := section("one")
	s.Cases[1].Measures[1].Rounds = nil
	require.NoError(t, s.Compare())
	require.Contains(t, s.Table(), "| redirect | 15 | 14 – 24 | 1.400 | 1.200 – 1.500 |  | 200 |\n")
}

func TestASectionIsReplacedAndTheOthersStay(t *testing.T) {
	dir, order := t.TempDir(), []string{"one", "two"}
	r, err := bench.Read(dir, "redirect")
	require.NoError(t, err)
	require.Empty(t, r.Sections, "nothing was written yet")
	r.Title = "Redirects"
	for _, name := range []string{"two", "one"} {
		s := section(name)
		require.NoError(t, s.Compare())
		r.Put(s, order)
	}
	require.NoError(t, r.Write(dir))

	again, err := bench.Read(dir, "redirect")
	require.NoError(t, err)
	require.Equal(t, r, again)
	again.Put(bench.Section{Name: "two", Title: "Anew"}, order)
	require.Len(t, again.Sections, 2)
	require.Equal(t, "one", again.Sections[0].Name)
	require.Equal(t, "Anew", again.Sections[1].Title)
}

func TestResultsOfAllBenchmarksAreOnOnePage(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "RESULTS.md"), []byte("an older run"), 0o600))
	require.NoError(t, (&bench.Report{Name: "redirect", Title: "Redirects", Sections: []bench.Section{section("one")}}).Write(dir))
	require.NoError(t, (&bench.Report{Name: "keys", Title: "Keys", Method: "As fast as it goes."}).Write(dir))

	text, err := os.ReadFile(filepath.Join(dir, "RESULTS.md"))
	require.NoError(t, err)
	require.Regexp(t, `(?s)## Keys\n\nAs fast as it goes\.\n.*## Redirects\n\n### One million links\n`, string(text))
	require.NotContains(t, string(text), "an older run")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "nothing half-written stays behind")
}

func TestResultsThatCannotBeReadAreNotReplaced(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "results"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "results", "redirect.json"), []byte("{"), 0o600))
	_, err := bench.Read(dir, "redirect")
	require.Error(t, err)
	require.Error(t, (&bench.Report{Name: "../keys"}).Write(dir))
}

func TestThisMachineIsDescribed(t *testing.T) {
	m := bench.ThisMachine()
	require.NotEmpty(t, m.CPU)
	require.Positive(t, m.Cores)
	require.NotEmpty(t, m.OS)
	require.Contains(t, m.Go, "go1")
}
