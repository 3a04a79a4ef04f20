package analytics

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
)

func TestTheCacheOfLinksHasAShareOfTheMemory(t *testing.T) {
	const mib, links = 1 << 20, 1 << 20
	for memory, want := range map[int64]int{
		64 * mib: links / 4, 512 * mib: links / 2,
		2_000 * mib: 2 * links, 4_000 * mib: 4 * links, 7_900 * mib: 8 * links, 15_900 * mib: 16 * links,
		1 << 40: 16 * links,
	} {
		require.Equal(t, want, cacheSets(memory)*cacheWays, "%d MiB", memory/mib)
	}
}

func TestTheCacheOfLinksForgetsSomeWhenItIsFull(t *testing.T) {
	const room = 16 * firstCacheSets * cacheWays
	c := linkCache{most: 16 * firstCacheSets}
	now := time.Now()
	batch := func(from, to int) (links []waypost.LinkClicks, targets []target, all []int) {
		for n := from; n < to; n++ {
			links = append(links, waypost.LinkClicks{Domain: 1, Code: waypost.Code(fmt.Sprintf("c%d", n))})
			targets, all = append(targets, target{place: place{link: int64(n + 1), workspace: int64(n%7 + 1)}}), append(all, n-from)
		}
		return links, targets, all
	}
	for from := 0; from < 4*room; from += 1000 {
		links, targets, all := batch(from, from+1000)
		c.remember(links, targets, all, now)
	}
	require.Len(t, c.sets, c.most)
	require.LessOrEqual(t, c.held, room)

	links, want, _ := batch(0, 4*room)
	got := make([]target, len(links))
	others, newest := c.find(links, got, now)
	require.InDelta(t, room, len(links)-len(others), room/10, "it is full, and the rest is to be looked up")
	for _, i := range others {
		require.Zero(t, got[i])
		got[i] = want[i]
	}
	require.Equal(t, want, got, "what it remembers is right")
	require.GreaterOrEqual(t, newest.link, int64(4*room))

	others, _ = c.find(links, got, now.Add(2*cacheAge))
	require.Len(t, others, len(links), "all is too old")
}
