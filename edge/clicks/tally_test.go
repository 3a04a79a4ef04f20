package clicks

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api/clickbatch"
)

// Codes that begin alike, or differ in length or domain alone, are links of their
// own, however many there are; and what was there before reset is gone.
func TestTally_HasWhatAMapWouldHave(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	sums := newTally(nil, nil)
	for round, links := range []int{3000, 10, 20_000, 500} {
		sums.reset()
		type key struct {
			domain waypost.DomainID
			code   string
		}
		type sum struct {
			count uint64
			last  int64
		}
		want, clicks := map[key]sum{}, uint64(0)
		for range 3 * links {
			length := waypost.MinCodeLength + random.IntN(waypost.MaxCodeLength-waypost.MinCodeLength+1)
			code := strings.Repeat("a", length)
			if random.IntN(3) > 0 {
				code = code[:max(length-3, 0)] + string("abcdefghij"[random.IntN(10)]) + string("xyz012-_"[random.IntN(8)]) +
					string("ABCDEFGH"[random.IntN(8)])
			}
			k := key{waypost.DomainID(random.IntN(1 + links/100)), code}
			at := random.Int64N(1000)
			require.True(t, sums.addClick(&record{Domain: k.domain, Code: []byte(code), At: at}, nil))
			want[k] = sum{want[k].count + 1, max(want[k].last, at)}
			clicks++
		}
		require.True(t, sums.addClick(&record{Domain: 1, Code: []byte("no code")}, nil), "it is passed over")
		sorted := round%2 == 0
		got := sums.batch(sorted).Links
		require.Equal(t, clicks, sums.clicks())
		require.Equal(t, len(want), len(got), "round %d", round)
		for i := range got {
			l := &got[i]
			n := uint64(0)
			for _, r := range l.Rows {
				n += r.Count
			}
			require.Equal(t, want[key{l.Domain, string(l.Code)}], sum{n, l.Last})
			if sorted && i > 0 {
				o := &got[i-1]
				require.True(t, o.Domain < l.Domain || o.Domain == l.Domain && o.Code < l.Code)
			}
		}
	}
}

func TestTally_TakesAsManyLinksAsABatch(t *testing.T) {
	sums := newTally(nil, nil)
	for n := range clickbatch.MaxLinks {
		require.True(t, sums.addClick(&record{Domain: waypost.DomainID(n), Code: []byte("abcdefghi")}, nil))
	}
	require.False(t, sums.addClick(&record{Domain: clickbatch.MaxLinks, Code: []byte("abcdefghi")}, nil))
	require.True(t, sums.addClick(&record{Domain: 7, Code: []byte("abcdefghi")}, nil), "of a link that is in it")
	require.EqualValues(t, clickbatch.MaxLinks+1, sums.clicks())
}

func TestTally_AddingUpDoesNotAllocateOnceTheTableHasGrown(t *testing.T) {
	sums, codes := newTally(nil, nil), make([][]byte, 1000)
	for i := range codes {
		codes[i] = []byte{'a', 'b', "0123456789"[i%10], "0123456789"[i/10%10], "0123456789"[i/100]}
	}
	fill := func() {
		sums.reset()
		for _, code := range codes {
			sums.addClick(&record{Domain: 1, Code: code, At: 5}, nil)
		}
	}
	fill()
	require.Zero(t, testing.AllocsPerRun(200, fill))
}
