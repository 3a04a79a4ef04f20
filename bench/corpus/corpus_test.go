package corpus_test

import (
	"bufio"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/bench/corpus"
)

func random() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func TestCodesAreDifferentAndOfTheRightShape(t *testing.T) {
	seen := map[string]bool{}
	for n := range uint64(20_000) {
		code := string(corpus.AppendCode(nil, n))
		if seen[code] || !waypost.ValidCode([]byte(code)) {
			t.Fatal(code)
		}
		seen[code] = true
	}
}

func TestTargetsAreUniqueAndAsLongAsRealOnes(t *testing.T) {
	const count = 20_000
	targets, err := corpus.ReadTargets("../../testdata/links.csv")
	require.NoError(t, err)
	seen, length := map[string]bool{}, 0
	for n := range uint64(count) {
		target := string(targets.Append(nil, n))
		if n%97 == 0 {
			u, err := url.Parse(target)
			require.NoError(t, err, target)
			require.NotEmpty(t, u.Host, target)
		}
		if seen[target] {
			t.Fatal(target)
		}
		seen[target] = true
		length += len(target)
	}
	require.InDelta(t, 90, float64(length)/count, 3)
	require.Equal(t, targets.Append(nil, 7), targets.Append(nil, 7))
}

func TestTargetsNeedRealLinks(t *testing.T) {
	_, err := corpus.ReadTargets("missing.csv")
	require.Error(t, err)
	_, err = corpus.ReadTargets("doc.go")
	require.Error(t, err)
}

// The shares are those of the harmonic series.
func TestZipfDrawsEveryRankInProportion(t *testing.T) {
	for _, n := range []uint64{1, 2, 10, 100_000} {
		const draws = 100_000
		z := corpus.NewZipf(random(), n)
		counts := map[uint64]int{}
		for range draws {
			k := z.Next()
			if k >= n {
				t.Fatalf("rank %d of %d", k, n)
			}
			counts[k]++
		}
		var harmonic float64
		for k := range n {
			harmonic += 1 / float64(k+1)
		}
		for k := range min(n, 10) {
			expected := draws / float64(k+1) / harmonic
			require.InDelta(t, expected, float64(counts[k]), 6*math.Sqrt(expected), "rank %d of %d", k, n)
		}
		var upper, expected float64 // the upper half together
		for k := range n {
			if k >= n/2 {
				upper += float64(counts[k])
				expected += draws / float64(k+1) / harmonic
			}
		}
		require.InDelta(t, expected, upper, 6*math.Sqrt(expected)+1, "upper half of %d", n)
	}
}

func TestVisits(t *testing.T) {
	const links, count = 50, 2000
	known := map[string]bool{}
	for n := range uint64(links) {
		known[string(corpus.AppendCode(nil, n))] = true
	}
	for access, hits := range map[corpus.Access]bool{corpus.Uniform: true, corpus.Zipfian: true, corpus.Missing: false} {
		codes, err := corpus.Visits(random(), access, links, count)
		require.NoError(t, err)
		require.Len(t, codes, count*corpus.CodeLength)
		for ; len(codes) > 0; codes = codes[corpus.CodeLength:] {
			require.Equal(t, hits, known[string(codes[:corpus.CodeLength])], access)
		}
	}
	_, err := corpus.Visits(random(), "sideways", links, count)
	require.Error(t, err)
}

func TestRequestsAreHTTP(t *testing.T) {
	for headers, lines := range map[corpus.Headers]int{corpus.Bare: 1, corpus.Browser: 13} {
		tail, err := headers.Tail()
		require.NoError(t, err)
		require.Equal(t, lines, headers.Lines())
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(corpus.Head + "abcdefg" + tail)))
		require.NoError(t, err)
		require.Equal(t, "/abcdefg", r.URL.Path)
		require.Equal(t, "wayp.example", r.Host)
	}
	_, err := corpus.Headers("none").Tail()
	require.Error(t, err)
}
