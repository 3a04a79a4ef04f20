package controlplane_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/controlplane"
	"waypost/rules"
)

func TestLinks_ResolveAnswersByWhatWasWritten(t *testing.T) {
	s := start(t)
	root, lost := "https://example.com/root", "https://example.com/lost"
	d, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: "own.example.com", RootURL: root, NotFoundURL: lost})
	require.NoError(t, err)
	create := func(n controlplane.NewLink) {
		_, _, err := s.Links.Create(t.Context(), actor, n)
		require.NoError(t, err)
	}
	create(wish(custom("plain")))
	create(wish(custom("both"), func(n *controlplane.NewLink) { n.ForwardQuery, n.ForwardPath = true, true }))
	create(wish(custom("permanent"), func(n *controlplane.NewLink) { n.RedirectStatus = 301 }))
	create(wish(custom("short")))
	create(wish(custom("paused")))
	create(wish(custom("gone")))
	create(wish(custom("theirs"), func(n *controlplane.NewLink) { n.Domain = "own.example.com" }))
	no := false
	_, _, err = s.Links.Change(t.Context(), actor, "", "paused", controlplane.LinkChange{Active: &no})
	require.NoError(t, err)
	_, err = s.hand.Exec(t.Context(), `UPDATE link SET expires_at = now() - interval '1 hour' WHERE code = 'short'`)
	require.NoError(t, err)
	_, err = s.Links.Remove(t.Context(), actor, "", "gone")
	require.NoError(t, err)

	const target = "https://example.com/a?b=c#d"
	for _, c := range []struct{ host, path, want string }{
		{"go.example.com", "plain", "302 " + target},
		{"GO.example.com:443", "plain", "302 " + target},
		{"198.51.100.7:8080", "plain?x=1", "302 " + target},
		{"", "both/rest?x=1", "302 https://example.com/a/rest?b=c&x=1#d"},
		{"", "plain/rest", "404 "},
		{"", "permanent", "301 " + target},
		{"", "short", "410 "},
		{"", "paused", "410 "},
		{"", "gone", "410 "},
		{"", "x", "404 "},
		{"", "theirs", "404 "},
		{"own.example.com", "theirs", "302 " + target},
		{"own.example.com", "theirs/rest", "302 " + lost},
		{"own.example.com", "plain", "302 " + lost},
	} {
		res, err := s.Links.Resolve(t.Context(), c.host, visit(c.path), &rules.Request{})
		require.NoError(t, err)
		require.Equal(t, c.want, fmt.Sprintf("%d %s", res.Status, res.Location), "%s %s", c.host, c.path)
	}

	res, leads, err := s.Domains.Root(t.Context(), "own.example.com:80")
	require.NoError(t, err)
	require.True(t, leads)
	require.Equal(t, root, string(res.Location))
	_, err = s.Domains.RemoveDomain(t.Context(), actor, d.ID, true)
	require.NoError(t, err)
	_, leads, err = s.Domains.Root(t.Context(), "own.example.com")
	require.NoError(t, err)
	require.False(t, leads)
}

func TestLinks_ResolveStrictHosts(t *testing.T) {
	s := start(t)
	_, _, err := s.Links.Create(t.Context(), actor, wish(custom("plain")))
	require.NoError(t, err)
	strict := controlplane.New(controlplane.Config{Store: s.db, Minter: s.minter, StrictHosts: true})
	t.Cleanup(func() { require.NoError(t, strict.Close(context.Background())) })
	for host, status := range map[string]int{"go.example.com": 302, "other.example.com": 404} {
		res, err := strict.Links.Resolve(t.Context(), host, visit("plain"), &rules.Request{})
		require.NoError(t, err)
		require.Equal(t, status, res.Status, host)
	}
}
