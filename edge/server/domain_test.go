package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
)

func TestADomainLeadsVisitorsWhoFollowNoLink(t *testing.T) {
	const root, lost = "https://example.org/welcome", "https://example.org/lost?a=b"
	links, recorded := newMemoryLinks(), &memoryClicks{}
	links.targets[waypost.DefaultDomain] = waypost.DomainTargets{Root: []byte(root), NotFound: []byte(lost)}
	cfg := server.Config{Links: links, Clicks: recorded, Clock: func() time.Time { return time.UnixMilli(expires) }}
	_, lax := serve(t, cfg)
	cfg.StrictHosts = true
	_, strict := serve(t, cfg)

	for name, c := range map[string]struct {
		addr, path, host string
		status           int
		location         string
	}{
		"the root leads to its target":                     {lax, "/", "wayp.example", 302, root},
		"a query at the root is left out":                  {lax, "/?x=1", "wayp.example", 302, root},
		"an unknown code leads to the other target":        {lax, "/unknown1", "wayp.example", 302, lost},
		"so does the preview of one":                       {lax, "/unknown1+", "wayp.example", 302, lost},
		"so does what can be no code":                      {lax, "/a.php", "wayp.example", 302, lost},
		"so does a path below a link that takes none":      {lax, "/found302/x?y", "wayp.example", 302, lost},
		"an unknown host means the default domain":         {lax, "/unknown1", "127.0.0.1:8081", 302, lost},
		"the root of an unknown host does as well":         {lax, "/", "127.0.0.1:8081", 302, root},
		"what was taken down does not lead there":          {lax, "/deleted1", "wayp.example", 410, ""},
		"what has expired does not":                        {lax, "/expiring", "wayp.example", 410, ""},
		"what cannot be read does not":                     {lax, "/failing1", "wayp.example", 503, ""},
		"what breaks the rules does not":                   {lax, "/forward1/../x", "wayp.example", 400, ""},
		"health stays":                                     {lax, "/health", "wayp.example", 200, ""},
		"assets stay":                                      {lax, "/robots.txt", "wayp.example", 200, ""},
		"links stay":                                       {lax, "/found302", "wayp.example", 302, target},
		"another domain answers for itself":                {lax, "/unknown1", hosted, 404, ""},
		"another domain's root as well":                    {lax, "/", hosted, 200, ""},
		"an unknown host leads nowhere when strict":        {strict, "/unknown1", "unknown.example", 404, ""},
		"its root tells the service when hosts are strict": {strict, "/", "unknown.example", 200, ""},
		"a known host leads on when hosts are strict":      {strict, "/unknown1", "wayp.example", 302, lost},
	} {
		t.Run(name, func(t *testing.T) {
			res := get(t, c.addr, c.path, c.host)
			require.Equal(t, c.status, res.StatusCode)
			require.Equal(t, c.location, res.Header.Get("Location"))
			if c.status == 302 {
				require.Equal(t, "private, no-store", res.Header.Get("Cache-Control"))
			}
			clicked := recorded.take()
			require.Equal(t, c.location == target, len(clicked) == 1, "only links are clicked")
		})
	}
}

func TestMaintenanceTakesVisitorsOfLiveLinksAndTheRoot(t *testing.T) {
	const soon, lost = "https://example.org/soon", "https://example.org/lost"
	links, recorded := newMemoryLinks(), &memoryClicks{}
	links.targets[waypost.DefaultDomain] = waypost.DomainTargets{Root: []byte(target), NotFound: []byte(lost), Maintenance: []byte(soon)}
	links.links[waypost.DefaultDomain]["secret01"] = protectedLink(t, 1, 8, 0)
	_, addr := serve(t, server.Config{Links: links, Clicks: recorded, Clock: func() time.Time { return time.UnixMilli(expires) }})
	for path, want := range map[string]struct {
		status   int
		location string
	}{
		"/": {302, soon}, "/found302": {302, soon}, "/found301": {302, soon}, "/found302+": {302, soon},
		"/secret01": {302, soon}, "/secret01+": {302, soon}, "/queried1?a=b": {302, soon}, "/forward1/a/b?c": {302, soon},
		"/unknown1": {302, lost}, "/found302/x": {302, lost},
		"/deleted1": {410, ""}, "/disabled": {410, ""}, "/expiring": {410, ""}, "/failing1": {503, ""},
		"/health": {200, ""}, "/robots.txt": {200, ""},
	} {
		for _, line := range []string{"Accept: */*", "Sec-Purpose: none"} { // by the fast path, and by the handler
			t.Run(path+" "+line, func(t *testing.T) {
				res := get(t, addr, path, "wayp.example", line)
				require.Equal(t, want.status, res.StatusCode)
				require.Equal(t, want.location, res.Header.Get("Location"))
				if want.status == 302 {
					require.Equal(t, "private, no-store", res.Header.Get("Cache-Control"))
				}
				require.Empty(t, recorded.take(), "nothing is counted")
			})
		}
	}
	posted := postForm(t, addr, "/secret01", "wrong")
	require.Equal(t, 303, posted.StatusCode, "a form that was open before")
	require.Equal(t, "/secret01", posted.Header.Get("Location"))
	require.Equal(t, "https://example.org/hosted", get(t, addr, "/whereami", hosted).Header.Get("Location"), "another domain is served")
	require.Len(t, recorded.take(), 1)
}

func TestATargetOfADomainThatWentBadIsNeverSent(t *testing.T) {
	links := newMemoryLinks()
	links.targets[waypost.DefaultDomain] = waypost.DomainTargets{Root: []byte("https://a\r\nX: y"), NotFound: []byte("\x00")}
	_, addr := serve(t, server.Config{Links: links})
	for _, path := range []string{"/", "/unknown1"} {
		res := get(t, addr, path, "wayp.example")
		require.Equal(t, 503, res.StatusCode)
		require.NotContains(t, res.Header, "Location")
	}
}
