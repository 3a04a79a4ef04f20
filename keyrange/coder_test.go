package keyrange_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost"
	"waypost/keyrange"
)

// secret of all tests: what they find must be found again.
var secret = func() (s [32]byte) {
	for i := range s {
		s[i] = byte(i)
	}
	return s
}()

func newCoder(t testing.TB, codeLength, prefixLength int) *keyrange.Coder {
	t.Helper()
	space, err := keyrange.NewSpace(codeLength, prefixLength)
	require.NoError(t, err)
	return keyrange.NewCoder(space, secret)
}

func TestCoder_EveryCounterOfASmallSpaceHasItsOwnCodeAndComesBack(t *testing.T) {
	coder := newCoder(t, 5, 2)
	space := coder.Space()
	for _, prefix := range []int{0, space.Prefixes() - 1} {
		seen := make([]bool, space.Suffixes())
		for counter := range space.Suffixes() {
			code := coder.Encode(prefix, counter)
			gotPrefix, suffix, ok := space.Split(code)
			if !ok || gotPrefix != prefix || seen[suffix] {
				t.Fatalf("counter %d of prefix %d became %q, which is malformed or was another's", counter, prefix, code)
			}
			seen[suffix] = true
			if _, back, ok := coder.Decode(code); !ok || back != counter {
				t.Fatalf("counter %d of prefix %d became %q, which decodes to %d", counter, prefix, code, back)
			}
		}
	}
}

func TestCoder_CounterComesBackFromItsCodeAtEveryLength(t *testing.T) {
	coders := map[[2]int]*keyrange.Coder{}
	for length := keyrange.MinCodeLength; length <= keyrange.MaxCodeLength; length++ {
		for prefix := keyrange.MinPrefixLength; prefix <= min(keyrange.MaxPrefixLength, length-keyrange.MinSuffixLength); prefix++ {
			coders[[2]int{length, prefix}] = newCoder(t, length, prefix)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.IntRange(keyrange.MinCodeLength, keyrange.MaxCodeLength).Draw(t, "code length")
		prefixLength := rapid.IntRange(keyrange.MinPrefixLength, min(keyrange.MaxPrefixLength, length-keyrange.MinSuffixLength)).Draw(t,
			"prefix length")
		coder := coders[[2]int{length, prefixLength}]
		prefix := rapid.IntRange(0, coder.Space().Prefixes()-1).Draw(t, "prefix")
		counter := rapid.Int64Range(0, coder.Space().Suffixes()-1).Draw(t, "counter")

		code := coder.Encode(prefix, counter)
		require.Len(t, string(code), length)
		require.Equal(t, coder.Space().Prefix(prefix), string(code[:prefixLength]))
		require.True(t, waypost.ValidCode(string(code)))

		gotPrefix, gotCounter, ok := coder.Decode(code)
		require.True(t, ok)
		require.Equal(t, prefix, gotPrefix)
		require.Equal(t, counter, gotCounter)
	})
}

func TestCoder_SuffixCharactersOfConsecutiveCountersAreSpreadEvenly(t *testing.T) {
	coder := newCoder(t, 7, 2)
	const perCharacter = 1000
	var count [7][256]int
	for counter := range int64(62 * perCharacter) {
		code := coder.Encode(1234, counter)
		for position := range code {
			count[position][code[position]]++
		}
	}
	for position := 2; position < 7; position++ {
		var chi float64
		for _, c := range []byte("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") {
			difference := float64(count[position][c] - perCharacter)
			chi += difference * difference / perCharacter
		}
		// 61 degrees of freedom: 99.9 % of random samples lie below 100.9, and 99.9 % above 30.
		require.Less(t, chi, 100.9, "character %d is uneven", position)
		require.Greater(t, chi, 30.0, "character %d is too even to look random", position)
	}
}

func TestCoder_PrefixesSecretsAndLengthsHaveMappingsOfTheirOwn(t *testing.T) {
	other := secret
	other[31] ^= 1
	coder := newCoder(t, 7, 2)
	suffix := func(c *keyrange.Coder, prefix int, counter int64) int64 {
		_, suffix, ok := c.Space().Split(c.Encode(prefix, counter))
		require.True(t, ok)
		return suffix
	}
	for _, c := range []struct {
		name   string
		coder  *keyrange.Coder
		prefix int
	}{
		{"another prefix", coder, 6},
		{"another secret", keyrange.NewCoder(coder.Space(), other), 5},
		{"another prefix length with as many suffix characters", newCoder(t, 8, 3), 5},
	} {
		var same int
		for counter := range int64(10_000) {
			if suffix(coder, 5, counter) == suffix(c.coder, c.prefix, counter) {
				same++
			}
		}
		require.Less(t, same, 3, c.name)
	}
}

func TestCoder_DecodeRefusesWhatIsNoCodeOfTheSpace(t *testing.T) {
	coder := newCoder(t, 7, 2)
	for _, code := range []waypost.Code{
		"", "0", "000000", "00000000", "00-0000", "-000000", "0_00000", "000000_", "000000/", "00000 0",
		"00000\x00a", "0000\u00e90", "000000\xff", "{000000", "@000000", "[000000", "`000000", ":000000",
	} {
		_, _, ok := coder.Decode(code)
		require.False(t, ok, "%q", code)
	}
	_, _, ok := coder.Decode("0000000")
	require.True(t, ok)
}

func TestCoder_EncodeRefusesACounterOutsideOfTheSpace(t *testing.T) {
	coder := newCoder(t, 5, 2)
	for _, c := range []struct {
		prefix  int
		counter int64
	}{{-1, 0}, {62 * 62, 0}, {0, -1}, {0, 62 * 62 * 62}} {
		require.Panics(t, func() { coder.Encode(c.prefix, c.counter) }, "%v", c)
	}
}

func TestCoder_ManyGoroutinesSeeOneMapping(t *testing.T) {
	coder, alone := newCoder(t, 6, 2), newCoder(t, 6, 2)
	const prefixes = 200
	var want [prefixes]waypost.Code
	for prefix := range want {
		want[prefix] = alone.Encode(prefix, 99)
	}
	var got [8][prefixes]waypost.Code
	var wg sync.WaitGroup
	for worker := range got {
		wg.Go(func() {
			for prefix := range want {
				got[worker][prefix] = coder.Encode(prefix, 99)
			}
		})
	}
	wg.Wait()
	for worker := range got {
		require.Equal(t, want, got[worker])
	}
}

func TestCoder_EncodeAllocatesNothingButTheCode(t *testing.T) {
	coder := newCoder(t, 7, 2)
	var counter int64
	allocations := testing.AllocsPerRun(1000, func() {
		coder.Encode(3, counter)
		counter++
	})
	require.LessOrEqual(t, allocations, 1.0)
}

func FuzzDecodeGivesBackOnlyWhatEncodeMakes(f *testing.F) {
	for _, seed := range []string{"", "0000000", "zzzzzzz", "zz-zzzz", "abcdefgh", "00000\xff\xfe"} {
		f.Add(seed)
	}
	coder := newCoder(f, 7, 2)
	f.Fuzz(func(t *testing.T, text string) {
		prefix, counter, ok := coder.Decode(waypost.Code(text))
		if !ok {
			return
		}
		require.Equal(t, text, string(coder.Encode(prefix, counter)))
	})
}
