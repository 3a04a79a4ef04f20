package keyrange_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/keyrange"
)

func TestSpace_SpaceCountsItsPrefixesAndSuffixes(t *testing.T) {
	for _, c := range []struct {
		code, prefix, prefixes int
		suffixes               int64
	}{
		{5, 1, 62, 14_776_336},
		{5, 2, 3844, 238_328},
		{6, 3, 238_328, 238_328},
		{7, 2, 3844, 916_132_832},
		{10, 1, 62, 13_537_086_546_263_552},
		{10, 3, 238_328, 3_521_614_606_208},
	} {
		space, err := keyrange.NewSpace(c.code, c.prefix)
		require.NoError(t, err)
		require.Equal(t, c.code, space.CodeLength())
		require.Equal(t, c.prefix, space.PrefixLength())
		require.Equal(t, c.prefixes, space.Prefixes())
		require.Equal(t, c.suffixes, space.Suffixes())
	}
}

func TestSpace_SpaceRefusesLengthsOutOfBounds(t *testing.T) {
	for _, c := range [][2]int{{4, 1}, {11, 2}, {7, 0}, {7, 4}, {5, 3}, {0, 0}, {-7, -2}} {
		_, err := keyrange.NewSpace(c[0], c[1])
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), "%v", c)
	}
}

func TestSpace_PrefixesAreBase62WithLeadingZeros(t *testing.T) {
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	for ordinal, text := range map[int]string{0: "00", 9: "09", 10: "0A", 35: "0Z", 36: "0a", 61: "0z", 62: "10", 3843: "zz"} {
		require.Equal(t, text, space.Prefix(ordinal))
		got, _, ok := space.Split(waypost.Code(text + "00000"))
		require.True(t, ok)
		require.Equal(t, ordinal, got)
	}
	require.Panics(t, func() { space.Prefix(-1) })
	require.Panics(t, func() { space.Prefix(3844) })
}

func TestSpace_SpaceHoldsOnlyBlocksThatLieInIt(t *testing.T) {
	space, err := keyrange.NewSpace(5, 2)
	require.NoError(t, err)
	const all = 62 * 62 * 62
	require.True(t, space.Holds(keyrange.Block{Prefix: 0, Lo: 0, Hi: all}))
	require.True(t, space.Holds(keyrange.Block{Prefix: 3843, Lo: all - 1, Hi: all}))
	for _, b := range []keyrange.Block{
		{Prefix: -1, Lo: 0, Hi: 1},
		{Prefix: 3844, Lo: 0, Hi: 1},
		{Prefix: 0, Lo: -1, Hi: 1},
		{Prefix: 0, Lo: 5, Hi: 5},
		{Prefix: 0, Lo: 6, Hi: 5},
		{Prefix: 0, Lo: 0, Hi: all + 1},
	} {
		require.False(t, space.Holds(b), "%+v", b)
	}
	require.False(t, keyrange.Space{}.Holds(keyrange.Block{Prefix: 0, Lo: 0, Hi: 1}))
}

func TestSpace_ZeroSpaceHoldsNoCode(t *testing.T) {
	_, _, ok := keyrange.Space{}.Split("")
	require.False(t, ok)
}

func TestSpace_BlocksAndRangesCountWhatTheyHold(t *testing.T) {
	require.Equal(t, int64(10), keyrange.Block{Lo: 5, Hi: 15}.Len())
	require.Equal(t, int64(0), keyrange.Block{Lo: 15, Hi: 5}.Len())
}
