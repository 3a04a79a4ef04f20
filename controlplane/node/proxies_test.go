package node

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/config"
)

func TestTheForwardedHostCountsOnlyFromATrustedProxy(t *testing.T) {
	var got string
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	h := forwardedHost(trusted, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Host }))
	for name, c := range map[string]struct {
		remote    string
		forwarded []string
		want      string
	}{
		"a trusted proxy is believed":                  {"10.1.2.3:5", []string{"own.example"}, "own.example"},
		"also when its address is mapped into IPv6":    {"[::ffff:10.1.2.3]:5", []string{"own.example"}, "own.example"},
		"a stranger is not":                            {"192.0.2.1:5", []string{"own.example"}, "asked.example"},
		"of a list the last entry counts":              {"10.1.2.3:5", []string{"a.example, own.example"}, "own.example"},
		"two headers are refused":                      {"10.1.2.3:5", []string{"a.example", "b.example"}, ""},
		"without the header the host stays":            {"10.1.2.3:5", nil, "asked.example"},
		"an address that cannot be read is a stranger": {"@", []string{"own.example"}, "asked.example"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "http://asked.example/abcd", http.NoBody)
			r.RemoteAddr = c.remote
			r.Header["X-Forwarded-Host"] = c.forwarded
			got = ""
			h.ServeHTTP(httptest.NewRecorder(), r)
			require.Equal(t, c.want, got)
		})
	}
}

func TestAGuesserCannotHideBehindAnInventedAddress(t *testing.T) {
	trusted, err := config.ParseNetworks([]string{"10.0.0.0/8"})
	require.NoError(t, err)
	for _, c := range []struct{ remote, forwarded, want string }{
		{"192.0.2.1:5000", "203.0.113.9", "192.0.2.1"},
		{"10.0.0.1:5000", "203.0.113.9", "203.0.113.9"},
		{"10.0.0.1:5000", "198.51.100.1, 203.0.113.9, 10.0.0.2", "203.0.113.9"},
		{"10.0.0.1:5000", "invented", "10.0.0.1"},
		{"[2001:db8::1]:5000", "203.0.113.9", "2001:db8::1"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.remote
		r.Header.Set("X-Forwarded-For", c.forwarded)
		require.Equal(t, c.want, clientOf(trusted)(r).String(), "%+v", c)
	}
}
