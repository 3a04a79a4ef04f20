package audience_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/edge/audience"
)

func openPlaces(t testing.TB, networks map[string]spot) *audience.GeoDB {
	t.Helper()
	file := filepath.Join(t.TempDir(), "places.mmdb")
	replace(t, file, cityDatabase(t, "GeoLite2-City", networks), time.Now().Add(-time.Hour))
	return audience.OpenGeoDB(audience.GeoDBConfig{File: file})
}

func located(places *audience.GeoDB, address string) spot {
	addr, _ := netip.ParseAddr(address)
	country, city := places.Locate(addr)
	return spot{strings.TrimRight(string(country[:]), "\x00"), city}
}

func TestLocate_IsThePlaceOfTheStatistics(t *testing.T) {
	places := openPlaces(t, map[string]spot{
		"192.0.2.0/24": {"DE", "Köln"}, "198.51.100.0/24": {"BR", ""}, "2001:db8::/32": {"FR", "Paris"},
		"203.0.113.0/25": {"", "Nowhere"}, "203.0.113.128/26": {"xx", "Bad"},
	})
	salts := twoDays()
	a := audience.New(audience.Config{Salts: salts, GeoDB: places})
	for range 2 { // looked up, and remembered
		for address, want := range map[string]spot{
			"192.0.2.7": {"DE", "Köln"}, "::ffff:192.0.2.7": {"DE", "Köln"}, "198.51.100.1": {"BR", ""}, "2001:db8::9%eth0": {"FR", "Paris"},
			"203.0.113.1": {}, "203.0.113.129": {}, "192.88.99.1": {}, "::1": {},
		} {
			require.Equal(t, want, located(places, address), address)
			require.Equal(t, want, whereIs(t, a, salts, strings.TrimSuffix(address, "%eth0")), address)
		}
		require.Equal(t, spot{}, located(places, "no address"))
	}
	missing := audience.OpenGeoDB(audience.GeoDBConfig{File: filepath.Join(t.TempDir(), "missing")})
	require.Equal(t, spot{}, located(missing, "192.0.2.7"))
}

// TestLocate_HoldsWhileTheFileIsReplaced asks from several goroutines for records that
// displace one another, in a file that is replaced by one with other places.
func TestLocate_HoldsWhileTheFileIsReplaced(t *testing.T) {
	const networks = 5000
	files := [2]map[string]spot{{}, {}}
	for i := range networks {
		network := fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255)
		files[0][network] = spot{"DE", fmt.Sprintf("City %d", i)}
		files[1][network] = spot{"FR", fmt.Sprintf("Ville %d", i)}
	}
	contents := [2][]byte{cityDatabase(t, "GeoLite2-City", files[0]), cityDatabase(t, "GeoLite2-City", files[1])}
	file := filepath.Join(t.TempDir(), "places.mmdb")
	at := time.Now().Add(-time.Hour)
	replace(t, file, contents[0], at)
	places := audience.OpenGeoDB(audience.GeoDBConfig{File: file})
	var asking sync.WaitGroup
	var replaced atomic.Bool
	defer func() {
		replaced.Store(true)
		asking.Wait()
	}()
	for g := range 4 {
		asking.Go(func() {
			for n := 0; !replaced.Load(); n++ {
				i := (n*7919 + g) % networks
				country, city := places.Locate(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}))
				german, french := fmt.Sprintf("City %d", i), fmt.Sprintf("Ville %d", i)
				if (country != [2]byte{'D', 'E'} || city != german) && (country != [2]byte{'F', 'R'} || city != french) {
					t.Errorf("%d is in %s %s", i, country, city)
					return
				}
			}
		})
	}
	for i := range 20 {
		at = at.Add(time.Second)
		replace(t, file, contents[(i+1)%2], at)
		places.Look()
		require.Equal(t, [2]string{"FR", "DE"}[i%2], located(places, "10.0.0.1").country)
	}
}

func TestLocate_DoesNotAllocateForARecordThatItKnows(t *testing.T) {
	places := openPlaces(t, map[string]spot{"192.0.2.0/24": {"DE", "Köln"}})
	known, unknown := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("198.51.100.7")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		places.Locate(known)
		places.Locate(unknown)
	}))
}

// BenchmarkLocate asks a database of 60,000 networks for records that are remembered, and
// for as many that most are not.
func BenchmarkLocate(b *testing.B) {
	networks := make(map[string]spot)
	for i := range 60_000 {
		networks[fmt.Sprintf("%d.%d.%d.0/24", 1+i*7919>>16&127, i*7919>>8&255, i*7919&255)] = spot{"DE", fmt.Sprintf("City %d", i)}
	}
	var addrs []netip.Addr
	for network := range networks {
		addrs = append(addrs, netip.MustParsePrefix(network).Addr().Next())
	}
	places := openPlaces(b, networks)
	for name, n := range map[string]int{"remembered": 1000, "mostly not remembered": len(addrs)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, city := places.Locate(addrs[i%n]); city == "" {
					b.Fatal("unknown")
				}
			}
		})
	}
}
