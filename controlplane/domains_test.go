package controlplane_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/rules"
)

func TestDomains_DomainLeadsVisitorsWhoFollowNoLink(t *testing.T) {
	s := start(t)
	root, lost := "https://example.com/ü", "https://example.com/lost"
	d, at, err := s.Domains.ChangeDomain(t.Context(), actor, waypost.DefaultDomain, api.DomainChange{RootURL: &root, NotFoundURL: &lost})
	require.NoError(t, err)
	require.NotZero(t, at.Seq)
	require.Equal(t, "https://example.com/%C3%BC", string(d.Root), "as it stands in Location")

	res, leads, err := s.Domains.Root(t.Context(), "Go.example.com:443")
	require.NoError(t, err)
	require.True(t, leads)
	require.Equal(t, "https://example.com/%C3%BC", string(res.Location))
	_, leads, err = s.Domains.Root(t.Context(), "127.0.0.1:8080")
	require.NoError(t, err)
	require.False(t, leads, "a host that is no domain's")

	l, _, err := s.Links.Create(t.Context(), actor, wish())
	require.NoError(t, err)
	for path, location := range map[string]string{
		"unknown": lost, "unknown+": lost, "x": lost, "favicon": lost, string(l.Code) + "/x": lost, string(l.Code): l.OriginalURL,
	} {
		res, err := s.Links.Resolve(t.Context(), "anything:8080", visit(path), &rules.Request{})
		require.NoError(t, err)
		require.Equal(t, 302, res.Status, path)
		require.Equal(t, location, string(res.Location), path)
		require.Equal(t, location != lost, res.Link)
	}
	_, err = s.Links.Remove(t.Context(), actor, "", string(l.Code))
	require.NoError(t, err)
	res, err = s.Links.Resolve(t.Context(), "", visit(string(l.Code)), &rules.Request{})
	require.NoError(t, err)
	require.Equal(t, 410, res.Status, "what is gone was once known")

	log, err := s.db.Audit(t.Context(), actor.Workspace, 0, 10)
	require.NoError(t, err)
	require.Equal(t, []string{"domains.set", "go.example.com"}, []string{log[0].Action, log[0].Subject})
	require.JSONEq(t, `{"root_url": "https://example.com/%C3%BC", "not_found_url": "https://example.com/lost"}`, string(log[0].Detail))

	none := ""
	_, _, err = s.Domains.ChangeDomain(t.Context(), actor, waypost.DefaultDomain, api.DomainChange{NotFoundURL: &none})
	require.NoError(t, err)
	res, err = s.Links.Resolve(t.Context(), "", visit("unknown"), &rules.Request{})
	require.NoError(t, err)
	require.Equal(t, waypost.NotFound, res)
	all, err := s.Domains.Domains(t.Context(), actor)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "https://example.com/%C3%BC", string(all[0].Root), "the other field stays as it was")
}

func TestDomains_MaintenanceTakesVisitorsOfLinksAndTheRoot(t *testing.T) {
	s := start(t)
	l, _, err := s.Links.Create(t.Context(), actor, wish())
	require.NoError(t, err)
	_, _, err = s.Links.Create(t.Context(), actor, wish(custom("secret"), func(n *controlplane.NewLink) { n.Password = "secret" }))
	require.NoError(t, err)
	gone, _, err := s.Links.Create(t.Context(), actor, wish(custom("gone")))
	require.NoError(t, err)
	_, err = s.Links.Remove(t.Context(), actor, "", string(gone.Code))
	require.NoError(t, err)
	root, soon, over := "https://example.com/", "https://example.com/soon", ""
	d, _, err := s.Domains.ChangeDomain(t.Context(), actor, waypost.DefaultDomain, api.DomainChange{RootURL: &root, MaintenanceURL: &soon})
	require.NoError(t, err)
	require.Equal(t, soon, string(d.Maintenance))
	log, err := s.db.Audit(t.Context(), actor.Workspace, 0, 10)
	require.NoError(t, err)
	require.JSONEq(t, `{"root_url": "https://example.com/", "maintenance_url": "https://example.com/soon"}`, string(log[0].Detail))

	leads := func(path, want string, link bool) {
		t.Helper()
		res, err := s.Links.Resolve(t.Context(), "go.example.com", visit(path), &rules.Request{})
		require.NoError(t, err)
		require.Equal(t, want, string(res.Location))
		require.Equal(t, link, res.Link)
		require.Zero(t, res.MaxAge)
	}
	atRoot := func(want string) {
		t.Helper()
		res, _, err := s.Domains.Root(t.Context(), "go.example.com")
		require.NoError(t, err)
		require.Equal(t, want, string(res.Location))
	}
	leads(string(l.Code), soon, false)
	leads(string(l.Code)+"+", soon, false)
	leads("secret", soon, false)
	leads("gone", "", false)
	leads("unknown", "", false)
	atRoot(soon)
	_, _, err = s.Domains.ChangeDomain(t.Context(), actor, waypost.DefaultDomain, api.DomainChange{MaintenanceURL: &over})
	require.NoError(t, err)
	leads(string(l.Code), l.OriginalURL, true)
	atRoot(root)
}

func TestDomains_DomainLeadsOnlyWhereALinkMight(t *testing.T) {
	s := start(t)
	_, err := s.hand.Exec(t.Context(), `INSERT INTO domain (id, workspace_id, host) VALUES (7, 1, 'own.example.com')`)
	require.NoError(t, err)
	for url, code := range map[string]waypost.ErrorCode{
		"javascript:alert(1)": waypost.EMalformed, "http://127.0.0.1/": waypost.EInvalid, "https://u@example.com/": waypost.EInvalid,
		"https://go.example.com/welcome": waypost.EInvalid, "https://OWN.example.com/": waypost.EInvalid, "x": waypost.EMalformed,
		"https://example.com/\r\n": waypost.EMalformed,
		"https://example.com/" + strings.Repeat("x", waypost.MaxDomainURL):   waypost.ETooLarge,
		"https://example.com/" + strings.Repeat("ü", waypost.MaxDomainURL/6): waypost.ETooLarge,
	} {
		for _, c := range []api.DomainChange{{RootURL: &url}, {NotFoundURL: &url}, {MaintenanceURL: &url}} {
			_, _, err := s.Domains.ChangeDomain(t.Context(), actor, waypost.DefaultDomain, c)
			require.Equal(t, code, waypost.CodeOf(err), "%.60q: %v", url, err)
			require.Contains(t, err.Error(), "_url")
		}
	}
	_, _, err = s.Domains.ChangeDomain(t.Context(), actor, waypost.DefaultDomain, api.DomainChange{})
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), "nothing to change")
}

func TestDomains_DomainIsChangedByItsOwner(t *testing.T) {
	s := start(t)
	_, err := s.hand.Exec(t.Context(), `INSERT INTO workspace (id, name, slug) VALUES (2, 'Two', 'two');
		INSERT INTO domain (id, workspace_id, host) VALUES (7, 1, 'one.example.com'), (8, 2, 'two.example.com')`)
	require.NoError(t, err)
	two := controlplane.Actor{Workspace: 2}
	url := "https://example.com/"
	for _, c := range []struct {
		actor controlplane.Actor
		id    waypost.DomainID
		code  waypost.ErrorCode
	}{
		{actor, 1, ""},
		{actor, 7, ""},
		{two, 8, ""},
		{two, 1, waypost.EForbidden},
		{two, 7, waypost.ENotFound},
		{actor, 8, waypost.ENotFound},
		{actor, 99, waypost.ENotFound},
	} {
		_, _, err := s.Domains.ChangeDomain(t.Context(), c.actor, c.id, api.DomainChange{RootURL: &url})
		require.Equal(t, c.code, waypost.CodeOf(err), "workspace %d, domain %d: %v", c.actor.Workspace, c.id, err)
		// The store checks the actor, too.
		_, _, err = s.db.SetDomain(t.Context(), c.actor, c.id, api.DomainChange{RootURL: &url})
		require.Equal(t, c.code == "", err == nil, "workspace %d, domain %d: %v", c.actor.Workspace, c.id, err)
	}
	seen, err := s.Domains.Domains(t.Context(), two)
	require.NoError(t, err)
	require.Len(t, seen, 2)
	require.Equal(t, []string{"go.example.com", "two.example.com"}, []string{seen[0].Host, seen[1].Host})
}

func TestDomains_LinkForwardsAsItsOwnerChose(t *testing.T) {
	s := start(t)
	l, _, err := s.Links.Create(t.Context(), actor, wish(custom("both"), func(n *controlplane.NewLink) {
		n.ForwardQuery, n.ForwardPath = true,
			true
	}))
	require.NoError(t, err)
	require.Equal(t, waypost.ForwardQuery|waypost.ForwardPath, l.Flags)
	shown, err := s.Links.Find(t.Context(), actor, "", "both")
	require.NoError(t, err)
	require.Equal(t, l.Flags, shown.Flags)
	res, err := s.Links.Resolve(t.Context(), "", visit("both/x?y=z"), &rules.Request{})
	require.NoError(t, err)
	require.Equal(t, "https://example.com/a/x?b=c&y=z#d", string(res.Location))
}
