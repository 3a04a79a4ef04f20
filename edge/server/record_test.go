package server_test

import (
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/audience"
	"waypost/edge/server"
)

// wholeClicks keeps what is recorded, with all of it.
type wholeClicks struct {
	mu   sync.Mutex
	last waypost.Click
}

func (w *wholeClicks) Record(c waypost.Click) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = c
	w.last.Code = append([]byte(nil), c.Code...)
	w.last.Agent, w.last.Referrer = append([]byte(nil), c.Agent...), append([]byte(nil), c.Referrer...)
	w.last.UTM = append([]byte(nil), c.UTM...)
}

// openSealer seals with nothing, and notes the day.
type openSealer struct{ at int64 }

func (s *openSealer) Seal(dst *[16]byte, addr netip.Addr, at int64) {
	*dst = addr.As16()
	s.at = at
}

func TestAClickTellsTheVisitorsAddressSealedAndAgentAndReferrersHost(t *testing.T) {
	clicks, sealer := &wholeClicks{}, &openSealer{}
	_, addr := serve(t, server.Config{
		Clicks: clicks, Sealer: sealer, TrustedProxies: loopback(), Clock: func() time.Time { return time.UnixMilli(expires) },
	})
	visit := func(lines ...string) waypost.Click {
		require.Equal(t, 302, get(t, addr, "/found302", "wayp.example", lines...).StatusCode)
		clicks.mu.Lock()
		defer clicks.mu.Unlock()
		return clicks.last
	}
	c := visit("User-Agent: Mozilla/5.0 (X11)", "Referer: https://www.example.com:8443/private/path?token=1", "X-Forwarded-For: 198.51.100.1, 203.0.113.9")
	require.Equal(t, waypost.Click{
		Domain: waypost.DefaultDomain, Code: []byte("found302"), At: expires, Address: netip.MustParseAddr("203.0.113.9").As16(),
		Agent: []byte("Mozilla/5.0 (X11)"), Referrer: []byte("https://www.example.com:8443"),
	}, c, "the proxy's word for the address, the last one that is no proxy's")
	require.EqualValues(t, expires, sealer.at)

	c = visit()
	require.Equal(t, netip.MustParseAddr("127.0.0.1").As16(), c.Address)
	require.Empty(t, c.Agent)
	require.Empty(t, c.Referrer)

	c = visit("User-Agent: "+strings.Repeat("a", 5000), "Referer: https://"+strings.Repeat("b", 5000))
	require.Len(t, c.Agent, waypost.MaxAgent)
	require.Len(t, c.Referrer, waypost.MaxReferrer)
	for referrer, want := range map[string]string{
		"https://example.com?q": "https://example.com",
		"https://example.com#f": "https://example.com",
		"https://example.com":   "https://example.com",
		`https://example.com\x`: "https://example.com", "example.com/private": "", "://": "://", "about:blank": "",
		"android-app://com.example/x": "android-app://com.example",
	} {
		require.Equal(t, want, string(visit("Referer: "+referrer).Referrer), referrer)
	}
}

func TestAClickTellsTheUTMParametersWhereTheDomainCountsThem(t *testing.T) {
	links, clicks := newMemoryLinks(), &wholeClicks{}
	links.targets[hostID] = waypost.DomainTargets{CountUTM: true}
	_, addr := serve(t, server.Config{Links: links, Clicks: clicks})
	visit := func(path, host string) string {
		require.Equal(t, 302, get(t, addr, path, host).StatusCode)
		clicks.mu.Lock()
		defer clicks.mu.Unlock()
		return string(clicks.last.UTM)
	}
	for range 2 { // on the same connection, or another one
		require.Equal(t, "mail\n\nspring sale", visit("/whereami?id=secret&utm_source=Mail&utm_campaign=Spring+Sale", hosted))
		require.Empty(t, visit("/whereami?utm_source=Mail", "wayp.example"), "this domain does not count them")
		require.Empty(t, visit("/whereami?source=Mail", hosted))
		require.Empty(t, visit("/whereami", hosted), "nothing of the request before")
	}
}

func TestWithoutASealerAClickHasNoAddress(t *testing.T) {
	clicks := &wholeClicks{}
	_, addr := serve(t, server.Config{Clicks: clicks, TrustedProxies: loopback()})
	require.Equal(t, 302, get(t, addr, "/found302", "wayp.example", "X-Forwarded-For: 203.0.113.9").StatusCode)
	clicks.mu.Lock()
	defer clicks.mu.Unlock()
	require.Zero(t, clicks.last.Address)
}

func FuzzOfAReferrerTheHostIsLeft(f *testing.F) {
	for _, r := range []string{"https://www.example.com:80/x", "https://u:p@[::1]/?", "http://a\\@b/", "://://x", "https://ü.example#"} {
		f.Add([]byte(r))
	}
	who := audience.New(audience.Config{Salts: oneSalt{}})
	host := func(referrer []byte) string {
		p, _ := who.Profile(&waypost.Click{Referrer: referrer})
		return p.Referrer
	}
	f.Fuzz(func(t *testing.T, referrer []byte) {
		require.Equal(t, host(referrer[:min(len(referrer), waypost.MaxReferrer)]), host(server.OriginOf(referrer)))
	})
}

type noClicks struct{}

func (noClicks) Record(waypost.Click) {}

func BenchmarkRecord(b *testing.B) {
	const (
		browser  = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"
		referrer = "https://www.example.com/some/where"
	)
	sealer := audience.NewSealer(oneSalt{})
	for name, record := range map[string]func(){
		"nothing but the code": server.Recorder(noClicks{}, nil, "", "", ""),
		"agent and referrer":   server.Recorder(noClicks{}, nil, browser, referrer, ""),
		"address, too":         server.Recorder(noClicks{}, sealer, browser, referrer, ""),
		"through a proxy":      server.Recorder(noClicks{}, sealer, browser, referrer, "198.51.100.7"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				record()
			}
		})
	}
}
