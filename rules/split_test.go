package rules_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/rules"
)

// split returns the record of a link that divides its visitors by weights.
func split(t testing.TB, by string, weights ...int) *waypost.Record {
	s := rules.Split{By: by}
	for i, w := range weights {
		s.Variants = append(s.Variants, rules.Variant{Weight: w, To: "https://example.com/" + string(rune('a'+i))})
	}
	return record(t, rules.Source{Rules: []rules.Rule{{Split: &s}}})
}

// variantOf returns the variant of the nth visitor.
func variantOf(r *waypost.Record, n uint32) uint8 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n<<8) // each has a network of its own
	f := rules.Facts{Address: netip.AddrFrom4(b), UserAgent: []byte("Mozilla/5.0 (iPhone)")}
	return rules.Resolve(r, &f).Variant
}

func TestSplit_AMillionVisitorsAreDividedByTheWeights(t *testing.T) {
	r := split(t, rules.ByVisitor, 70, 20, 10)
	var n [4]int
	const visitors = 1_000_000
	for i := range uint32(visitors) {
		n[variantOf(r, i)]++
	}
	for variant, want := range map[int]float64{1: 0.7, 2: 0.2, 3: 0.1} {
		require.InDelta(t, want, float64(n[variant])/visitors, 0.002, "variant %d", variant)
	}
}

func TestSplit_AChangeOfWeightsMovesOnlyTheDifference(t *testing.T) {
	before, after := split(t, rules.ByVisitor, 50, 50), split(t, rules.ByVisitor, 60, 40)
	moved, back := 0, 0
	const visitors = 100_000
	for i := range uint32(visitors) {
		was, is := variantOf(before, i), variantOf(after, i)
		if was != is {
			moved++
		}
		if was == 1 && is != 1 {
			back++
		}
	}
	require.InDelta(t, 0.1, float64(moved)/visitors, 0.01)
	require.Zero(t, back, "only visitors of the smaller half move")
}

func TestSplit_AVisitorIsANetworkAndABrowserUnderTheLinksOwnKey(t *testing.T) {
	hash := func(key byte, address, agent string) uint16 {
		return rules.VisitorHash([]byte{key, 15: 0}, netip.MustParseAddr(address), []byte(agent))
	}
	first := hash(1, "192.0.2.1", "a")
	require.Equal(t, first, hash(1, "192.0.2.254", "a"), "the same /24")
	require.Equal(t, first, hash(1, "::ffff:192.0.2.9", "a"), "however it is written")
	require.Equal(t, hash(1, "2001:db8:1:2::3", "a"), hash(1, "2001:db8:1:ffff::1", "a"), "the same /48")
	for _, other := range []uint16{
		hash(2, "192.0.2.1", "a"), hash(1, "192.0.3.1", "a"), hash(1, "192.0.2.1", "b"), hash(1, "2001:db8:1::1", "a"),
	} {
		require.NotEqual(t, first, other)
	}
}

func TestSplit_ACookieKeepsAVariantWhileItHasWeight(t *testing.T) {
	r := split(t, rules.ByCookie, 50, 50)
	res := rules.Resolve(r, visit{chance: 0xffff}.facts(r))
	require.Equal(t, uint8(2), res.Variant)
	require.True(t, res.Keep, "the cookie is to be set")
	res = rules.Resolve(r, visit{cookie: "a=b; waypost_variant=1", chance: 0xffff}.facts(r))
	require.Equal(t, uint8(1), res.Variant)
	require.False(t, res.Keep, "it is set")
	for _, cookie := range []string{
		"waypost_variant=9", "waypost_variant=", "waypost_variant=1x", "waypost_variant=257", "Waypost_variant=1", "x=waypost_variant=1",
	} {
		res = rules.Resolve(r, visit{cookie: cookie, chance: 0xffff}.facts(r))
		require.Equal(t, uint8(2), res.Variant, cookie)
		require.True(t, res.Keep, cookie)
	}
	paused := split(t, rules.ByCookie, 0, 50)
	require.Equal(t, uint8(2), rules.Resolve(paused, visit{cookie: "waypost_variant=1"}.facts(paused)).Variant)
}

func TestSplit_ByNoneIsByChanceAtEachVisit(t *testing.T) {
	r := split(t, rules.ByNone, 1, 1)
	require.Equal(t, uint8(1), rules.Resolve(r, visit{chance: 0x7fff}.facts(r)).Variant)
	require.Equal(t, uint8(2), rules.Resolve(r, visit{chance: 0x8000}.facts(r)).Variant)
}
