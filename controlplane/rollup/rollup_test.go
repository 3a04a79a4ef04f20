package rollup_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost"
	"waypost/controlplane/rollup"
)

var dimensions = []rollup.Dimension{
	rollup.Country, rollup.City, rollup.Device, rollup.Browser, rollup.OS, rollup.Referrer, rollup.Rule, rollup.Variant,
	rollup.UTM, rollup.UTM + 1, rollup.UTM + 2, rollup.UTM + 3, rollup.UTM + 4,
}

// draw returns a random delta.
func draw(t *rapid.T) *rollup.Delta {
	p := &rollup.Delta{}
	for i := range rapid.IntRange(1, 4).Draw(t, "profiles") {
		p.Profiles = append(p.Profiles, waypost.ClickProfile{
			Country: rapid.SampledFrom([]string{"", "DE", "FR"}).Draw(t, "country"), City: rapid.SampledFrom([]string{
				"", "Paris",
				"Köln",
			}).Draw(t, "city"),
			Device: "mobile", Browser: rapid.SampledFrom([]string{"", "Firefox"}).Draw(t, "browser"),
			Referrer: rapid.SampledFrom([]string{"", "other", "www.example.com"}).Draw(t, "referrer"), Bot: i%2 == 1,
			Rule: rapid.SampledFrom([]uint8{0, 0, 1, 250}).Draw(t, "rule"), Variant: rapid.SampledFrom([]uint8{0, 0, 1, 2}).Draw(t, "variant"),
			UTM: waypost.PackUTM(waypost.UTMValues{rapid.SampledFrom([]string{"", "mail"}).Draw(t, "utm_source"), 4: rapid.SampledFrom([]string{"", "a"}).Draw(t, "utm_content")}),
		})
	}
	for quarter := range uint8(3) {
		for profile := range p.Profiles {
			if n := rapid.Uint64Range(0, 5).Draw(t, "clicks"); n > 0 || len(p.Rows) == 0 {
				p.Rows = append(p.Rows, rollup.Row{Quarter: 40 * quarter, Profile: uint32(profile), Clicks: n + 1})
			}
		}
	}
	for hash := range uint64(6) {
		if rapid.Bool().Draw(t, "visits") {
			p.Visitors = append(p.Visitors, rollup.Visitor{Hash: hash << 60, Bot: rapid.Bool().Draw(t, "bot")})
		}
	}
	return p
}

// bytes returns the packed forms of a day.
func bytes(d *rollup.Day) string {
	return fmt.Sprintf("%v %x %x", d.Quarters, d.Breakdown.Append(nil), d.Visitors.Append(nil))
}

func dayOf(parts ...*rollup.Delta) *rollup.Day {
	d := &rollup.Day{}
	for _, p := range parts {
		d.Fold(p)
	}
	return d
}

func TestDay_OrderInWhichPartsAreFoldedAndDaysMergedDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := draw(t), draw(t), draw(t)
		want := bytes(dayOf(a, b, c))
		require.Equal(t, want, bytes(dayOf(c, a, b)))

		left := dayOf(a, b)
		left.Merge(dayOf(c))
		right := dayOf(c)
		right.Merge(dayOf(b))
		whole := dayOf(a)
		whole.Merge(right)
		require.Equal(t, want, bytes(left))
		require.Equal(t, want, bytes(whole))
	})
}

func TestBreakdown_AbsorbAddsWhatMergeAdds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var absorbed, merged rollup.Breakdown
		for range rapid.IntRange(1, 5).Draw(t, "days") {
			d := dayOf(draw(t))
			absorbed.Absorb(&d.Breakdown)
			merged.Merge(&d.Breakdown)
		}
		require.Equal(t, merged.Append(nil), absorbed.Append(nil))
	})
}

func TestDay_EveryDimensionAddsUpToTheClicksAlsoAfterPacking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sum rollup.Count
		day := &rollup.Day{}
		for range rapid.IntRange(1, 5).Draw(t, "parts") {
			p := draw(t)
			sum.Add(p.Total())
			unpacked := &rollup.Delta{}
			require.NoError(t, unpacked.Unpack(p.Append(nil)))
			require.Equal(t, fmt.Sprint(p), fmt.Sprint(unpacked))
			day.Fold(unpacked)
			require.NoError(t, day.Breakdown.Unpack(day.Breakdown.Append(nil)))
		}
		require.Equal(t, sum, day.Total())
		for _, d := range dimensions {
			require.Equal(t, sum, day.Breakdown.Total(d))
		}
	})
}

func TestDay_NamesBeyondAThousandAreOthersAndTheMostClickedAreKept(t *testing.T) {
	b := &rollup.Breakdown{}
	for i := range 1_500 {
		b.Add(&waypost.ClickProfile{Referrer: fmt.Sprintf("host-%04d.example", i)}, rollup.Count{Clicks: uint64(i) + 1, Bots: uint64(i) / 2})
	}
	b.Add(&waypost.ClickProfile{Referrer: "other"}, rollup.Count{Clicks: 5_000})
	want := b.Total(rollup.Referrer)
	packed := b.Append(nil)
	require.NoError(t, b.Unpack(packed))
	names, other := b.Names(rollup.Referrer)
	require.Len(t, names, rollup.MaxNames)
	require.Equal(t, rollup.Named{Name: "other", Count: rollup.Count{Clicks: 5_000}}, names[0], "a referrer may be called so")
	require.Equal(t, "host-1499.example", names[1].Name)
	require.Equal(t, "host-0501.example", names[999].Name)
	require.Equal(t, uint64(501*502/2), other.Clicks)
	require.Equal(t, want, b.Total(rollup.Referrer))
	require.Equal(t, packed, b.Append(nil))
}

func TestDay_ShareOfAVariantIsOneOfItsRule(t *testing.T) {
	d := dayOf(&rollup.Delta{
		Profiles: []waypost.ClickProfile{{}, {Rule: 2}, {Rule: 1, Variant: 3}, {Rule: 4, Variant: 3, Bot: true}},
		Rows:     []rollup.Row{{Profile: 0, Clicks: 1}, {Profile: 1, Clicks: 2}, {Profile: 2, Clicks: 4}, {Profile: 3, Clicks: 8}},
	})
	rules, other := d.Breakdown.Names(rollup.Rule)
	require.Equal(t, []rollup.Named{
		{Name: "4", Count: rollup.Count{Clicks: 8, Bots: 8}},
		{Name: "1", Count: rollup.Count{Clicks: 4}},
		{Name: "2", Count: rollup.Count{Clicks: 2}},
		{Count: rollup.Count{Clicks: 1}},
	}, rules)
	require.Zero(t, other)
	variants, _ := d.Breakdown.Names(rollup.Variant)
	require.Equal(t, []rollup.Named{
		{Name: "4/3", Count: rollup.Count{Clicks: 8, Bots: 8}}, {Name: "1/3", Count: rollup.Count{Clicks: 4}}, {Count: rollup.Count{Clicks: 3}},
	}, variants)
	rule, variant := rollup.SplitVariant("4/3")
	require.Equal(t, []string{"4", "3"}, []string{rule, variant})
}

func TestBreakdown_KeepsAThousandValuesOfAUTMParameter(t *testing.T) {
	b := &rollup.Breakdown{}
	for i := range 1_500 {
		utm := waypost.PackUTM(waypost.UTMValues{2: fmt.Sprintf("campaign %04d", i)})
		b.Add(&waypost.ClickProfile{UTM: utm}, rollup.Count{Clicks: uint64(i) + 1})
	}
	require.NoError(t, b.Unpack(b.Append(nil)))
	names, other := b.Names(rollup.UTM + 2)
	require.Len(t, names, rollup.MaxNames)
	require.Equal(t, "campaign 1499", names[0].Name)
	require.Equal(t, uint64(500*501/2), other.Clicks)
	names, other = b.Names(rollup.UTM)
	require.Equal(t, []rollup.Named{{Count: rollup.Count{Clicks: 1500 * 1501 / 2}}}, names)
	require.Zero(t, other)
}

// Most links have neither, and no utm parameters.
func TestBreakdown_WithoutRulesTakesOneByteMoreForThem(t *testing.T) {
	profile := waypost.ClickProfile{Country: "DE", Device: "mobile"}
	b := dayOf(&rollup.Delta{Profiles: []waypost.ClickProfile{profile}, Rows: []rollup.Row{{Clicks: 7}}}).Breakdown
	packed := b.Append(nil)
	const unknown = "01" + "00" + "0700" + "0000"
	require.Equal(t, "01"+ // version
		"01"+"024445"+"0700"+"0000"+unknown+"01"+"066d6f62696c65"+"0700"+"0000"+unknown+unknown+unknown+
		"00", fmt.Sprintf("%x", packed))
	again := &rollup.Breakdown{}
	require.NoError(t, again.Unpack(packed))
	require.Equal(t, rollup.Count{Clicks: 7}, again.Total(rollup.Variant))
}

func TestDay_CitiesOfOneNameInTwoCountriesAreTwo(t *testing.T) {
	b := &rollup.Breakdown{}
	b.Add(&waypost.ClickProfile{Country: "FR", City: "Paris"}, rollup.Count{Clicks: 2})
	b.Add(&waypost.ClickProfile{Country: "US", City: "Paris"}, rollup.Count{Clicks: 1})
	b.Add(&waypost.ClickProfile{Country: "US"}, rollup.Count{Clicks: 4})
	names, _ := b.Names(rollup.City)
	require.Equal(t, []rollup.Named{{"", rollup.Count{Clicks: 4}}, {"FR/Paris", rollup.Count{Clicks: 2}}, {
		"US/Paris",
		rollup.Count{Clicks: 1},
	}}, names)
	country, city := rollup.SplitCity("FR/Paris")
	require.Equal(t, []string{"FR", "Paris"}, []string{country, city})
	country, city = rollup.SplitCity(rollup.CityName("US", ""))
	require.Equal(t, []string{"", ""}, []string{country, city})
}

// hash returns 40 bits of a hash, as an edge sends them.
func hash(r *rand.Rand) uint64 { return r.Uint64() & waypost.VisitorBits }

func TestDay_UpToTwoThousandVisitorsAreToldExactly(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	v := &rollup.Visitors{}
	for n := range uint64(2_048) {
		h := hash(r)
		for range 3 { // however often they come
			v.Add(h, false)
		}
		all, bots := v.Count()
		require.Equal(t, n+1, all)
		require.Zero(t, bots)
	}
	v.Add(7<<40, true)
	all, bots := v.Count()
	require.Equal(t, []uint64{2_049, 1}, []uint64{all, bots}, "bots are among all and apart")
	require.Less(t, len(v.Append(nil)), 5*2_049+10)
}

func TestDay_HundredThousandVisitorsOfThreeEdgesThatOverlapAreToldWithinTwoPercent(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 3))
		edges := [3]rollup.Visitors{}
		for range 100_000 {
			h, bot := hash(r), r.IntN(10) == 0
			some := 1 + r.IntN(7) // one to three edges see each of them
			for i := range edges {
				if some>>i&1 == 1 {
					edges[i].Add(h, bot)
				}
			}
		}
		merged := &rollup.Visitors{}
		for i := range edges {
			var unpacked rollup.Visitors
			require.NoError(t, unpacked.Unpack(edges[i].Append(nil)))
			merged.Merge(&unpacked)
		}
		all, bots := merged.Count()
		require.InEpsilon(t, 100_000, all, 0.02)
		require.InEpsilon(t, 10_000, bots, 0.04)
	}
}

func TestDay_SketchesTellManyVisitorsAndFew(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	v := &rollup.Visitors{}
	n := 0
	for _, many := range []int{2_049, 3_000, 10_000, 50_000, 300_000, 1_000_000} {
		for ; n < many; n++ {
			v.Add(hash(r), false)
		}
		all, _ := v.Count()
		require.InEpsilon(t, many, all, 0.025)
	}
}

func TestDay_SameVisitorsGiveTheSameBytesInWhateverOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	for _, n := range []int{10, 2_048, 2_049, 6_000} {
		hashes := make([]uint64, n)
		for i := range hashes {
			hashes[i] = hash(r)
		}
		forth, back, halves := &rollup.Visitors{}, &rollup.Visitors{}, [2]rollup.Visitors{}
		for i := range hashes {
			forth.Add(hashes[i], false)
			back.Add(hashes[n-1-i], false)
			halves[i%2].Add(hashes[i], false)
		}
		halves[1].Merge(&halves[0])
		want := forth.Append(nil)
		require.Equal(t, want, back.Append(nil))
		require.Equal(t, want, halves[1].Append(nil))
		twice := &rollup.Visitors{}
		twice.Merge(forth)
		twice.Merge(forth)
		require.Equal(t, want, twice.Append(nil))
	}
}

func TestDay_CountsStopAtTheirBound(t *testing.T) {
	c := rollup.Count{Clicks: rollup.MaxCount - 1}
	c.Add(rollup.Count{Clicks: math.MaxUint64, Bots: 3})
	require.Equal(t, rollup.Count{Clicks: rollup.MaxCount, Bots: 3}, c)
}

func TestDay_WhatABreakdownLacksIsAmongOthers(t *testing.T) {
	d := &rollup.Day{}
	d.Quarters[5] = rollup.Count{Clicks: 7, Bots: 2}
	d.Breakdown.Add(&waypost.ClickProfile{Country: "DE"}, rollup.Count{Clicks: 3, Bots: 1})
	d.Complete()
	for _, dim := range dimensions {
		require.Equal(t, d.Total(), d.Breakdown.Total(dim))
	}
	_, other := d.Breakdown.Names(rollup.Country)
	require.Equal(t, rollup.Count{Clicks: 4, Bots: 1}, other)
}
