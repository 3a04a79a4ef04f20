package audience_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost"
	"waypost/edge/audience"
)

const (
	someDay = int32(20_000)
	noon    = int64(someDay)*86_400_000 + 43_200_000 // of that day, Unix milliseconds
)

// days are salts by day.
type days map[int32]*waypost.Salt

func (d days) Salt(day int32) *waypost.Salt { return d[day] }

func twoDays() days {
	return days{someDay: {1, 2, 3}, someDay + 1: {4, 5, 6}}
}

func seal(t *testing.T, salts audience.Salts, address string, at int64) (sealed [16]byte) {
	t.Helper()
	audience.NewSealer(salts).Seal(&sealed, netip.MustParseAddr(address), at)
	return sealed
}

func visitor(a *audience.Audience, sealed [16]byte, at int64, agent string) uint64 {
	_, v := a.Profile(&waypost.Click{At: at, Address: sealed, Agent: []byte(agent)})
	return v
}

func TestVisitor_VisitorIsTheHashThatIsWrittenDown(t *testing.T) {
	salts := twoDays()
	a := audience.New(audience.Config{Salts: salts})
	for address, form := range map[string][16]byte{
		"192.0.2.7":        {10: 0xff, 11: 0xff, 12: 192, 0, 2, 7},
		"::ffff:192.0.2.7": {10: 0xff, 11: 0xff, 12: 192, 0, 2, 7},
		"2001:db8::9":      {0x20, 0x01, 0x0d, 0xb8, 15: 9},
	} {
		mac := hmac.New(sha256.New, salts[someDay][:])
		mac.Write(form[:])
		mac.Write([]byte("an agent"))
		require.Equal(t, binary.BigEndian.Uint64(mac.Sum(nil)), visitor(a, seal(t, salts, address, noon), noon, "an agent"), address)
	}
}

func TestVisitor_VisitorsAreToldApartWithinADayAndNotAcrossDays(t *testing.T) {
	salts := twoDays()
	one, other := audience.New(audience.Config{Salts: salts}), audience.New(audience.Config{Salts: salts}) // two edges
	const day = 86_400_000
	here := func(a *audience.Audience, address, agent string, at int64) uint64 {
		return visitor(a, seal(t, salts, address, at), at, agent)
	}
	v := here(one, "192.0.2.7", "x", noon)
	require.Equal(t, v, here(other, "192.0.2.7", "x", noon+1000))
	require.Equal(t, v, here(other, "192.0.2.7", "x", noon-day/2), "from its first millisecond")
	require.Equal(t, v, here(other, "192.0.2.7", "x", noon+day/2-1), "to its last")
	for _, another := range []uint64{
		here(one, "192.0.2.8", "x", noon), here(one, "192.0.2.7", "y", noon), here(one, "2001:db8::7", "x", noon),
		here(one, "192.0.2.7", "x", noon+day/2),
	} {
		require.NotEqual(t, v&waypost.VisitorBits, another&waypost.VisitorBits)
		require.NotZero(t, another)
	}
}

func TestVisitor_NoOneIsToldWithoutASaltOrAnAddress(t *testing.T) {
	salts := twoDays()
	a := audience.New(audience.Config{Salts: salts})
	sealed := seal(t, salts, "192.0.2.7", noon)
	require.NotZero(t, visitor(a, sealed, noon, ""))
	require.Zero(t, visitor(a, [16]byte{}, noon, "x"), "there is no address")
	require.Zero(t, seal(t, salts, "192.0.2.7", noon+2*86_400_000), "there is no salt to seal with")
	var none [16]byte
	audience.NewSealer(salts).Seal(&none, netip.Addr{}, noon)
	require.Zero(t, none)

	delete(salts, someDay) // destroyed, while the journal still holds the click
	require.Zero(t, visitor(a, sealed, noon, ""))
	require.Zero(t, seal(t, salts, "192.0.2.7", noon))
}

func TestVisitor_SealedAddressIsOpenedByItsDaysSaltAlone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var raw [16]byte
		copy(raw[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "address"))
		address := netip.AddrFrom16(raw)
		salts := twoDays()
		var sealed, other [16]byte
		s := audience.NewSealer(salts)
		s.Seal(&sealed, address, noon)
		s.Seal(&other, address, noon+86_400_000)
		if sealed == raw || sealed == other {
			rt.Fatal("the address shows, or the days look alike")
		}
		if got := audience.Open(salts, sealed, noon); got != address.Unmap() {
			rt.Fatalf("%s came out as %s", address, got)
		}
		if got := audience.Open(salts, sealed, noon+86_400_000); got == address.Unmap() {
			rt.Fatal("another day's salt opens it")
		}
	})
}

func TestVisitor_SaltThatChangesIsTakenAtOnceByAllWhoSeal(t *testing.T) {
	var mu sync.RWMutex
	salts := twoDays()
	s := audience.NewSealer(locked{&mu, salts})
	before := seal(t, salts, "192.0.2.7", noon)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				var sealed [16]byte
				s.Seal(&sealed, netip.MustParseAddr("192.0.2.7"), noon)
				s.Seal(&sealed, netip.MustParseAddr("192.0.2.7"), noon+86_400_000)
			}
		})
	}
	wg.Go(func() {
		mu.Lock()
		defer mu.Unlock()
		salts[someDay] = &waypost.Salt{9}
	})
	wg.Wait()
	var after [16]byte
	s.Seal(&after, netip.MustParseAddr("192.0.2.7"), noon)
	require.NotEqual(t, before, after)
	require.Equal(t, seal(t, days{someDay: {9}}, "192.0.2.7", noon), after)
}

type locked struct {
	mu    *sync.RWMutex
	salts days
}

func (l locked) Salt(day int32) *waypost.Salt {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.salts[day]
}

func TestVisitor_SealingDoesNotAllocate(t *testing.T) {
	s := audience.NewSealer(twoDays())
	address := netip.MustParseAddr("2001:db8::9")
	sealed := new([16]byte)
	require.Zero(t, testing.AllocsPerRun(100, func() { s.Seal(sealed, address, noon) }))
}

func TestVisitor_AllocatesOnlyTheReferrersHost(t *testing.T) {
	salts := twoDays()
	a := audience.New(audience.Config{Salts: salts})
	c := waypost.Click{
		At: noon, Address: seal(t, salts, "2001:db8::9", noon), Agent: []byte(people(t)[0].agent), Referrer: []byte("https://www.Example.com/a?b"),
	}
	require.InDelta(t, 1, testing.AllocsPerRun(100, func() { a.Profile(&c) }), 0)
}

func BenchmarkSeal(b *testing.B) {
	s := audience.NewSealer(twoDays())
	address := netip.MustParseAddr("2001:db8::9")
	sealed := new([16]byte)
	b.ReportAllocs()
	for b.Loop() {
		s.Seal(sealed, address, noon)
	}
}
