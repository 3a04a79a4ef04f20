package clicks

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

// Codes that begin alike, or differ in length or domain alone, are links of their
// own, however many there are; and what was there before reset is gone.
func TestTotalsAreWhatAMapWouldHave(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	sums := newTotals()
	for round, links := range []int{3000, 10, 20_000, 500} {
		sums.reset()
		type key struct {
			domain waypost.DomainID
			code   string
		}
		want, clicks := map[key]waypost.ClickTotal{}, uint64(0)
		for range 3 * links {
			length := waypost.MinCodeLength + random.IntN(waypost.MaxCodeLength-waypost.MinCodeLength+1)
			code := strings.Repeat("a", length)
			if random.IntN(3) > 0 {
				code = code[:length-3] + string("abcdefghij"[random.IntN(10)]) + string("xyz012-_"[random.IntN(8)]) + string("ABCDEFGH"[random.IntN(8)])
			}
			k := key{waypost.DomainID(random.IntN(1 + links/100)), code}
			at := random.Int64N(1000)
			require.True(t, sums.add(record{domain: k.domain, code: []byte(code), at: at}))
			sum, known := want[k]
			if !known {
				sum.Last = at
			}
			want[k] = waypost.ClickTotal{Domain: k.domain, Code: waypost.Code(code), Count: sum.Count + 1, Last: max(sum.Last, at)}
			clicks++
		}
		require.True(t, sums.add(record{domain: 1, code: []byte("no code")}), "it is passed over")
		got := sums.sorted()
		require.Equal(t, clicks, sums.clicks)
		require.Equal(t, len(want), len(got), "round %d", round)
		for i := range got {
			require.Equal(t, want[key{got[i].Domain, string(got[i].Code)}], got[i])
		}
		require.True(t, slices.IsSortedFunc(got, func(a, b waypost.ClickTotal) int {
			if a.Before(&b) {
				return -1
			}
			return 1
		}))
	}
}

func TestTotalsTakeAsManyLinksAsABatch(t *testing.T) {
	sums := newTotals()
	for n := range waypost.MaxClickTotals {
		require.True(t, sums.add(record{domain: waypost.DomainID(n), code: []byte("abcdefghi")}))
	}
	require.False(t, sums.add(record{domain: waypost.MaxClickTotals, code: []byte("abcdefghi")}))
	require.True(t, sums.add(record{domain: 7, code: []byte("abcdefghi")}), "of a link that is in it")
	require.EqualValues(t, waypost.MaxClickTotals+1, sums.clicks)
}

func TestAddingUpDoesNotAllocateOnceTheTableHasGrown(t *testing.T) {
	sums, codes := newTotals(), make([][]byte, 1000)
	for i := range codes {
		codes[i] = []byte{'a', 'b', "0123456789"[i%10], "0123456789"[i/10%10], "0123456789"[i/100]}
	}
	fill := func() {
		sums.reset()
		for _, code := range codes {
			sums.add(record{domain: 1, code: code, at: 5})
		}
	}
	fill()
	require.Zero(t, testing.AllocsPerRun(20, fill))
}
