package controlplane_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/rules"
)

// rulesOf is a source with rules of several kinds.
func rulesOf() rules.Source {
	return rules.Source{
		Rules: []rules.Rule{
			{Name: "German phones", To: "https://example.com/ios-de", When: []rules.Condition{
				{Agent: []string{"ios"}}, {Country: []string{"DE", "AT"}},
			}},
			{To: "https://example.com/french", When: []rules.Condition{{Language: []string{"fr"}}}},
			{Status: 410, When: []rules.Condition{{Query: &rules.Parameter{Key: "gone"}}}},
			{When: []rules.Condition{{Agent: []string{"android"}}}, Split: &rules.Split{Variants: []rules.Variant{
				{Weight: 1, To: "https://example.com/a"}, {Weight: 1, To: "https://example.com/b"},
			}}},
		},
		ExpiredURL: "https://example.com/over",
	}
}

func TestLinks_ExplainAnswersAsTheRedirectDoes(t *testing.T) {
	s := start(t)
	d, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{
		Host: "own.example.com", NotFoundURL: "https://example.com/lost",
	})
	require.NoError(t, err)
	create := func(code string, change func(*controlplane.NewLink)) {
		_, _, err := s.Links.Create(t.Context(), actor, wish(custom(code), change))
		require.NoError(t, err)
	}
	soon := time.Now().Add(time.Hour).Truncate(time.Second)
	create("plain", func(n *controlplane.NewLink) { n.ForwardQuery = true })
	create("paused", func(n *controlplane.NewLink) { n.Disabled = true })
	create("ruled", func(n *controlplane.NewLink) { n.Rules = rulesOf() })
	create("later", func(n *controlplane.NewLink) { n.Rules.ValidFrom = soon; n.Domain = "own.example.com" })
	create("tickets", func(n *controlplane.NewLink) { n.Rules = rules.Source{MaxClicks: 5, MaxClicksMode: rules.ModeExact} })
	create("short", func(n *controlplane.NewLink) { n.ExpiresAt = soon; n.Rules = rulesOf() })
	_, err = s.hand.Exec(t.Context(), `UPDATE link SET expires_at = now() - interval '1 minute' WHERE code = 'short'`)
	require.NoError(t, err)

	explain := func(host, code string, r rules.Request) controlplane.Explanation {
		e, err := s.Links.Explain(t.Context(), actor, host, code, &controlplane.Visitor{Request: r})
		require.NoError(t, err)
		return e
	}
	for _, c := range []struct {
		host, code string
		r          rules.Request
		want, gate string
		steps      []rules.Step
	}{
		{code: "plain", r: rules.Request{Query: []byte("x=1")}, want: "302 https://example.com/a?b=c&x=1#d"},
		{code: "paused", want: "410 ", gate: "state"},
		{host: "own.example.com", code: "later", want: "302 https://example.com/lost", gate: "valid_from"},
		{code: "short", want: "302 https://example.com/over", gate: "expired"},
		{
			code: "ruled", r: rules.Request{UserAgent: []byte(rules.SampleAgent("iphone")), AcceptLanguage: []byte("fr-CA")},
			want: "302 https://example.com/french", steps: []rules.Step{{Rule: 1, Failed: 1}, {Rule: 2, Failed: -1}},
		},
		{
			code: "ruled", r: rules.Request{Query: []byte("gone")}, want: "410 ",
			steps: []rules.Step{{Rule: 1}, {Rule: 2}, {Rule: 3, Failed: -1}},
		},
	} {
		c.r.At = time.Now().UnixMilli()
		e := explain(c.host, c.code, c.r)
		require.Equal(t, c.want, fmt.Sprintf("%d %s", e.Resolution.Status, e.Resolution.Location), c.code)
		require.Equal(t, c.gate, e.Trace.Gate, c.code)
		require.Equal(t, c.steps, e.Trace.Steps, c.code)
		v := waypost.Visit{Code: []byte(c.code), Query: c.r.Query}
		res, err := s.Links.Resolve(t.Context(), c.host, &v, &c.r)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%d %s", res.Status, res.Location), fmt.Sprintf("%d %s", e.Resolution.Status, e.Resolution.Location), c.code)
	}

	// An edge leads visitors alone to the target of a link that counts its visits.
	for agent, want := range map[string]int{"bot": 403, "preview": 403, "iphone": 302, "": 302} {
		require.Equal(t, want, explain("", "tickets", rules.Request{UserAgent: []byte(rules.SampleAgent(agent))}).Resolution.Status, agent)
	}

	maintenance := "https://example.com/maintenance"
	_, _, err = s.Domains.ChangeDomain(t.Context(), operator, d.ID, api.DomainChange{MaintenanceURL: &maintenance})
	require.NoError(t, err)
	e := explain("own.example.com", "later", rules.Request{At: soon.UnixMilli()})
	require.True(t, e.Maintenance)
	require.Equal(t, maintenance, string(e.Resolution.Location))
	require.False(t, explain("own.example.com", "later", rules.Request{}).Maintenance)
	maintenance = ""
	_, _, err = s.Domains.ChangeDomain(t.Context(), operator, d.ID, api.DomainChange{MaintenanceURL: &maintenance})
	require.NoError(t, err)

	// What only an explanation can know: the country, and another time.
	e, err = s.Links.Explain(t.Context(), actor, "", "ruled", &controlplane.Visitor{
		Request: rules.Request{UserAgent: []byte(rules.SampleAgent("iphone"))}, Country: [2]byte{'A', 'T'},
	})
	require.NoError(t, err)
	require.Equal(t, "https://example.com/ios-de", string(e.Resolution.Location))
	e = explain("own.example.com", "later", rules.Request{At: soon.UnixMilli()})
	require.Empty(t, e.Trace.Gate)

	// The same visitor gets the same variant, and others the other one.
	variants := map[uint8]int{}
	for i := range 64 {
		r := rules.Request{UserAgent: []byte(rules.SampleAgent("android")), Address: netip.AddrFrom4([4]byte{192, 0, byte(i), 1})}
		one := explain("", "ruled", r)
		require.Equal(t, one.Resolution.Variant, explain("", "ruled", r).Resolution.Variant)
		variants[one.Resolution.Variant]++
	}
	require.Len(t, variants, 2)

	_, err = s.Links.Explain(t.Context(), actor, "", "unknown", &controlplane.Visitor{})
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
}

func TestLinks_ExplainWalksAVisitorsPath(t *testing.T) {
	s := start(t)
	d, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: "own.example.com"})
	require.NoError(t, err)
	for code, forward := range map[string]bool{"spring": false, "spring-.": false, "a": true, "a/b": false, "café": false} {
		_, _, err := s.Links.Create(t.Context(), actor, wish(custom(code), func(n *controlplane.NewLink) {
			n.OriginalURL, n.ForwardPath, n.Domain = "https://example.com/", forward, "own.example.com"
		}))
		require.NoError(t, err)
	}
	ask := func(path string) string {
		res, err := s.Links.Resolve(t.Context(), "own.example.com", visit(path), &rules.Request{})
		require.NoError(t, err)
		e, err := s.Links.Explain(t.Context(), actor, "own.example.com", path, &controlplane.Visitor{})
		if err != nil {
			require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
			require.Equal(t, 404, res.Status)
			return "404"
		}
		require.Equal(t, res.Status, e.Resolution.Status)
		require.Equal(t, string(res.Location), string(e.Resolution.Location))
		return fmt.Sprintf("%s %s %s", e.Link.Code, e.Match, res.Location)
	}
	for path, want := range map[string]string{
		"spring": "spring exact https://example.com/", "sp%72ing": "spring exact https://example.com/",
		"spring%29.": "spring trimmed https://example.com/", "spring/": "spring trimmed https://example.com/",
		"spring-.": "spring-. exact https://example.com/", "spring/x": "404", "unknown.": "404",
		"a/": "a forwarded https://example.com/", "a/c%20d": "a forwarded https://example.com/c%20d", "a.": "a trimmed https://example.com/",
		"a/b/": "a/b trimmed https://example.com/", "cafe%CC%81!": "café trimmed https://example.com/",
	} {
		require.Equal(t, want, ask(path), path)
	}
	exact := true
	_, _, err = s.Domains.ChangeDomain(t.Context(), operator, d.ID, api.DomainChange{ExactPaths: &exact})
	require.NoError(t, err)
	require.Equal(t, "404", ask("spring."))
	require.Equal(t, "a forwarded https://example.com/b/", ask("a/b/"))
}

func TestLinks_ChangesOfRulesAreInTheHistoryAndMayBeConditional(t *testing.T) {
	s := start(t)
	l, _, err := s.Links.Create(t.Context(), actor, wish(custom("ruled")))
	require.NoError(t, err)
	old := controlplane.VersionOf(&l)
	source := rulesOf()
	from, over := time.Now().Add(-time.Hour).UTC().Truncate(time.Second), "https://example.com/over"
	change := controlplane.LinkChange{Match: []controlplane.Version{old}}
	change.Rules = controlplane.RulesChange{Rules: &source.Rules, ValidFrom: &from, ExpiredURL: &over}
	o, _, err := s.Links.Change(t.Context(), actor, "", "ruled", change)
	require.NoError(t, err)

	none := []rules.Rule{}
	_, _, err = s.Links.Change(t.Context(), actor, "", "ruled", controlplane.LinkChange{
		Match: []controlplane.Version{old}, Rules: controlplane.RulesChange{Rules: &none},
	})
	require.Equal(t, waypost.EStale, waypost.CodeOf(err), "the rules are part of the state")
	_, _, err = s.Links.Change(t.Context(), actor, "", "ruled", controlplane.LinkChange{
		Match: []controlplane.Version{controlplane.VersionOf(&o.Link)}, Rules: controlplane.RulesChange{Rules: &none},
	})
	require.NoError(t, err)

	changes, _, err := s.Links.History(t.Context(), actor, "", "ruled", 10, "")
	require.NoError(t, err)
	require.Len(t, changes, 3, "and the creation")
	names := func(c controlplane.Change) (names []string) {
		for _, f := range c.Fields {
			names = append(names, f.Name)
		}
		return names
	}
	require.Equal(t, []string{"rules"}, names(changes[0]))
	require.Equal(t, []string{"expired_url", "rules", "valid_from"}, names(changes[1]))
	for _, f := range changes[1].Fields {
		require.Equal(t, "null", string(f.Before), f.Name)
	}
	require.Contains(t, string(changes[1].Fields[1].After), "German phones")
	require.Equal(t, `"`+over+`"`, string(changes[1].Fields[0].After))
}

func TestLinks_NewRulesDoNotInheritTheIDsOfThoseThatAreGone(t *testing.T) {
	s := start(t)
	rule := func(name string) rules.Rule { return rules.Rule{Name: name, To: "https://example.com/" + name} }
	_, _, err := s.Links.Create(t.Context(), actor, wish(custom("replaced"), func(n *controlplane.NewLink) {
		n.Rules.Rules = []rules.Rule{rule("spring")}
	}))
	require.NoError(t, err)
	replace := func(with ...rules.Rule) (ids []int) {
		t.Helper()
		_, _, err := s.Links.Change(t.Context(), actor, "", "replaced", controlplane.LinkChange{Rules: controlplane.RulesChange{Rules: &with}})
		require.NoError(t, err)
		l, err := s.Links.Find(t.Context(), actor, "", "replaced")
		require.NoError(t, err)
		source, err := rules.ParseSource(l.Rules)
		require.NoError(t, err)
		for _, r := range source.Rules {
			ids = append(ids, r.ID)
		}
		require.Equal(t, len(with) == 0, l.Programme == nil)
		return ids
	}
	require.Equal(t, []int{2}, replace(rule("summer")))
	require.Empty(t, replace())
	require.Equal(t, []int{3}, replace(rule("autumn")), "also when there was none in between")
	renamed := rule("autumn")
	renamed.ID, renamed.Name = 3, "fall"
	require.Equal(t, []int{3}, replace(renamed))
	_, err = s.hand.Exec(t.Context(), `UPDATE link SET rules = jsonb_set(rules, '{rules,0,name}', '"by hand"') WHERE code = 'replaced'`)
	require.ErrorContains(t, err, "rules are compiled by Waypost")
}

func TestLinks_RulesByPlaceWarnWhereNoEdgeKnowsPlaces(t *testing.T) {
	s := start(t)
	knows := false
	services := controlplane.New(controlplane.Config{
		Store: s.db, Minter: s.minter, Locates: func() bool { return knows },
	})
	t.Cleanup(func() { require.NoError(t, services.Close(context.Background())) })
	source := rulesOf()
	wishes := []controlplane.NewLink{wish(func(n *controlplane.NewLink) { n.Rules = source }), wish()}
	codes := func(all []api.Warning) (codes []string) {
		for _, w := range all {
			codes = append(codes, w.Code)
		}
		return codes
	}
	for _, knows = range []bool{false, true} {
		want := []string{controlplane.WarnNoPlaces}
		if knows {
			want = nil
		}
		made, _, err := services.Links.CreateBulk(t.Context(), actor, wishes)
		require.NoError(t, err)
		require.NoError(t, made[0].Err)
		require.Equal(t, want, codes(made[0].Warnings))
		require.Empty(t, made[1].Warnings)
		tried, err := services.Links.DryRun(t.Context(), actor, wishes)
		require.NoError(t, err)
		require.Equal(t, want, codes(tried[0].Warnings))
		o, _, err := services.Links.Change(t.Context(), actor, "", string(made[1].Link.Code), controlplane.LinkChange{
			Rules: controlplane.RulesChange{Rules: &source.Rules},
		})
		require.NoError(t, err)
		require.Equal(t, want, codes(o.Warnings))
	}
}

func TestLinks_RulesForNoLanguageWarn(t *testing.T) {
	s := start(t)
	for tags, want := range map[string]string{
		"no,iw,zh-Hant,es-419,en-UK,cnr": "",
		"de,jp,xx,jp,de-Qqqq":            "not registered: jp (ja?), xx, de-Qqqq",
	} {
		source := rules.Source{Rules: []rules.Rule{{To: "https://example.org/", When: []rules.Condition{{Language: strings.Split(tags, ",")}}}}}
		tried, err := s.Links.DryRun(t.Context(), actor, []controlplane.NewLink{wish(func(n *controlplane.NewLink) { n.Rules = source })})
		require.NoError(t, err)
		require.NoError(t, tried[0].Err)
		if want == "" {
			require.Empty(t, tried[0].Warnings)
			continue
		}
		require.Equal(t, controlplane.WarnNoLanguage, tried[0].Warnings[0].Code)
		require.Contains(t, tried[0].Warnings[0].Message, want)
	}
}

func TestLinks_ExplainDraftAnswersAsTheSavedLinkWould(t *testing.T) {
	s := start(t)
	_, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: "own.example.com"})
	require.NoError(t, err)
	draft := func(code, target string) controlplane.NewLink {
		return wish(custom(code), func(n *controlplane.NewLink) { n.OriginalURL, n.Domain = target, "own.example.com" })
	}
	try := func(n controlplane.NewLink, path string) string {
		e, err := s.Links.ExplainDraft(t.Context(), actor, &n, path, &controlplane.Visitor{})
		if err != nil {
			return fmt.Sprint(waypost.CodeOf(err))
		}
		return fmt.Sprintf("%s %s %d %s", e.Link.Code, e.Held, e.Resolution.Status, e.Resolution.Location)
	}
	for _, code := range []string{"jira/{ticket}", "jira/a"} {
		_, _, err := s.Links.Create(t.Context(), actor, draft(code, "https://example.com/"))
		require.NoError(t, err)
	}
	for _, c := range []struct{ code, target, path, want string }{
		{"jira/{ticket}", "https://example.com/{ticket}", "jira/A-1", "jira/{ticket} [{ticket A-1}] 302 https://example.com/A-1"},
		{"jira/*", "https://example.com/all?p={path}", "jira/A-1", "jira/{ticket} [{ticket A-1}] 302 https://example.com/"},
		{"jira/*", "https://example.com/all?p={path}", "jira/A-1/x", "jira/* [{path A-1/x}] 302 https://example.com/all?p=A-1/x"},
		{"jira/*", "https://example.com/all?p={path}", "gira", "not-found"},
		{"jira/A-1", "https://example.com/one", "jira/A-1.", "jira/A-1 [] 302 https://example.com/one"},
		{"jira/a", "https://example.com/two", "jira/a", "jira/a [] 302 https://example.com/two"},
		{"jira/{x}", "https://example.com/", "jira/A-1", "conflict"},
		{"docs/*", "https://{path}.example/", "docs/a", "invalid"},
		{"docs//*", "https://example.com/", "docs/a", "invalid"},
	} {
		require.Equal(t, c.want, try(draft(c.code, c.target), c.path), c.code)
	}
	_, err = s.hand.Exec(t.Context(), `UPDATE link SET active = false WHERE code = 'jira/{ticket}'`)
	require.NoError(t, err)
	require.Contains(t, try(draft("jira/{ticket}", "https://example.com/x/{ticket}"), "jira/B-2"), " 410 ", "a link keeps its state")
}
