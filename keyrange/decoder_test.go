package keyrange_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/keyrange"
)

func TestADecoderKnowsTheCountersOfItsPrefixesAlone(t *testing.T) {
	for _, lengths := range [][2]int{{7, 2}, {5, 1}, {10, 3}} {
		space, err := keyrange.NewSpace(lengths[0], lengths[1])
		require.NoError(t, err)
		coder := keyrange.NewCoder(space, [32]byte{1, 2, 3})
		d := keyrange.NewDecoder(space, map[int]keyrange.Key{0: coder.Key(0), 17: coder.Key(17), space.Prefixes() - 1: coder.Key(space.Prefixes() - 1)})
		require.Equal(t, space, d.Space())
		for _, prefix := range []int{0, 17, space.Prefixes() - 1} {
			for range 1000 {
				counter := rand.Int64N(space.Suffixes())
				p, suffix, ok := space.Split(coder.Encode(prefix, counter))
				require.True(t, ok)
				require.Equal(t, prefix, p)
				got, known := d.Counter(p, suffix)
				require.True(t, known)
				require.Equal(t, counter, got)
			}
		}
		_, known := d.Counter(1, 5)
		require.False(t, known)
		require.NotEqual(t, coder.Key(0), coder.Key(1))
		require.NotEqual(t, coder.Key(0), keyrange.NewCoder(space, [32]byte{1}).Key(0))
	}
}

func TestTheCounterOfACodeIsFoundWithoutAllocating(t *testing.T) {
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	d := keyrange.NewDecoder(space, map[int]keyrange.Key{17: {1}})
	require.Zero(t, testing.AllocsPerRun(1000, func() { d.Counter(17, 12345) }))
}

func TestManyGoroutinesTellCountersAtOnce(t *testing.T) {
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	coder := keyrange.NewCoder(space, [32]byte{1})
	d := keyrange.NewDecoder(space, map[int]keyrange.Key{17: coder.Key(17)})
	var wait sync.WaitGroup
	for g := range int64(32) {
		wait.Go(func() {
			for n := range int64(200) {
				_, suffix, _ := space.Split(coder.Encode(17, n*1000+g))
				if got, known := d.Counter(17, suffix); !known || got != n*1000+g {
					t.Errorf("%d instead of %d", got, n*1000+g)
				}
			}
		})
	}
	wait.Wait()
}
