package rollup_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/rollup"
)

func someDelta() *rollup.Delta {
	return &rollup.Delta{
		Profiles: []waypost.ClickProfile{
			{Country: "DE", City: "Köln", Device: "mobile", Referrer: "a.example"}, {Device: "bot", Bot: true, Rule: 3, Variant: 1, UTM: waypost.PackUTM(waypost.UTMValues{"mail", 2: "spring"})},
		},
		Rows:     []rollup.Row{{Quarter: 3, Profile: 0, Clicks: 300}, {Quarter: 3, Profile: 1, Clicks: 1}, {Quarter: 95, Profile: 0, Clicks: 2}},
		Visitors: []rollup.Visitor{{Hash: 1 << 24}, {Hash: 1 << 63, Bot: true}},
	}
}

func someTop() *rollup.Top {
	top := &rollup.Top{}
	top.Set(counted(7, 300), counted(1<<40, 2), counted(9, 1))
	top.Cut(2)
	return top
}

// What is read is written as the same bytes, so that nothing but the packed form is read.
func FuzzUnpack(f *testing.F) {
	p := someDelta()
	d := dayOf(p)
	for _, seed := range [][]byte{
		nil, p.Append(nil), d.Quarters.Append(nil), d.Breakdown.Append(nil), d.Visitors.Append(nil), someTop().Append(nil),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		used := dayOf(someDelta()) // what was there before leaves no trace
		if p := someDelta(); p.Unpack(b) == nil {
			require.Equal(t, b, p.Append(nil))
			d := dayOf(p)
			require.Equal(t, p.Total(), d.Total())
		}
		if x := &used.Breakdown; x.Unpack(b) == nil && len(b) > 0 {
			require.Equal(t, b, x.Append(nil))
		} else {
			require.Zero(t, x.Total(rollup.Country))
		}
		if q := &used.Quarters; q.Unpack(b) == nil && len(b) > 0 {
			require.Equal(t, b, q.Append(nil))
		} else {
			require.Zero(t, q.Total())
		}
		if x, err := rollup.UnpackTop(b); err == nil {
			require.Equal(t, b, x.Append(nil))
		}
		v := &used.Visitors
		err := v.Unpack(b)
		all, bots := v.Count()
		if err != nil || len(b) == 0 {
			require.Zero(t, all)
		} else {
			require.GreaterOrEqual(t, all, bots)
			if len(b) < 12_000 { // no code writes a sketch of few visitors, but it can be read
				require.Equal(t, b, v.Append(nil))
			}
		}
	})
}

func TestNoPackedFormIsReadWhenItIsCutOrLonger(t *testing.T) {
	p := someDelta()
	d := dayOf(p)
	many := &rollup.Visitors{}
	for i := range uint64(2_500) {
		many.Add(i<<30, false)
	}
	for name, c := range map[string]struct {
		packed []byte
		read   func([]byte) error
	}{
		"part":      {p.Append(nil), func(b []byte) error { return new(rollup.Delta).Unpack(b) }},
		"breakdown": {d.Breakdown.Append(nil), func(b []byte) error { return new(rollup.Breakdown).Unpack(b) }},
		"visitors":  {d.Visitors.Append(nil), func(b []byte) error { return new(rollup.Visitors).Unpack(b) }},
		"top":       {someTop().Append(nil), func(b []byte) error { _, err := rollup.UnpackTop(b); return err }},
		"a sketch":  {many.Append(nil), func(b []byte) error { return new(rollup.Visitors).Unpack(b) }},
	} {
		require.NoError(t, c.read(c.packed), name)
		for n := 1; n < len(c.packed); n++ {
			require.Equal(t, waypost.EInvalid, waypost.CodeOf(c.read(c.packed[:n])), "%s cut at %d", name, n)
		}
		require.Error(t, c.read(append(c.packed, 0)), name)
		c.packed[0]++
		require.Error(t, c.read(c.packed), name)
	}
}
