package audience_test

import (
	"net/netip"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/audience"
)

// sound holds of every profile whatever it was made of.
func sound(t *testing.T, p waypost.ClickProfile) {
	t.Helper()
	for _, s := range []string{p.Country, p.City, p.Device, p.Browser, p.OS, p.Referrer} {
		require.LessOrEqual(t, len(s), audience.MaxName)
		require.True(t, utf8.ValidString(s), "%q", s)
		require.NotContains(t, s, "\n")
	}
	require.Contains(t, []string{"desktop", "mobile", "tablet", "bot", "unknown"}, p.Device)
	require.Equal(t, p.Bot, p.Device == "bot")
	if p.Country == "" {
		require.Empty(t, p.City)
	}
}

func FuzzProfile(f *testing.F) {
	for _, p := range people(f) {
		f.Add(p.agent, "https://www.example.com:80/x", p.device == "bot", []byte("192.0.2.7 and so"), int64(1_700_000_000_000))
	}
	f.Add("(", "https://[::1]:9/", false, []byte{}, int64(-1))
	salts := twoDays()
	a := audience.New(audience.Config{Salts: salts})
	f.Fuzz(func(t *testing.T, agent, referrer string, bot bool, address []byte, at int64) {
		c := waypost.Click{At: at, Bot: bot, Agent: []byte(agent), Referrer: []byte(referrer)}
		copy(c.Address[:], address)
		p, v := a.Profile(&c)
		sound(t, p)
		again, w := a.Profile(&c)
		require.Equal(t, p, again)
		require.Equal(t, v, w)
		if v != 0 {
			require.NotZero(t, v&waypost.VisitorBits)
		}
	})
}

func FuzzDatabase(f *testing.F) {
	good := cityDatabase(f, "GeoLite2-City", map[string]spot{"192.0.2.0/24": {"DE", "Köln"}, "2001:db8::/32": {"FR", "Paris"}})
	f.Add(good, []byte{192, 0, 2, 7})
	f.Add(good[:len(good)/2], []byte{192, 0, 2, 7})
	f.Add([]byte("\xab\xcd\xefMaxMind.com"), []byte{})
	f.Fuzz(func(t *testing.T, content, address []byte) {
		addr, ok := netip.AddrFromSlice(address)
		if !ok {
			addr = netip.MustParseAddr("192.0.2.7")
		}
		country, city, err := audience.NewDatabase(content, addr)
		if err == nil {
			sound(t, waypost.ClickProfile{Country: country, City: city, Device: "unknown"})
		}
	})
}

func FuzzCleanName(f *testing.F) {
	for _, s := range []string{"Köln", "São Paulo\x00\n", "\xff", "a\u202eb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sound(t, waypost.ClickProfile{Country: "DE", City: audience.CleanName(s), Device: "unknown"})
	})
}
