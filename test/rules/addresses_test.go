package rules_test

import (
	"bufio"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/internal/codes/codestest"
	"waypost/rules"
)

// TestAddresses_EdgeAndControlPlaneFindTheSameLinks asks an edge, the control plane and
// its explanation for random paths.
func TestAddresses_EdgeAndControlPlaneFindTheSameLinks(t *testing.T) {
	s := start(t)
	for code, forwards := range codestest.Codes {
		s.create(t, controlplane.NewLink{
			OriginalURL: "https://example.com" + (&url.URL{Path: "/" + code}).EscapedPath(), CustomCode: code, ForwardPath: forwards,
			RedirectStatus: 302,
		})
	}
	all := slices.Sorted(maps.Keys(codestest.Codes))
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	found := 0
	for _, traits := range []waypost.DomainTraits{0, waypost.ExactPaths, waypost.IgnoresCase} { // the codes are their own keys
		exact, ignores := traits == waypost.ExactPaths, traits == waypost.IgnoresCase
		_, _, err := s.Domains.ChangeDomain(t.Context(), actor, waypost.DefaultDomain,
			api.DomainChange{ExactPaths: &exact, Case: new(controlplane.CaseOf(ignores))})
		require.NoError(t, err)
		require.NoError(t, s.db.SwitchCodes(t.Context(), waypost.DefaultDomain))
		s.edge.traits = traits
		for range 300 {
			choice := make([]byte, random.IntN(6))
			for i := range choice {
				choice[i] = byte(random.Uint32())
			}
			path := codestest.Path(choice)
			if random.IntN(2) > 0 {
				path = string(waypost.AppendEncoded(nil, all[random.IntN(len(all))])) + path
			}
			if strings.HasPrefix(path, "/") || path == "" { // the root; the HTTP library refuses some such paths
				continue
			}
			visit := waypost.ParseVisit([]byte("/" + path))
			res, err := s.Links.Resolve(t.Context(), "go.example.com", &visit, &rules.Request{})
			require.NoError(t, err)
			want := fmt.Sprintf("%d %s", res.Status, res.Location)
			if !visit.Preview { // an edge shows it
				require.Equal(t, want, s.edge.answerAt(t, path), "seed %d, /%s", seed, path)
			}
			e, err := s.Links.Explain(t.Context(), actor, "", path, &controlplane.Visitor{})
			if waypost.CodeOf(err) == waypost.ENotFound {
				require.Equal(t, "404 ", want, "seed %d, /%s", seed, path)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, want, fmt.Sprintf("%d %s", e.Resolution.Status, e.Resolution.Location), "seed %d, /%s", seed, path)
			found++
		}
	}
	require.Greater(t, found, 50)
}

// answerAt returns the status and the Location of the answer to a path.
func (e *edgeServer) answerAt(t *testing.T, path string) string {
	t.Helper()
	conn, err := net.Dial("tcp", e.addr)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintf(conn, "GET /%s HTTP/1.1\r\nHost: go.example.com\r\n\r\n", path)
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return fmt.Sprintf("%d %s", res.StatusCode, res.Header.Get("Location"))
}
