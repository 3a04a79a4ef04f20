package main

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheForwardedHostCountsOnlyFromATrustedProxy(t *testing.T) {
	var got string
	h := forwardedHost([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Host }))
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
