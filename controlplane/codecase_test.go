package controlplane_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/rules"
)

// addIgnoring adds a domain that ignores case.
func (s *system) addIgnoring(t *testing.T, host string) controlplane.OwnedDomain {
	t.Helper()
	d, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: host, Case: controlplane.CaseInsensitive})
	require.NoError(t, err)
	return d
}

// leads returns the target of a visit, "" for none.
func (s *system) leads(t *testing.T, host, path string) string {
	t.Helper()
	res, err := s.Links.Resolve(t.Context(), host, visit(path), &rules.Request{})
	require.NoError(t, err)
	return string(res.Location)
}

func TestLinks_OfADomainThatIgnoresCase(t *testing.T) {
	s := start(t)
	d := s.addIgnoring(t, "go.example")
	create := func(code string) (waypost.Link, error) {
		l, _, err := s.Links.Create(t.Context(), operator, wish(custom(code), under("go.example")))
		return l, err
	}
	for code, paths := range map[string][]string{
		"Hr": {"hr", "HR", "hR", "Hr/", "%48r"}, "CAFÉ": {"cafe%CC%81", "caf%C3%A9", "CAF%C3%89"}, "Straße/1": {"STRASSE/1", "stra%C3%9Fe/1"},
		"plain": {"PLAIN"},
	} {
		l, err := create(code)
		require.NoError(t, err)
		require.Equal(t, waypost.Code(code), l.Code, "shown as it was typed")
		for _, path := range append(paths, string(waypost.AppendEncoded(nil, code))) {
			require.Equal(t, l.OriginalURL, s.leads(t, "go.example", path), path)
		}
	}
	found, err := s.Links.Find(t.Context(), operator, "go.example", "hR")
	require.NoError(t, err)
	require.Equal(t, waypost.Code("Hr"), found.Code)
	of := controlplane.LinkFilter{Domain: "go.example"}
	page, err := s.Links.List(t.Context(), operator, controlplane.ListRequest{LinkFilter: of, Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Links, 4)

	for _, again := range []string{"hr", "HR", "Hr"} {
		_, err = create(again)
		require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
		require.ErrorContains(t, err, `"Hr"`)
	}
	yes := true
	same := wish(custom("HR"), under("go.example"))
	same.OriginalURL, same.Dedupe = found.OriginalURL, &yes
	outcomes, _, err := s.Links.CreateBulk(t.Context(), operator, []controlplane.NewLink{same, same})
	require.NoError(t, err)
	require.True(t, outcomes[0].Found && outcomes[1].Found)
	require.Equal(t, found.ID, outcomes[0].Link.ID)
	outcomes, err = s.Links.DryRun(t.Context(), operator, []controlplane.NewLink{wish(custom("hR"), under("go.example"))})
	require.NoError(t, err)
	require.ErrorContains(t, outcomes[0].Err, `"Hr"`)

	_, err = s.Links.Remove(t.Context(), operator, "go.example", "HR")
	require.NoError(t, err)
	_, err = create("hr")
	require.ErrorContains(t, err, `restore that link`)
	_, _, err = s.Links.History(t.Context(), operator, "go.example", "HR", 10, "")
	require.NoError(t, err)
	_, _, err = s.Links.Restore(t.Context(), operator, "go.example", "hr")
	require.NoError(t, err)
	_, err = s.Links.Remove(t.Context(), operator, "go.example", "HR")
	require.NoError(t, err)
	_, err = s.hand.Exec(t.Context(), `UPDATE link SET deleted_at = now() - interval '100 days' WHERE deleted_at IS NOT NULL`)
	require.NoError(t, err)
	for range 2 { // the changes go first
		_, err = s.db.PurgeLinks(t.Context(), time.Hour, 10)
		require.NoError(t, err)
	}
	for _, code := range []string{"hr", "HR", "hR"} {
		_, err = create(code)
		require.ErrorContains(t, err, "never given out again", code)
	}

	insert := func(code string) error {
		_, err := s.hand.Exec(t.Context(), `INSERT INTO link (workspace_id, domain_id, code, original_url)
			VALUES (1, $1, $2, 'https://example.com/')`, d.ID, code)
		return err
	}
	require.ErrorContains(t, insert("ByHand"), "no capital letters")
	require.NoError(t, insert("byhand"))
	require.Equal(t, "https://example.com/", s.leads(t, "go.example", "BYHAND"))
	require.Empty(t, s.leads(t, "go.example.com", "BYHAND"))
}

func TestLinks_GeneratedCodeWhoseKeyIsTakenIsMintedAgain(t *testing.T) {
	s := start(t)
	s.addIgnoring(t, "go.example")
	seen := map[waypost.Code]bool{}
	for range 30 {
		l, _, err := s.Links.Create(t.Context(), operator, wish(under("go.example")))
		require.NoError(t, err)
		require.False(t, seen[l.Key()])
		seen[l.Key()] = true
		require.Equal(t, l.OriginalURL, s.leads(t, "go.example", string(l.Code)))
		require.Equal(t, l.OriginalURL, s.leads(t, "go.example", string(l.Key())))
	}
}

func TestDomains_SwitchIsRefusedForCodesThatDifferInCaseAlone(t *testing.T) {
	s := start(t)
	d, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: "go.example"})
	require.NoError(t, err)
	for _, code := range []string{"ab", "AB", "x", "Ü", "é", "É", "ſ", "s", "gone", "GONE", "del", "DEL"} {
		_, _, err := s.Links.Create(t.Context(), operator, wish(custom(code), under("go.example")))
		require.NoError(t, err)
	}
	remove := func(codes ...string) {
		for _, code := range codes {
			_, err := s.Links.Remove(t.Context(), operator, "go.example", code)
			require.NoError(t, err)
		}
	}
	remove("gone", "GONE", "DEL")
	to := func(ignores bool) (controlplane.OwnedDomain, error) {
		d, _, err := s.Domains.ChangeDomain(t.Context(), operator, d.ID, api.DomainChange{Case: new(controlplane.CaseOf(ignores))})
		return d, err
	}
	_, err = to(true)
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
	require.Equal(t, "codes of the domain differ in case alone: AB, ab; DEL (deleted), del; s, ſ; É, é", waypost.MessageOf(err))
	remove("AB", "ab", "É", "é", "s", "ſ", "del")
	require.Empty(t, s.leads(t, "go.example", "X"))
	switching, err := to(true)
	require.NoError(t, err)
	require.Equal(t, waypost.IgnoresCase|waypost.CaseSwitching, switching.Traits)
	_, _, err = s.Links.Create(t.Context(), operator, wish(custom("new"), under("go.example")))
	require.ErrorContains(t, err, "being switched")
	for _, at := range []string{"before", "after"} {
		for path, found := range map[string]bool{"x": true, "%C3%9C": true, "%C3%BC": at == "after", "S": false, "X": true, "AB": false} {
			require.Equal(t, found, s.leads(t, "go.example", path) != "", "%s: %s", at, path)
		}
		require.NoError(t, s.Domains.SwitchNow(t.Context()))
	}
	all, err := s.Domains.Domains(t.Context(), operator)
	require.NoError(t, err)
	require.Equal(t, waypost.IgnoresCase, all[1].Traits)
	l, err := s.Links.Find(t.Context(), operator, "go.example", "X")
	require.NoError(t, err)
	explained, err := s.Links.Explain(t.Context(), operator, "go.example", "%C3%9C", &controlplane.Visitor{})
	require.NoError(t, err)
	require.Equal(t, waypost.Code("Ü"), explained.Link.Code)
	require.Equal(t, waypost.Code("x"), l.Code)
	for _, code := range []string{"Gone", "aB", "DeL", "S", "É"} {
		_, _, err = s.Links.Create(t.Context(), operator, wish(custom(code), under("go.example")))
		require.Equal(t, waypost.EConflict, waypost.CodeOf(err), code)
	}

	_, err = to(false)
	require.NoError(t, err)
	require.NoError(t, s.Domains.SwitchNow(t.Context()))
	require.Empty(t, s.leads(t, "go.example", "X"))
	require.NotEmpty(t, s.leads(t, "go.example", "x"))
	require.NotEmpty(t, s.leads(t, "go.example", "%C3%9C"))
	_, _, err = s.Links.Create(t.Context(), operator, wish(custom("X"), under("go.example")))
	require.NoError(t, err, "case counts again")
}

func TestDomains_SwitchMovesManyLinksThereAndBack(t *testing.T) {
	s := start(t)
	d, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: "go.example"})
	require.NoError(t, err)
	const links = 2500
	var ns []controlplane.NewLink
	for i := range links {
		ns = append(ns, wish(custom(fmt.Sprintf("Code-%d", i)), under("go.example")))
	}
	for i := 0; i < links; i += 500 {
		_, _, err := s.Links.CreateBulk(t.Context(), operator, ns[i:i+500])
		require.NoError(t, err)
	}
	count := func(where string) (n int) {
		require.NoError(t, s.hand.QueryRow(t.Context(), `SELECT count(*) FROM link WHERE `+where).Scan(&n))
		return n
	}
	for _, ignores := range []bool{true, false} {
		_, _, err := s.Domains.ChangeDomain(t.Context(), operator, d.ID, api.DomainChange{Case: new(controlplane.CaseOf(ignores))})
		require.NoError(t, err)
		require.NoError(t, s.Domains.SwitchNow(t.Context()))
		if ignores {
			require.Equal(t, links, count(`code ~ '^code' AND typed_code ~ '^Code'`))
		} else {
			require.Equal(t, links, count(`code ~ '^Code' AND typed_code IS NULL`))
		}
		require.Equal(t, links, count(`slot = waypost_slot(1, domain_id, code)`))
		require.Equal(t, 0, count(`(SELECT bit_xor(stamp) FROM (
			SELECT stamp FROM link UNION ALL SELECT stamp FROM domain UNION ALL SELECT stamp FROM key_range
			UNION ALL SELECT stamp FROM key_lease UNION ALL SELECT stamp FROM visitor_salt) x) <> (SELECT digest FROM changelog_head)`))
	}
	l, err := s.Links.Find(t.Context(), operator, "go.example", "Code-7")
	require.NoError(t, err)
	_, err = s.hand.Exec(t.Context(), `UPDATE link SET code = 'other' WHERE id = $1`, l.ID)
	require.ErrorContains(t, err, "the key of a link cannot change")
}
