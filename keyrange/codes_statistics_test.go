package keyrange_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

// issued codes are issued in a row.
const issued = 10_000

func issue(t *testing.T, first int64) []waypost.Code {
	coder := newCoder(t, 7, 2)
	codes := make([]waypost.Code, issued)
	for i := range codes {
		codes[i] = coder.Encode(1234, first+int64(i))
		prefix, counter, ok := coder.Decode(codes[i])
		if !ok || prefix != 1234 || counter != first+int64(i) {
			t.Fatalf("counter %d became %q, which decodes to counter %d of prefix %d", first+int64(i), codes[i], counter, prefix)
		}
	}
	return codes
}

// withinChance reports whether n of trials is likely by chance, within six standard
// deviations to either side: one sample of 500 million lies outside, and about as few
// are near it. Rare events are Poisson distributed, which has a longer tail: hence the
// constant.
func withinChance(n, trials int, chance float64) bool {
	expected := float64(trials) * chance
	return math.Abs(float64(n)-expected) <= 6*math.Sqrt(expected*(1-chance))+6
}

// agreement counts, over pairs of codes, at how many positions of the suffix they agree,
// and how many first characters they have in common.
type agreement struct {
	pairs             int
	positions, common [6]int
}

func (a *agreement) add(x, y waypost.Code) {
	a.pairs++
	positions, common := 0, 0
	for i := 2; i < len(x); i++ {
		if x[i] == y[i] {
			if positions++; common == i-2 {
				common++
			}
		}
	}
	a.positions[positions]++
	a.common[common]++
}

func (a *agreement) check(t *testing.T, what string) {
	const same = 1.0 / 62
	binomial := [6]float64{1, 5, 10, 10, 5, 1}
	for k := range a.positions {
		chance := binomial[k] * math.Pow(same, float64(k)) * math.Pow(1-same, float64(5-k))
		require.True(t, withinChance(a.positions[k], a.pairs, chance), "%s: %d of %d pairs agree at %d positions, expected %.1f",
			what, a.positions[k], a.pairs, k, chance*float64(a.pairs))
		chance = math.Pow(same, float64(k)) * (1 - same)
		if k == 5 {
			chance = math.Pow(same, 5)
		}
		require.True(t, withinChance(a.common[k], a.pairs, chance), "%s: %d of %d pairs begin with the same %d characters, expected %.1f",
			what, a.common[k], a.pairs, k, chance*float64(a.pairs))
	}
	require.Zero(t, a.positions[5], "%s: a code was issued twice", what)
}

func TestCoder_TenThousandCodesInARowShareNoMoreThanChanceAllows(t *testing.T) {
	for _, first := range []int64{0, 40_000_000, 916_132_832 - issued} {
		codes := issue(t, first)
		for _, distance := range []int{1, 2, 3, 61, 62, 63, 1000, 3844, 5000} {
			var a agreement
			for i := distance; i < len(codes); i++ {
				a.add(codes[i-distance], codes[i])
			}
			a.check(t, "neighbours")
		}
		// Every pair of a part of them, for what no fixed distance shows.
		var a agreement
		for i := range 1500 {
			for j := range i {
				a.add(codes[i], codes[j])
			}
		}
		a.check(t, "all pairs")
	}
}

func TestCoder_NoTwoOfTenThousandCodesInARowAreTheSame(t *testing.T) {
	seen := make(map[waypost.Code]bool, issued)
	for _, code := range issue(t, 123_456_789) {
		require.False(t, seen[code], code)
		seen[code] = true
	}
}

// The numbers themselves: neighbours must not be near one another, nor all lie in the
// same order.
func TestCoder_SuffixesOfNeighboursAreFarApartAsOftenAsNear(t *testing.T) {
	coder := newCoder(t, 7, 2)
	const buckets = 64
	var distances [buckets]int
	ascending := 0
	for counter := range int64(issued) {
		_, a, _ := coder.Space().Split(coder.Encode(1234, counter))
		_, b, _ := coder.Space().Split(coder.Encode(1234, counter+1))
		size := coder.Space().Suffixes()
		distances[((b-a+size)%size)*buckets/size]++
		if a < b {
			ascending++
		}
	}
	require.True(t, withinChance(ascending, issued, 0.5), "%d of %d neighbours ascend", ascending, issued)
	for bucket, n := range distances {
		require.True(t, withinChance(n, issued, 1.0/buckets), "%d neighbours are %d/%d of the space apart", n, bucket, buckets)
	}
}

// The other direction, on the space that clusters have by default: too large to be
// exhausted, so whatever suffix is drawn must be some counter's, and any as likely.
func TestCoder_EverySuffixIsTheCodeOfSomeCounter(t *testing.T) {
	coder := newCoder(t, 7, 2)
	size := coder.Space().Suffixes()
	const drawn, buckets, stride = 20_000, 50, 45_791 // not a divisor of anything
	var counters [buckets]int
	for i := range int64(drawn) {
		suffix := i * stride % size
		code := []byte("Ju00000")
		for at, rest := 6, suffix; at > 1; at, rest = at-1, rest/62 {
			code[at] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[rest%62]
		}
		_, counter, ok := coder.Decode(waypost.Code(code))
		if !ok || counter < 0 || counter >= size || string(coder.Encode(1234, counter)) != string(code) {
			t.Fatalf("%q decodes to counter %d, whose code is another", code, counter)
		}
		counters[counter*buckets/size]++
	}
	for bucket, n := range counters {
		require.True(t, withinChance(n, drawn, 1.0/buckets), "%d suffixes belong to part %d of %d of the counters", n, bucket, buckets)
	}
}
