package controlplane_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/rules"
)

// stranger is an administrator of another workspace.
func (s *system) stranger(t *testing.T) controlplane.Actor {
	t.Helper()
	_, err := s.hand.Exec(t.Context(), `INSERT INTO workspace (id, name, slug) VALUES (7, 'acme', 'acme')`)
	require.NoError(t, err)
	return controlplane.Actor{Workspace: 7, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}
}

// addProved adds a domain of which DNS knows the proof.
func (s *system) addProved(t *testing.T, by controlplane.Actor, n api.NewDomain) (controlplane.OwnedDomain, waypost.Position) {
	t.Helper()
	d, _, err := s.Domains.AddDomain(t.Context(), by, n)
	require.NoError(t, err)
	s.dns.SetTexts(controlplane.ProofName(d.Host), d.Proof)
	d, at, err := s.Domains.Verify(t.Context(), by, d.ID)
	require.NoError(t, err)
	return d, at
}

func under(host string) func(*controlplane.NewLink) {
	return func(n *controlplane.NewLink) { n.Domain = host }
}

func TestDomains_DomainIsItsWorkspacesOwn(t *testing.T) {
	s := start(t)
	other := s.stranger(t)
	d, at := s.addProved(t, other, api.NewDomain{Host: "Bücher.Example.", RootURL: "https://example.com/"})
	require.False(t, at.IsZero())
	require.Equal(t, "xn--bcher-kva.example", d.Host)

	theirs, _, err := s.Links.Create(t.Context(), other, wish(custom("same"), under("bücher.example")))
	require.NoError(t, err)
	require.Equal(t, d.Host, theirs.Host)
	_, _, err = s.Links.Create(t.Context(), actor, wish(custom("mine"), under("bücher.example")))
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	mine, _, err := s.Links.Create(t.Context(), actor, controlplane.NewLink{OriginalURL: "https://example.net/", CustomCode: "same"})
	require.NoError(t, err, "a code is unique per domain")
	require.Empty(t, mine.Host)

	for host, want := range map[string]string{
		"xn--bcher-kva.example": theirs.OriginalURL, "go.example.com": mine.OriginalURL,
		"anything": mine.OriginalURL,
	} {
		res, err := s.Links.Resolve(t.Context(), host, visit("same"), &rules.Request{})
		require.NoError(t, err)
		require.Equal(t, want, string(res.Location), host)
	}
	got, err := s.Links.Find(t.Context(), other, "XN--bcher-kva.example", "same")
	require.NoError(t, err)
	require.Equal(t, theirs.ID, got.ID)
	require.Equal(t, d.Host, got.Host)
	for _, c := range []struct {
		actor  controlplane.Actor
		domain string
	}{{actor, d.Host}, {other, ""}, {other, "go.example.com"}, {other, "unheard-of.example"}, {other, "not a host"}} {
		_, err = s.Links.Find(t.Context(), c.actor, c.domain, "same")
		require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
		_, _, err = s.Links.Change(t.Context(), c.actor, c.domain, "same", controlplane.LinkChange{Details: entitle("t")})
		require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
		_, err = s.Links.Remove(t.Context(), c.actor, c.domain, "same")
		require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
	}
	_, err = s.Links.Remove(t.Context(), other, d.Host, "same")
	require.NoError(t, err)
	_, err = s.Links.Find(t.Context(), actor, "", "same")
	require.NoError(t, err, "the other domain's link is another")
}

func TestDomains_GeneratedCodesAreMintedForEveryDomain(t *testing.T) {
	s := start(t)
	_, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: "own.example"})
	require.NoError(t, err)
	seen := map[waypost.Code]bool{}
	for i := range 20 {
		l, _, err := s.Links.Create(t.Context(), actor, wish(under([]string{"", "own.example"}[i%2])))
		require.NoError(t, err)
		require.Len(t, l.Code, 7)
		require.False(t, seen[l.Code])
		seen[l.Code] = true
	}
}

func TestDomains_HostThatCanBeNoDomainIsRefused(t *testing.T) {
	s := start(t)
	other := s.stranger(t)
	s.addProved(t, other, api.NewDomain{Host: "taken.example"})
	for host, code := range map[string]waypost.ErrorCode{
		"":                     waypost.EInvalid,
		"[":                    waypost.EInvalid,
		"[::1]":                waypost.EInvalid,
		"192.0.2.7":            waypost.EInvalid,
		"0x7f.1":               waypost.EInvalid,
		"localhost":            waypost.EInvalid,
		"printer.local":        waypost.EInvalid,
		"intranet":             waypost.EInvalid,
		"com":                  waypost.EInvalid,
		"co.uk":                waypost.EInvalid,
		"github.io":            waypost.EInvalid,
		"a_b.example":          waypost.EInvalid,
		"-a.example":           waypost.EInvalid,
		"a..example":           waypost.EInvalid,
		"own.example:8080":     waypost.EInvalid,
		"https://own.example/": waypost.EInvalid,
		"own.example/path":     waypost.EInvalid,
		"domain-1.invalid":     waypost.EInvalid,
		"\x00.example":         waypost.EInvalid,
		"GO.example.com":       waypost.EConflict,
		"Taken.Example":        waypost.EConflict,
	} {
		_, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: host})
		require.Equal(t, code, waypost.CodeOf(err), "%q: %v", host, err)
		require.NotContains(t, waypost.MessageOf(err), "acme", "nobody learns whose it is")
	}
	_, _, err := s.Domains.AddDomain(t.Context(), other, api.NewDomain{Host: "shared.example", Shared: true})
	require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
	for _, target := range []string{"https://fresh.example/x", "https://taken.example/", "https://GO.example.com/"} {
		_, _, err = s.Domains.AddDomain(t.Context(), other, api.NewDomain{Host: "fresh.example", NotFoundURL: target})
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), target)
	}
}

func TestDomains_NoLinkLeadsInACircle(t *testing.T) {
	s := start(t)
	other := s.stranger(t)
	services := map[string]*controlplane.Services{"here": s.Services, "on another control plane": s.another(t)}
	for name, service := range services { // each knows its hosts by now
		_, _, err := service.Links.Create(t.Context(), actor, wish())
		require.NoError(t, err, name)
	}
	s.addProved(t, other, api.NewDomain{Host: "theirs.example"})
	_, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: "shared.example", Shared: true})
	require.NoError(t, err)
	for _, url := range []string{"https://theirs.example/back", "https://shared.example/", "https://go.example.com/x"} {
		to := func(n *controlplane.NewLink) { n.OriginalURL = url }
		_, _, err = s.Links.Create(t.Context(), other, wish(under("theirs.example"), to))
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), url)
		_, _, err = s.Domains.AddDomain(t.Context(), other, api.NewDomain{Host: "more.example", RootURL: url})
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), url)
	}
	_, _, err = services["on another control plane"].Links.Create(t.Context(), other, wish(under("theirs.example")))
	require.NoError(t, err, "a domain can be used at once everywhere")
}

func TestDomains_WorkspaceForbidsNoTargetToOthers(t *testing.T) {
	s := start(t)
	l := make1(t, s.Services, controlplane.NewLink{OriginalURL: "https://www.youtube.com/watch?v=1"}).Link
	s.addProved(t, s.stranger(t), api.NewDomain{Host: "www.youtube.com"})
	make1(t, s.Services, controlplane.NewLink{OriginalURL: "https://www.youtube.com/watch?v=2"})
	again := "https://www.youtube.com/watch?v=9"
	_, _, err := s.Links.Change(t.Context(), actor, "", string(l.Code), controlplane.LinkChange{OriginalURL: &again})
	require.NoError(t, err)
	_, _, err = s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: "own.example", NotFoundURL: again})
	require.NoError(t, err)
}

func TestDomains_OnlyOperatorsAddNamesBelowTheBaseURL(t *testing.T) {
	s := start(t)
	other := s.stranger(t)
	for _, host := range []string{"api.go.example.com", "a.b.GO.example.com."} {
		_, _, err := s.Domains.AddDomain(t.Context(), other, api.NewDomain{Host: host})
		require.Equal(t, waypost.EForbidden, waypost.CodeOf(err), host)
		_, _, err = s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: host})
		require.NoError(t, err, host)
	}
	for _, host := range []string{"ago.example.com", "go.example.com.example.net"} {
		_, _, err := s.Domains.AddDomain(t.Context(), other, api.NewDomain{Host: host})
		require.NoError(t, err, host)
	}
}

func TestDomains_DomainIsRemovedWithItsLinksOnlyIfThatIsMeant(t *testing.T) {
	s := start(t)
	other := s.stranger(t)
	d, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: "own.example", RootURL: "https://example.com/"})
	require.NoError(t, err)
	var wishes []controlplane.NewLink
	for i := range 1500 {
		wishes = append(wishes, wish(custom(fmt.Sprintf("code-%d", i)), under("own.example")))
	}
	for _, part := range [][]controlplane.NewLink{wishes[:1000], wishes[1000:]} {
		_, _, err = s.Links.CreateBulk(t.Context(), actor, part)
		require.NoError(t, err)
	}
	_, err = s.Domains.RemoveDomain(t.Context(), other, d.ID, true)
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
	_, err = s.Domains.RemoveDomain(t.Context(), actor, waypost.DefaultDomain, true)
	require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
	_, err = s.Domains.RemoveDomain(t.Context(), actor, d.ID, false)
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
	require.Equal(t, 1500, s.count(t, `SELECT count(*) FROM link WHERE deleted_at IS NULL`))

	_, err = s.hand.Exec(t.Context(), `
		INSERT INTO link (workspace_id, domain_id, code, custom, original_url, location, redirect_status, deleted_at)
		SELECT 1, $1, p || '-' || 1000 + n, true, 'https://example.com/', 'https://example.com/', 302, CASE WHEN p <> 'live' THEN now() END
		FROM unnest('{a,code-5,live,zz}'::text[]) p, generate_series(1, 1000) n`, d.ID)
	require.NoError(t, err)
	before := s.count(t, `SELECT seq FROM changelog_head`)
	_, err = s.Domains.RemoveDomain(t.Context(), actor, d.ID, true)
	require.NoError(t, err)
	require.Equal(t, before+(1500+4000)/1000+1+1, s.count(t, `SELECT seq FROM changelog_head`),
		"a step for every thousand links, gone or not, and one for the domain")
	require.Zero(t, s.count(t, `SELECT count(*) FROM link WHERE deleted_at IS NULL`))
	_, err = s.Domains.RemoveDomain(t.Context(), actor, d.ID, true)
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
	_, _, err = s.Links.Create(t.Context(), actor, wish(under("own.example")))
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	_, leads, err := s.Domains.Root(t.Context(), "own.example")
	require.NoError(t, err)
	require.False(t, leads)
	all, err := s.Domains.Domains(t.Context(), actor)
	require.NoError(t, err)
	require.Len(t, all, 1)

	again, _ := s.addProved(t, other, api.NewDomain{Host: "own.example"})
	require.NotEqual(t, d.ID, again.ID)
	_, _, err = s.Links.Create(t.Context(), other, wish(custom("code-1"), under("own.example")))
	require.NoError(t, err)
	log, err := s.db.Audit(t.Context(), actor.Workspace, 0, 10)
	require.NoError(t, err)
	require.Equal(t, "domains.remove own.example", log[0].Action+" "+log[0].Subject)
	require.Equal(t, "domains.add own.example", log[1].Action+" "+log[1].Subject)
}

func TestDomains_DomainThatAnotherControlPlaneRemovesGetsNoFurtherLink(t *testing.T) {
	s := start(t)
	for _, host := range []string{"brief.example", "lasting.example"} {
		_, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: host})
		require.NoError(t, err)
		_, _, err = s.Links.Create(t.Context(), actor, wish(custom("sale"), under(host)))
		require.NoError(t, err)
	}
	all, err := s.db.Domains(t.Context(), actor.Workspace)
	require.NoError(t, err)
	id := all[1].ID
	require.Equal(t, "brief.example", all[1].Host)
	_, err = s.db.RetireDomain(t.Context(), actor, actor.Workspace, id, true) // so that this control plane still knows the host
	require.NoError(t, err)

	outcomes, _, err := s.Links.CreateBulk(t.Context(), actor, []controlplane.NewLink{
		wish(custom("late"), under("brief.example")), wish(custom("good"), under("lasting.example")), wish(),
		wish(custom("later"), under("brief.example")),
	})
	require.NoError(t, err)
	for i, want := range []waypost.ErrorCode{waypost.EInvalid, "", "", waypost.EInvalid} {
		require.Equal(t, want, waypost.CodeOf(outcomes[i].Err), "%d: %v", i, outcomes[i].Err)
	}
	gone, _, err := s.db.DeletedLink(t.Context(), actor.Workspace, id, "sale", time.Hour)
	require.NoError(t, err)
	_, _, err = s.db.RestoreLink(t.Context(), actor, controlplane.VersionOf(&gone), &gone)
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), "its tombstone stays one")
	require.Zero(t, s.count(t, `SELECT count(*) FROM link l JOIN domain d ON d.id = l.domain_id WHERE d.retired AND l.deleted_at IS NULL`))
	_, err = s.hand.Exec(t.Context(), `UPDATE link SET deleted_at = deleted_at - interval '1 day' WHERE deleted_at IS NOT NULL`)
	require.NoError(t, err, "tombstones change")
}

func TestDomains_DomainWithoutLinksLeavesNothing(t *testing.T) {
	s := start(t)
	other := s.stranger(t)
	d, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: "shared.example", Shared: true})
	require.NoError(t, err)
	_, err = s.Domains.RemoveDomain(t.Context(), operator, d.ID, false)
	require.NoError(t, err)
	pending, _, err := s.Domains.AddDomain(t.Context(), other, api.NewDomain{Host: "pending.example"})
	require.NoError(t, err)
	_, err = s.Domains.RemoveDomain(t.Context(), other, pending.ID, true)
	require.NoError(t, err)
	used, _ := s.addProved(t, other, api.NewDomain{Host: "used.example"})
	_, _, err = s.Links.Create(t.Context(), other, wish(under("used.example")))
	require.NoError(t, err)
	_, err = s.Domains.RemoveDomain(t.Context(), other, used.ID, true)
	require.NoError(t, err)
	require.Equal(t, int(used.ID), s.count(t, `SELECT sum(id)::integer FROM domain WHERE id <> 1`), "its link is a tombstone")
	require.Equal(t, 1, s.count(t, `SELECT count(*) FROM domain WHERE retired`))
	require.Equal(t, 2, s.count(t, `SELECT count(*) FROM changelog WHERE kind = 2 AND state = 3`), "edges forget the others")
	require.Zero(t, s.count(t, `SELECT count(*) FROM domain_proof`))
}

func TestDomains_HostThatLooksLikeAnotherIsPointedOut(t *testing.T) {
	s := start(t)
	for url, want := range map[string]string{
		"https://аррӏе.example/":     controlplane.WarnLookalike, // all of it Cyrillic
		"https://раураl.example/":    controlplane.WarnLookalike,
		"https://exampleд.example/":  controlplane.WarnMixedScripts,
		"https://bücher.example/":    "",
		"https://例え.テスト/":            "",
		"https://пример.example/":    "",
		"https://example.com/аррӏе":  "",
		"https://xn--e1awd7f.com/":   controlplane.WarnLookalike,
		"https://한국语.example/":       "",
		"https://abcひらがな漢字.example/": "",
	} {
		o := make1(t, s.Services, controlplane.NewLink{OriginalURL: url})
		var got string
		for _, w := range o.Warnings {
			got += w.Code
		}
		require.Equal(t, want, got, "%s: %v", url, o.Warnings)
	}
}

func TestDomains_DomainOfABaseURLCanBeAnAddress(t *testing.T) {
	for _, host := range []string{"192.0.2.1", "[2001:db8::1]"} {
		s := start(t)
		_, err := s.db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: host})
		require.NoError(t, err)
		l, _, err := s.Links.Create(t.Context(), actor, wish(custom("same"), under(host)))
		require.NoError(t, err, host)
		for _, name := range []string{host, ""} {
			got, err := s.Links.Find(t.Context(), actor, name, "same")
			require.NoError(t, err, host)
			require.Equal(t, l.ID, got.ID)
		}
		for _, other := range []string{"192.0.2.2", "[2001:db8::2]", "2001:db8::1%a\x00", host + ":80"} {
			_, err := s.Links.Find(t.Context(), actor, other, "same")
			require.Equal(t, waypost.ENotFound, waypost.CodeOf(err), other)
		}
	}
}
