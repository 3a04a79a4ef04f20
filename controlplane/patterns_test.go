package controlplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/internal/patterns"
	"waypost/rules"
)

// patternsHost is a domain of the operator's workspace.
const patternsHost = "own.example.com"

func TestLinks_APatternIsChecked(t *testing.T) {
	s := start(t)
	_, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: patternsHost})
	require.NoError(t, err)
	create := func(code, target string, change ...func(*controlplane.NewLink)) (waypost.Link, error) {
		n := wish(append(change, custom(code), under(patternsHost))...)
		n.OriginalURL = target
		l, _, err := s.Links.Create(t.Context(), actor, n)
		return l, err
	}
	const n = "https://n.example.com"
	refused := func(code waypost.ErrorCode, says string, err error) {
		t.Helper()
		require.Equal(t, code, waypost.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, says)
	}
	for code, target := range map[string]string{
		"docs/*": n + "/d/{path}", "jira/{ticket}": n + "/{ticket}", "{y}/{m}/{slug}": n + "/{slug}?y={y}#{query.a-b}",
		"plain/{x}": n, "literal/{x}": n + "/%7Bx%7D/}", "other/{x}": "n.example.com/{x}",
	} {
		l, err := create(code, target)
		require.NoError(t, err, code)
		require.True(t, l.Custom)
	}
	for _, target := range []string{
		"{host}.example/a", "https://{host}/a", "https://a.example.com{x}", "{x}://a.example.com/", "https://{x}@a.example.com/",
		"https://a.example.com:{x}/", "{x}",
	} {
		_, err := create("host/{x}", target)
		refused(waypost.EInvalid, "never in its scheme, user or host", err)
	}
	for target, says := range map[string]string{
		n + "/{y}": `{y}", and the pattern has {x}, {path}`, n + "/{x": "and the pattern has {x}", n + "/{query.}": "{query.NAME}", n + "/{}": `"{}"`,
		n + "/{query.a b}": "{query.NAME}", n + "/{{x}}": "and the pattern has",
		n + "/a/../{x}": "no segment . or ..", n + "/%2e%2e/{x}": "no segment", n + "/%{x}": "no escape",
	} {
		_, err := create("bad/{x}/*", target)
		refused(waypost.EInvalid, says, err)
	}
	for code, says := range map[string]string{
		"a*": "whole last segment", "a/*/b": "whole last segment", "{a": "brace", "a{b}": "brace", "{A}": "brace",
		"{a}/{a}": "two placeholders of one name",
		"{path}":  "the name of the part that a * holds", "{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}": "more than 8 placeholders",
		"{a}/" + strings.Repeat("x", 128): "1 to 128 bytes", "{a}//b": "empty segment", "{a}/..": "segment . or ..", "{a}/b c": "space",
		".well-known/*": "answers itself",
	} {
		_, err := create(code, n)
		refused(waypost.EInvalid, says, err)
	}
	_, err = create("jira/{id}", n)
	refused(waypost.EConflict, `the pattern "jira/{ticket}"`, err)
	_, err = create("jira/{ticket}", n)
	refused(waypost.EConflict, "taken", err)
	_, err = create("fwd/*", n, func(n *controlplane.NewLink) { n.ForwardPath = true })
	refused(waypost.EInvalid, "forward_path is not for patterns", err)
	_, _, err = s.Links.Create(t.Context(), actor, wish(custom("docs/*")))
	refused(waypost.EInvalid, "on the shared domain", err)

	// Targets of rules are templates, and the targets of links that have ended are not.
	l, err := create("ruled/{x}", n, func(n *controlplane.NewLink) {
		n.Rules = rules.Source{
			Rules:      []rules.Rule{{To: "https://n.example.com/{x}", When: []rules.Condition{{Query: &rules.Parameter{Key: "r"}}}}},
			ExpiredURL: "https://n.example.com/{x}",
		}
	})
	require.NoError(t, err)
	require.Contains(t, string(l.Programme), "https://n.example.com/{x}")
	require.Contains(t, string(l.Programme), "https://n.example.com/%7Bx%7D")
	_, err = create("ruled/{y}/z", n, func(n *controlplane.NewLink) {
		n.Rules = rules.Source{Rules: []rules.Rule{{To: "https://n.example.com/{x}"}}}
	})
	refused(waypost.EInvalid, "rules[0].to", err)

	url, forward := n+"/{z}", true
	_, _, err = s.Links.Change(t.Context(), actor, patternsHost, "docs/*", controlplane.LinkChange{OriginalURL: &url})
	refused(waypost.EInvalid, "the pattern has {path}", err)
	_, _, err = s.Links.Change(t.Context(), actor, patternsHost, "docs/*", controlplane.LinkChange{ForwardPath: &forward})
	refused(waypost.EInvalid, "forward_path", err)

	// A deleted pattern leaves its addresses to another, and then cannot come back.
	_, err = s.Links.Remove(t.Context(), actor, patternsHost, "jira/{ticket}")
	require.NoError(t, err)
	_, err = create("jira/{id}", n+"/{id}")
	require.NoError(t, err)
	_, _, err = s.Links.Restore(t.Context(), actor, patternsHost, "jira/{ticket}")
	refused(waypost.EConflict, "leads from the same addresses", err)
}

func TestLinks_PatternsOfADomainAreBounded(t *testing.T) {
	s := start(t)
	_, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: patternsHost})
	require.NoError(t, err)
	var all []controlplane.NewLink
	for mask := range 1 << 6 {
		code := ""
		for i := range 6 {
			if mask>>i&1 == 0 {
				code += "a/"
			} else {
				code += fmt.Sprintf("{p%d}/", i)
			}
		}
		all = append(all, wish(custom(code+"{q}"), under(patternsHost)))
	}
	outcomes, _, err := s.Links.CreateBulk(t.Context(), actor, all)
	require.NoError(t, err)
	x, refused := new(patterns.Index), 0
	for i := range outcomes {
		if err := outcomes[i].Err; err != nil {
			require.ErrorContains(t, err, "more than 64 steps")
			refused++
			continue
		}
		require.LessOrEqual(t, x.VisitsWith(all[i].CustomCode), patterns.MaxVisits)
		require.True(t, x.Add(all[i].CustomCode))
	}
	require.Positive(t, refused)
	require.Less(t, refused, len(all)-10)

	_, err = s.hand.Exec(t.Context(), `INSERT INTO link (workspace_id, domain_id, code, original_url)
		SELECT 1, 2, 'n' || i || '/*', 'https://example.com/' FROM generate_series(1, 10000) i`)
	require.NoError(t, err)
	_, _, err = s.Links.Create(t.Context(), actor, wish(custom("one/*"), under(patternsHost)))
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	require.ErrorContains(t, err, "at most 10000 patterns")
}

func TestUnknown_LeavesOutAddressesThatAPatternAnswers(t *testing.T) {
	s := start(t)
	d, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: "own.example.com"})
	require.NoError(t, err)
	report := controlplane.UnknownReport{Node: "a", Boot: waypost.BootID{1}, Seq: 1}
	for path, kind := range map[string]waypost.UnknownKind{
		"2024/05/café": waypost.LedNowhere, "2024/05": waypost.LedNowhere, "team/x": waypost.LedNowhere, "team/y": waypost.LedByPattern,
	} {
		report.Addresses = append(report.Addresses, controlplane.UnknownVisits{
			Domain: d.ID, Day: waypost.Day(time.Now().UnixMilli()), Kind: kind, Path: path, People: 5,
			Visitors: []uint64{1 << 60, 2 << 60, 3 << 60, 4 << 60, 5 << 60},
		})
	}
	require.NoError(t, s.db.CountUnknown(t.Context(), &report))
	listed := func() (paths []string) {
		all, _, err := s.Clicks.Unknown(t.Context(), operator, "own.example.com", time.Time{}, time.Time{}, 3)
		require.NoError(t, err)
		for _, a := range all {
			paths = append(paths, a.Path)
		}
		return paths
	}
	require.Equal(t, []string{"2024/05", "2024/05/café", "team/x"}, listed())
	for _, code := range []string{"team/{name}", "{year}/{month}/{slug}"} {
		_, _, err = s.Links.Create(t.Context(), operator, wish(custom(code), under("own.example.com")))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return slices.Equal([]string{"2024/05", "team/y"}, listed()) }, 10*time.Second, 50*time.Millisecond)
}
