package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
	"waypost/rules"
)

func TestALinkForwardsWhatItsOwnerChose(t *testing.T) {
	_, addr := serve(t, server.Config{})
	const base, fragment = "https://example.org/a%20b", "#top"
	for name, c := range map[string]struct{ asked, location string }{
		"a query goes behind the target's own":          {"/queried1?x=1&q=2", base + "?q=%C3%BC&q=1&x=1&q=2" + fragment},
		"without a query the target is the same":        {"/queried1", target},
		"a path goes below the target's":                {"/forward1/x/y", base + "/x/y?q=%C3%BC&q=1" + fragment},
		"path and query go on together":                 {"/forward1/x?y", base + "/x?q=%C3%BC&q=1&y" + fragment},
		"a target in absolute form goes on":             {"http://wayp.example/forward1/x?y", base + "/x?q=%C3%BC&q=1&y" + fragment},
		"a plus sign behind a path is a part of it":     {"/forward1/c++", base + "/c++?q=%C3%BC&q=1" + fragment},
		"bytes outside ASCII are encoded":               {"/forward1/caf\xc3\xa9", base + "/caf%C3%A9?q=%C3%BC&q=1" + fragment},
		"another host in the path stays in the path":    {"/forward1//evil.example/", base + "//evil.example/?q=%C3%BC&q=1" + fragment},
		"a link that forwards nothing ignores a query":  {"/found302?x=1", target},
		"a link that forwards a query redirects as one": {"/queried1?" + strings.Repeat("q", 4000), base + "?q=%C3%BC&q=1&" + strings.Repeat("q", 4000) + fragment},
	} {
		t.Run(name, func(t *testing.T) {
			res := get(t, addr, c.asked, "wayp.example")
			require.Equal(t, []string{c.location}, res.Header["Location"])
			require.Contains(t, []int{301, 302}, res.StatusCode)
		})
	}
}

// The target of a link that has ended takes the place of the link's, whichever way it
// has ended.
func TestForward_AppendsNothingToTheTargetOfALinkThatHasEnded(t *testing.T) {
	links := newMemoryLinks()
	own := links.links[waypost.DefaultDomain]
	for code, flags := range map[string]waypost.LinkFlags{"ended001": waypost.ForwardPath | waypost.ForwardQuery, "ended002": 0} {
		for kind, record := range map[string]waypost.Record{
			"-expired": expiredLink(t), "-eventual": limitedLink(t, rules.ModeEventual, ended), "-exact": limitedLink(t, rules.ModeExact, ended),
		} {
			record.Flags = flags
			if kind == "-eventual" {
				record.Flags |= waypost.Exhausted
			}
			own[code+kind] = record
		}
	}
	clicks := &memoryClicks{}
	_, addr := serve(t, server.Config{Links: links, Clicks: clicks, Budgets: &wallet{exhausted: true}})
	for _, kind := range []string{"-expired", "-eventual", "-exact"} {
		for path, want := range map[string]struct {
			status   int
			location string
		}{
			"/ended001" + kind: {302, ended}, "/ended001" + kind + "?q=1": {302, ended}, "/ended001" + kind + "/rest?q=1": {302, ended},
			"/ended001" + kind + "/../x": {400, ""}, "/ended002" + kind + "?q=1": {302, ended}, "/ended002" + kind + "/rest": {404, ""},
		} {
			res := get(t, addr, path, "wayp.example", firefoxAgent)
			require.Equal(t, want.status, res.StatusCode, path)
			require.Equal(t, want.location, res.Header.Get("Location"), path)
		}
	}
	require.Empty(t, clicks.take())
}

// expiredLink returns the record of a link that has expired, and has a target for that.
func expiredLink(t *testing.T) waypost.Record {
	t.Helper()
	with := rules.Compiling{Status: 302, Target: func(url string) (string, string, error) { return url, url, nil }}
	programme, err := rules.Compile(&rules.Source{ExpiredURL: ended}, &with)
	require.NoError(t, err)
	return waypost.Record{Kind: waypost.KindLink, Status: 302, Payload: []byte(target), ExpiresAt: 1, Programme: programme}
}

func TestALocationThatWouldBeTooLongIs414(t *testing.T) {
	links := newMemoryLinks()
	long := links.links[waypost.DefaultDomain]["longlink"]
	long.Flags = waypost.ForwardQuery
	links.links[waypost.DefaultDomain]["longlink"] = long
	_, addr := serve(t, server.Config{Links: links})
	res := get(t, addr, "/longlink?q=1", "wayp.example", "Accept: text/html")
	require.Equal(t, 414, res.StatusCode)
	require.Contains(t, res.body, "Address too long")
	require.False(t, res.Close, "it is no fault of the protocol")
	require.Equal(t, 302, get(t, addr, "/longlink", "wayp.example").StatusCode)
}
