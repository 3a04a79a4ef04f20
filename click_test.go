package waypost_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

func TestClickBatch_ClicksSaturate(t *testing.T) {
	b := waypost.ClickBatch{
		Profiles: []waypost.ClickProfile{{}, {Country: "PT"}, {Bot: true}},
		Links: []waypost.LinkClicks{
			{Rows: []waypost.ClickRow{{Profile: 1, Count: 1}, {Profile: 2, Count: 200}, {Count: 1}}},
			{Rows: []waypost.ClickRow{{Count: math.MaxUint64}}},
		},
	}
	n, bots := b.Clicks(&b.Links[0])
	require.EqualValues(t, 202, n)
	require.EqualValues(t, 200, bots)
	b.Links[1].Rows = append(b.Links[1].Rows, waypost.ClickRow{Profile: 2, Count: 5})
	n, bots = b.Clicks(&b.Links[1])
	require.EqualValues(t, uint64(math.MaxUint64), n)
	require.EqualValues(t, 5, bots)
}

func TestQuarter_BeginsAtOrBeforeItsTimes(t *testing.T) {
	for at, want := range map[int64]int64{
		0: 0, 899_999: 0, 900_000: 900_000, -1: -900_000, -900_000: -900_000,
		math.MaxInt64: math.MaxInt64 / 900_000 * 900_000, math.MinInt64: math.MinInt64 / 900_000 * 900_000,
	} {
		require.Equal(t, want, waypost.Quarter(at), "%d", at)
	}
}
