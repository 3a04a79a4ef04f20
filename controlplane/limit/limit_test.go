package limit

import (
	"fmt"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clock stands still until it is moved.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

func (c *clock) later(d time.Duration) { c.ms.Add(d.Milliseconds()) }

func newClock() *clock {
	var c clock
	c.ms.Store(1_700_000_000_000)
	return &c
}

func TestLimit_CredentialMayAskItsBurstAndThenAtItsRate(t *testing.T) {
	c := newClock()
	r := NewRequests(2, 4, c.now)
	for want := 3; want >= 0; want-- {
		d, limited := r.Take("a")
		require.True(t, limited)
		require.Equal(t, Decision{OK: true, Limit: 4, Remaining: want, Reset: time.Duration((4-want+1)/2) * time.Second}, d)
	}
	d, _ := r.Take("a")
	require.Equal(t, Decision{Limit: 4, Reset: 2 * time.Second, Retry: time.Second}, d)
	d, _ = r.Take("b")
	require.True(t, d.OK, "another credential has a bucket of its own")
	c.later(time.Second)
	for range 2 {
		d, _ = r.Take("a")
		require.True(t, d.OK)
	}
	d, _ = r.Take("a")
	require.False(t, d.OK)
}

func TestLimit_LargeRequestIsPaidForAfterwards(t *testing.T) {
	c := newClock()
	r := NewRequests(1, 10, c.now)
	d, _ := r.Take("a")
	require.True(t, d.OK)
	r.Owe("a", 1_000_000) // no more than a full bucket
	d, _ = r.Take("a")
	require.False(t, d.OK)
	require.Equal(t, 2*time.Second, d.Retry)
	c.later(2 * time.Second)
	d, _ = r.Take("a")
	require.True(t, d.OK)
}

func TestLimit_GuessesAreLimitedByAddressAndByPrefix(t *testing.T) {
	c := newClock()
	g := NewGuesses(3, c.now)
	home := netip.MustParseAddr("192.0.2.1")
	for range 3 {
		by, _ := g.Check(home, "wp_live_aaaaREST")
		require.Empty(t, by)
		g.Failed(home, "wp_live_aaaaREST")
	}
	by, retry := g.Check(home, "wp_live_bbbbREST")
	require.Equal(t, ByAddress, by, "whatever the credential is")
	require.Equal(t, 20*time.Second, retry)
	by, _ = g.Check(netip.MustParseAddr("::ffff:192.0.2.1"), "")
	require.Equal(t, ByAddress, by, "also written as IPv6")

	for i := range 12 { // from addresses that are not over their own limit
		from := netip.AddrFrom4([4]byte{198, 51, 100, byte(i)})
		by, _ := g.Check(from, "wp_live_aaaaREST")
		require.Empty(t, by)
		g.Failed(from, "wp_live_aaaaREST")
	}
	by, _ = g.Check(netip.MustParseAddr("203.0.113.1"), "wp_live_aaaaOTHER")
	require.Equal(t, ByPrefix, by)
	by, _ = g.Check(netip.MustParseAddr("203.0.113.1"), "wp_live_bbbbOTHER")
	require.Empty(t, by)

	c.later(20 * time.Second)
	by, _ = g.Check(home, "wp_live_bbbbREST")
	require.Empty(t, by, "one attempt more")
}

func TestLimit_AddressOfIPv6IsItsNetwork(t *testing.T) {
	g := NewGuesses(1, newClock().now)
	g.Failed(netip.MustParseAddr("2001:db8::1"), "")
	by, _ := g.Check(netip.MustParseAddr("2001:db8::ffff:2"), "")
	require.Equal(t, ByAddress, by)
	by, _ = g.Check(netip.MustParseAddr("2001:db8:0:1::1"), "")
	require.Empty(t, by)
}

func TestLimit_CredentialThatWasGoodIsLetThroughUntilItIsNot(t *testing.T) {
	g := NewGuesses(1, newClock().now)
	office, good := netip.MustParseAddr("192.0.2.1"), "wp_live_goodREST"
	g.Succeeded(good)
	g.Failed(office, "wp_live_goodGUESS")
	by, _ := g.Check(office, "wp_live_goodGUESS")
	require.Equal(t, ByAddress, by, "the success of another gives no attempt back")
	by, _ = g.Check(office, good)
	require.Empty(t, by, "nobody is shut out by a neighbour's guesses")
	g.Failed(office, good) // revoked
	by, _ = g.Check(office, good)
	require.Equal(t, ByAddress, by)
}

func TestLimit_NothingIsLimitedWhereTheLimitIsZero(t *testing.T) {
	r, g := NewRequests(0, 10, nil), NewGuesses(0, nil)
	for range 1_000 {
		d, limited := r.Take("a")
		require.True(t, d.OK)
		require.False(t, limited)
		g.Failed(netip.Addr{}, "a")
		by, _ := g.Check(netip.Addr{}, "a")
		require.Empty(t, by)
	}
	r.Owe("a", 1)
	g.Succeeded("a")
}

func TestLimit_FloodOfAddressesTakesBoundedMemoryAndFreesNobody(t *testing.T) {
	c := newClock()
	g := NewGuesses(10, c.now)
	guesser := netip.MustParseAddr("192.0.2.1")
	for range 10 {
		g.Failed(guesser, "wp_live_aaaa")
	}
	memory := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := memory()
	for i := range 130_000 {
		g.Failed(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), fmt.Sprintf("wp_live_%06d", i))
		if i%1000 == 0 {
			by, _ := g.Check(guesser, "wp_live_aaaa")
			require.Equal(t, ByAddress, by, "after %d others", i)
		}
	}
	require.LessOrEqual(t, g.addresses.known.EstimatedSize(), maxBuckets+maxBuckets/10)
	require.Less(t, memory()-before, uint64(150<<20))
	runtime.KeepAlive(g)
}
