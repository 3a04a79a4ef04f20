//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/bench"
	"waypost/bench/corpus"
)

const realLinks = "../../testdata/links.csv"

func TestARunMeasuresEverythingAndWritesItDown(t *testing.T) {
	o, err := parseOptions([]string{"-rounds", "1", "-round", "20ms", "-create-rounds", "2", "-create-round", "20ms", "-targets", realLinks, "-out", t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, measure(t.Context(), o))
	r, err := bench.Read(o.Out, "keys")
	require.NoError(t, err)
	require.Len(t, r.Sections, len(names()))
	for i, s := range r.Sections {
		require.Equal(t, names()[i], s.Name)
		require.NotEmpty(t, s.Goals, s.Name)
		for _, c := range s.Cases {
			require.Positive(t, c.Requests, "%s: %s", s.Name, c.Name)
			require.Positive(t, c.Measures[0].Summary.Median, "%s: %s", s.Name, c.Name)
		}
	}
	text, err := os.ReadFile(filepath.Join(o.Out, "RESULTS.md"))
	require.NoError(t, err)
	require.Contains(t, string(text), "creates per second")
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for name, args := range map[string]string{
		"unknown section":  "-only nothing",
		"unknown argument": "now",
		"-rounds":          "-rounds 0",
		"-round":           "-round 1us",
		"-create-round":    "-create-round 1h",
		"-callers":         "-callers 0",
	} {
		_, err := parseOptions(strings.Fields(args))
		require.ErrorContains(t, err, name)
	}
}

func TestCreatesWithoutTheKGSTakeNoLeaseAndThoseWithItDo(t *testing.T) {
	db, err := startDatabase(t.Context(), filepath.Join(t.TempDir(), "postgres"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Stop()) }()
	free, err := newFreeLeases(t.Context(), db)
	require.NoError(t, err)
	without, _ := db.Service(free, "test/1")
	defer func() { require.NoError(t, without.Close(t.Context())) }()
	targets, err := corpus.ReadTargets(realLinks)
	require.NoError(t, err)
	load := &createLoad{db: db, targets: targets, callers: 8}
	leases := func() (n int) {
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM key_lease`).Scan(&n))
		return n
	}

	_, created, err := load.round(t.Context(), without, 20*time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, created)
	require.Zero(t, leases())

	with, _ := db.Service(db, "test/2")
	defer func() { require.NoError(t, with.Close(t.Context())) }()
	_, more, err := load.round(t.Context(), with, 20*time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, leases())
	var links int64
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM link`).Scan(&links))
	require.Equal(t, created+more, links)
}

func TestRandomCodesUseTheWholeAlphabetAlike(t *testing.T) {
	const codes = 20_000
	seen := make(map[rune]int)
	for range codes {
		code := randomCode()
		require.Len(t, code, randomLength)
		for _, c := range code {
			seen[c]++
		}
	}
	require.Len(t, seen, len(alphabet))
	for c, n := range seen {
		require.InEpsilon(t, codes*randomLength/len(alphabet), n, 0.2, string(c))
	}
}

func TestWhatWasUsedIsDividedByWhatWasDone(t *testing.T) {
	start := time.Now()
	before := usage{at: start, allocations: 10, cpu: bench.CPU{Self: time.Second, Postgres: map[int]time.Duration{1: time.Second, 2: time.Minute}}}
	after := usage{at: start.Add(4 * time.Second), allocations: 30, cpu: bench.CPU{Self: 3 * time.Second, Postgres: map[int]time.Duration{1: 2 * time.Second, 3: time.Second}}}
	require.Equal(t, spent{wall: 2e9, cpu: 1e9, postgres: 1e9, allocations: 10}, after.since(before, 2))
}

func TestGoalsCompareWhatWasMeasured(t *testing.T) {
	rounds := func(rate, cpu float64) []spent { return []spent{{wall: 1e9 / rate, cpu: cpu, postgres: 1}} }
	s := bench.Section{Cases: []bench.Case{
		(&creator{name: withoutKeys, spent: rounds(1000, 5e3)}).report(),
		(&creator{name: withKeys, spent: rounds(970, 5e3)}).report(),
		(&contender{name: mint, spent: rounds(1e6, 299)}).report(),
	}}
	s.Cases[2].Base = ""
	require.NoError(t, s.Compare())
	setGoals(&s)
	met := make(map[string]bool)
	for _, g := range s.Goals {
		met[g.What] = g.Met()
	}
	require.Equal(t, map[string]bool{
		"ns of CPU for a key of " + mint:                        true,
		"allocations for a key of " + mint:                      true,
		"creates per second without the KGS over those with it": false,
	}, met)
}
