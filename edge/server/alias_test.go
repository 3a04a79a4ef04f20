package server_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
	"waypost/rules"
)

// spenders notes of which links clicks were spent.
type spenders struct{ of []string }

func (s *spenders) Spend(domain waypost.DomainID, code []byte) bool {
	s.of = append(s.of, string(waypost.AppendAlias(nil, domain, code)))
	return true
}

func (s *spenders) SpendOrAsk(_ context.Context, domain waypost.DomainID, code []byte) (spent, exhausted bool) {
	return s.Spend(domain, code), false
}

func TestAliases_LeadWhereTheirLinkLeads(t *testing.T) {
	links, clicks, budgets := newMemoryLinks(), &memoryClicks{}, &spenders{}
	own := links.links[waypost.DefaultDomain]
	own["secret01"], own["secret99"] = protectedLink(t, 1, 8, waypost.Aliased), protectedLink(t, 2, 8, waypost.Aliased)
	own["secret02"], own["limited2"], own["cookies2"] = aliasOf("1/secret01"), aliasOf("1/limited1"), aliasOf("1/cookies1")
	own["limited1"] = limitedLink(t, rules.ModeExact, "")
	links.links[hostID]["limited3"] = aliasOf("1/limited1")
	split := own["cookies1"]
	split.Flags = waypost.Aliased
	own["cookies1"] = split
	links.targets[hostID] = waypost.DomainTargets{}
	_, addr := serve(t, server.Config{Links: links, Clicks: clicks, Budgets: budgets})

	for _, lane := range []string{"X-A: b", "Sec-Purpose: none"} { // the fast path, and the handler
		clicks.take()
		for path, location := range map[string]string{
			"/alias001":         "https://example.org/a%20b?q=%C3%BC&q=1#top",
			"/alias001/x/y?a=b": "https://example.org/a%20b/x/y?q=%C3%BC&q=1&a=b#top",
			"/alias005":         "https://example.org/closed",
		} {
			require.Equal(t, location, get(t, addr, path, "wayp.example", lane).Header.Get("Location"), path)
			taken := clicks.take()
			require.Len(t, taken, 1)
			require.Equal(t, path[1:9], taken[0].code, "the click names the address that was asked for")
		}
		require.Equal(t, "https://example.org/a%20b?q=%C3%BC&q=1#top", get(t, addr, "/alias001", hosted, lane).Header.Get("Location"))
		require.Equal(t, hostID, clicks.take()[0].domain)

		budgets.of = nil
		for _, path := range []string{"/limited1", "/limited2"} {
			require.Equal(t, 302, get(t, addr, path, "wayp.example", lane, firefoxAgent).StatusCode)
		}
		require.Equal(t, 302, get(t, addr, "/limited3", hosted, lane, firefoxAgent).StatusCode)
		require.Equal(t, []string{"1/limited1", "1/limited1", "1/limited1"}, budgets.of)

		first := get(t, addr, "/cookies2", "wayp.example", lane)
		require.Equal(t, "/", first.Cookies()[0].Path)
		for _, path := range []string{"/cookies1", "/cookies2"} {
			again := get(t, addr, path, "wayp.example", lane, cookieOf(t, first))
			require.Equal(t, first.Header.Get("Location"), again.Header.Get("Location"))
			require.Empty(t, again.Cookies())
		}
	}

	require.Equal(t, 200, get(t, addr, "/secret02", "wayp.example").StatusCode)
	right := postForm(t, addr, "/secret02", secret)
	require.Equal(t, "/secret02", right.Header.Get("Location"))
	require.Equal(t, "/", right.Cookies()[0].Path)
	for _, path := range []string{"/secret01", "/secret02"} {
		require.Equal(t, 302, get(t, addr, path, "wayp.example", cookieOf(t, right)).StatusCode, "the password is asked for once")
	}
	require.Equal(t, 200, get(t, addr, "/secret99", "wayp.example", cookieOf(t, right)).StatusCode, "of another link")
	other := postForm(t, addr, "/secret99", secret)
	require.NotEqual(t, right.Cookies()[0].Name, other.Cookies()[0].Name, "which would replace the first cookie")
}

// movingLinks changes the key of a link behind the first look-up of its alias.
type movingLinks struct {
	*memoryLinks
	moved bool
}

func (m *movingLinks) Link(domain waypost.DomainID, code, buf []byte, rec *waypost.Record) ([]byte, bool, error) {
	defer func() {
		if own := m.links[domain]; string(code) == "alias" && !m.moved {
			m.moved = true
			own["key"], own["alias"] = own["Key"], aliasOf("1/key")
			delete(own, "Key")
		}
	}()
	return m.memoryLinks.Link(domain, code, buf, rec)
}

func aliasOf(key string) waypost.Record {
	return waypost.Record{Kind: waypost.KindLink, Status: 302, Flags: waypost.AliasOf, Payload: []byte(key)}
}

func TestAliases_LeadToALinkThatMovesBetweenTheLookUps(t *testing.T) {
	links := &movingLinks{memoryLinks: newMemoryLinks()}
	own := links.links[waypost.DefaultDomain]
	own["Key"], own["alias"] = waypost.Record{Kind: waypost.KindLink, Status: 302, Payload: []byte("https://example.com/")}, aliasOf("1/Key")
	visit := waypost.ParseVisit([]byte("/alias"))
	var f server.Finder
	found, err := f.Find(links, nil, waypost.DefaultDomain, 0, nil, &visit)
	require.NoError(t, err)
	require.NotNil(t, found.Record)
	require.Equal(t, "https://example.com/", string(found.Record.Payload))
	require.True(t, links.moved)
}
