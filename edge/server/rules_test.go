package server_test

import (
	"bufio"
	"io"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
	"waypost/rules"
)

// A programme may rot in memory or on a disk, or be of a later version.
func TestRules_ThatCannotBeReadLeadToTheLinksOwnTargetAndAreCounted(t *testing.T) {
	links, registry := newMemoryLinks(), prometheus.NewPedanticRegistry()
	own := links.links[waypost.DefaultDomain]
	later := func(r waypost.Record) waypost.Record {
		r.Programme = append([]byte{9}, r.Programme[1:]...)
		return r
	}
	cut := own["agents01"]
	cut.Programme = cut.Programme[:len(cut.Programme)-1] // the last target
	own["later001"], own["cut00001"] = later(own["agents01"]), cut
	own["later002"] = later(limitedLink(t, rules.ModeExact, ended))
	_, addr := serve(t, server.Config{Links: links, Metrics: registry})
	const bot = "User-Agent: Googlebot/2.1"
	for _, slow := range []string{"X-Other: 1", "Sec-Purpose: none"} { // the second is for the handler
		for _, path := range []string{"/later001", "/cut00001"} {
			res := get(t, addr, path, "wayp.example", bot, slow)
			require.Equal(t, 302, res.StatusCode, path)
			require.Equal(t, target, res.Header.Get("Location"), path)
			require.Equal(t, "private, no-store", res.Header.Get("Cache-Control"), path)
		}
		res := get(t, addr, "/later002", "wayp.example", firefoxAgent, slow)
		require.Equal(t, 503, res.StatusCode, "a link that counts its visits does not let everyone through")
		require.Empty(t, res.Header.Get("Location"))
	}
	require.Equal(t, map[string]float64{"waypost_redirect_broken_rules_total": 6}, gather(t, registry, "waypost_redirect_broken_rules_total"))
}

// A proxy sends the requests of many visitors on one connection.
//
// It finds this defect: the facts of the first request on a connection decide all later
// ones.
func TestRules_JudgeEachRequestOfAConnectionByItself(t *testing.T) {
	_, addr := serve(t, server.Config{})
	conn := dial(t, addr)
	answers := bufio.NewReader(conn)
	for _, slow := range []string{"X-Other: 1", "Sec-Purpose: none"} { // the second is for the handler
		for _, visitor := range []struct{ agent, want string }{
			{"Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X)", target + "-ios"},
			{"Mozilla/5.0 (Linux; Android 14; Pixel 8) Mobile", target + "-android"},
			{"Googlebot/2.1", target + "-bots"},
			{"Mozilla/5.0 (Windows NT 10.0)", target},
		} {
			_, err := io.WriteString(conn, "GET /agents01 HTTP/1.1\r\nHost: wayp.example\r\n"+slow+"\r\nUser-Agent: "+visitor.agent+"\r\n\r\n")
			require.NoError(t, err)
			require.Equal(t, visitor.want, read(t, answers, false).Header.Get("Location"), visitor.agent)
		}
	}
}
