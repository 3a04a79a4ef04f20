package rollup_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost"
	"waypost/controlplane/rollup"
)

func drawBreakdown(t *rapid.T, label string) *rollup.Breakdown {
	b := &rollup.Breakdown{}
	for i, n := 0, rapid.IntRange(0, 8).Draw(t, label); i < n; i++ {
		p := waypost.ClickProfile{
			Country: rapid.SampledFrom([]string{"", "DE", "FR"}).Draw(t, "country"),
			Browser: rapid.SampledFrom([]string{"", "Firefox", "Chrome"}).Draw(t, "browser"), Bot: rapid.Bool().Draw(t, "bot"),
			Rule: rapid.Uint8Max(2).Draw(t, "rule"), Variant: rapid.Uint8Max(2).Draw(t, "variant"),
			UTM: waypost.PackUTM(waypost.UTMValues{3: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "utm_term")}),
		}
		c := rollup.Count{Clicks: rapid.Uint64Range(1, 9).Draw(t, "clicks")}
		if p.Bot {
			c.Bots = c.Clicks
		}
		if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
			b.AddOther(c)
		} else {
			b.Add(&p, c)
		}
	}
	return b
}

func TestBreakdown_WhatWasAddedCanBeSubtracted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rest, gone := drawBreakdown(t, "rest"), drawBreakdown(t, "gone")
		want := rest.Append(nil)
		rest.Merge(gone)
		rest.Subtract(gone)
		require.Equal(t, want, rest.Append(nil))
	})
}

func TestBreakdown_SubtractingKeepsTheSumsWhereNamesWereDropped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rest, gone := drawBreakdown(t, "rest"), drawBreakdown(t, "gone")
		sum := &rollup.Breakdown{}
		sum.Merge(rest)
		sum.Merge(gone)
		sum.Trim(rapid.IntRange(0, 3).Draw(t, "names of the sum"))
		gone.Trim(rapid.IntRange(0, 3).Draw(t, "names of what goes"))
		sum.Subtract(gone)
		packed := sum.Append(nil)
		require.NoError(t, new(rollup.Breakdown).Unpack(packed), "no name is left without clicks")
		for _, d := range dimensions {
			require.Equal(t, rest.Total(d).Clicks, sum.Total(d).Clicks)
		}
	})
}

func TestBreakdown_SubtractingMoreThanThereIsLeavesNothing(t *testing.T) {
	b, more := &rollup.Breakdown{}, &rollup.Breakdown{}
	b.Add(&waypost.ClickProfile{Country: "DE"}, rollup.Count{Clicks: 3, Bots: 1})
	more.Add(&waypost.ClickProfile{Country: "FR"}, rollup.Count{Clicks: 5, Bots: 5})
	more.AddOther(rollup.Count{Clicks: 1 << 60})
	b.Subtract(more)
	for _, d := range dimensions {
		require.Zero(t, b.Total(d))
	}
}

func TestBreakdown_TrimmingKeepsTheNamesWithTheMostClicks(t *testing.T) {
	b := &rollup.Breakdown{}
	for i, name := range []string{"a.example", "b.example", "c.example"} {
		b.Add(&waypost.ClickProfile{Referrer: name}, rollup.Count{Clicks: uint64(i + 1)})
	}
	b.Trim(2)
	names, other := b.Names(rollup.Referrer)
	require.Equal(t, []rollup.Named{{Name: "c.example", Count: rollup.Count{Clicks: 3}}, {
		Name:  "b.example",
		Count: rollup.Count{Clicks: 2},
	}}, names)
	require.Equal(t, rollup.Count{Clicks: 1}, other)
	names, other = b.Names(rollup.Country)
	require.Len(t, names, 1)
	require.Zero(t, other)
}
