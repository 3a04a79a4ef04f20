package bench_test

import (
	"encoding/json"
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

func report() bench.Report {
	return bench.Report{
		Made:     time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC),
		Command:  "go run ./bench/redirect",
		Machine:  bench.Machine{CPU: "A CPU", Cores: 4, OS: "An OS", Go: "go1.26"},
		Settings: []bench.Setting{{Name: "links", Value: "100000"}},
		Cases: []bench.Case{
			{Name: "bare", What: "a constant.", Requests: 300, Rounds: []float64{10, 20, 10}},
			{Name: "redirect", What: "a link.", Requests: 200, Rounds: []float64{15, 24, 14}},
		},
	}
}

func TestAReportComparesEveryCaseWithTheFirst(t *testing.T) {
	r := report()
	require.NoError(t, r.Compare())
	require.Equal(t, bench.Summary{Median: 1, Min: 1, Max: 1}, r.Cases[0].Ratio)
	require.Equal(t, bench.Summary{Median: 1.4, Min: 1.2, Max: 1.5}, r.Cases[1].Ratio)
	require.Equal(t, bench.Summary{Median: 15, Min: 14, Max: 24}, r.Cases[1].CPU)

	r.Cases[1].Rounds = r.Cases[1].Rounds[1:]
	require.Error(t, r.Compare(), "a round is missing")
}

func TestAReportIsWrittenWhole(t *testing.T) {
	r := report()
	require.NoError(t, r.Compare())
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "RESULTS.md"), []byte("an older run"), 0o600))
	require.NoError(t, r.Write(dir))

	text, err := os.ReadFile(filepath.Join(dir, "RESULTS.md"))
	require.NoError(t, err)
	for _, part := range []string{
		"| redirect | 15.00 | 14.00 – 24.00 | 1.400 | 1.200 – 1.500 | 200 |\n",
		"* **bare**: a constant.\n",
		"* command: `go run ./bench/redirect`\n",
		"* date: 2026-03-01 12:30 UTC\n",
		"* machine: A CPU, 4 cores, An OS, go1.26\n",
		"* links: 100000\n",
	} {
		require.Contains(t, string(text), part)
	}
	require.NotContains(t, string(text), "an older run")

	data, err := os.ReadFile(filepath.Join(dir, "results.json"))
	require.NoError(t, err)
	var again bench.Report
	require.NoError(t, json.Unmarshal(data, &again))
	require.Equal(t, r, again)

	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2)
}

func TestAReportThatCannotBeWrittenSaysSo(t *testing.T) {
	r := report()
	require.Error(t, r.Write(filepath.Join(t.TempDir(), "missing")))
}

func TestThisMachineIsDescribed(t *testing.T) {
	m := bench.ThisMachine()
	require.NotEmpty(t, m.CPU)
	require.Positive(t, m.Cores)
	require.NotEmpty(t, m.OS)
	require.Contains(t, m.Go, "go1")
}
