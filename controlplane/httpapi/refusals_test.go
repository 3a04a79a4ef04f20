package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/limit"
	"waypost/internal/logtest"
)

func TestRefusals_AreLoggedWithoutSecretsAndBounded(t *testing.T) {
	var log logtest.Buffer
	from := netip.MustParseAddr("203.0.113.77")
	unknown := controlplane.NewKey()
	a := start(t, func(_ *links, c *httpapi.Config) {
		c.Logger = log.Logger()
		c.Limits = httpapi.Limits{
			Guesses: limit.NewGuesses(5, nil), Client: func(*http.Request) netip.Addr { return from },
		}
	})
	lines := func(part string) (n int) {
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, `msg="refused a request"`) && strings.Contains(line, part) {
				n++
			}
		}
		return n
	}
	for range 3 {
		a.do(call{path: "/api/v1/urls", key: "none", header: map[string]string{"X-Api-Key": unknown}})
	}
	require.Equal(t, 1, lines("status=401"), log.String())
	require.Equal(t, 1, lines(`route="GET /api/v1/urls" credential=`+unknown[:controlplane.KeyDisplay]+` workspace="" network=203.0.113.0/24`), log.String())
	a.do(call{path: "/api/v1/urls", key: "none", header: map[string]string{"X-Api-Key": "correct horse battery staple"}})
	for range 5 {
		a.do(call{path: "/api/v1/urls", key: "none", header: map[string]string{"X-Api-Key": unknown}})
	}
	require.Equal(t, 1, lines("status=429"), log.String())
	from = netip.MustParseAddr("2001:db8:1:2:3:4:5:6")
	a.do(call{method: http.MethodPost, path: "/api/v1/urls", body: create, key: readKey})
	require.Equal(t, 1, lines("status=403"), log.String())
	require.Equal(t, 1, lines("network=2001:db8:1::/48"), log.String())
	for i := range 300 { // each of another network
		from = netip.AddrFrom4([4]byte{10, byte(i), byte(i >> 8), 1})
		a.do(call{path: "/api/v1/urls", key: "none"})
	}
	require.LessOrEqual(t, lines("status=401"), 40)
	from = netip.MustParseAddr("2001:db8:2::1")
	a.do(call{path: fmt.Sprint("/api/v1/urls/", "nosuch"), method: http.MethodPatch, body: "{}", key: readKey})
	require.Equal(t, 2, lines("status=403"), "a flood of one status leaves others their lines")
	for _, secret := range []string{unknown, "correct", "203.0.113.77", "2001:db8:1:2", readKey} {
		require.NotContains(t, log.String(), secret)
	}
}

// A control plane logs no visitors of links, and a failing database refuses no sender.
func TestRefusals_OtherAnswersAreNotLogged(t *testing.T) {
	var log logtest.Buffer
	a := start(t, func(f *links, c *httpapi.Config) {
		c.Logger = log.Logger()
		f.onAuthenticate = func(context.Context) error { return waypost.Errorf(waypost.EUnavailable, "the database is away") }
	})
	requireProblem(t, a.get("/api/v1/urls"), 503, "unavailable")
	a.get("/nosuch")
	require.NotContains(t, log.String(), "refused a request")
}
