package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRate_IsThatOfTheLastTenSeconds(t *testing.T) {
	var n uint64
	var r rate
	begin := time.Unix(1_900_000_000, 0)
	require.Zero(t, r.perSecond(begin), "before it has begun")
	r.start(func() uint64 { return n }, begin)
	n = 20
	require.InDelta(t, 20, r.perSecond(begin.Add(time.Millisecond)), 0, "less than a second is one")
	for s := 1; s <= 100; s++ {
		n += 7
		r.perSecond(begin.Add(time.Duration(s) * time.Second))
		r.perSecond(begin.Add(time.Duration(s)*time.Second + time.Millisecond)) // for another control plane
	}
	now := begin.Add(100 * time.Second)
	require.InDelta(t, 7, r.perSecond(now), 0.001)
	require.LessOrEqual(t, len(r.seen), int(rateSpan/rateStep)+2)
	n += 1000
	require.InDelta(t, 100+7*0.9, r.perSecond(now.Add(time.Second)), 1)
	for s := 2; s <= 12; s++ {
		r.perSecond(now.Add(time.Duration(s) * time.Second))
	}
	require.Zero(t, r.perSecond(now.Add(12*time.Second)), "what is longer ago does not count")
}
