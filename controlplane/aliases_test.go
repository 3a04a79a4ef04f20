package controlplane_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// aliased asks for aliases, each a code of the default domain or HOST/CODE.
func aliased(codes ...string) func(*controlplane.NewLink) {
	return func(n *controlplane.NewLink) {
		for _, code := range codes {
			n.Aliases = append(n.Aliases, controlplane.NewAlias{Code: code})
		}
	}
}

func addressesOf(l *waypost.Link) (all []string) {
	for _, a := range l.Addresses() {
		all = append(all, fmt.Sprintf("%s/%s %d", a.Host, a.Code, a.N))
	}
	return all
}

func TestLinks_AreCreatedWithAliases(t *testing.T) {
	s := start(t)
	_, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: "own.example.com", Case: controlplane.CaseInsensitive})
	require.NoError(t, err)
	n := wish(custom("summer"), aliased("sum1", "summer", "sum1"))
	n.Aliases = append(n.Aliases, controlplane.NewAlias{Domain: "own.example.com", Code: "Box", Title: "print", Print: waypost.Print{
		PrintedOn: "2026-03-31", Batch: "u\u0308",
	}})
	l, at, err := s.Links.Create(t.Context(), actor, n)
	require.NoError(t, err)
	want := []string{"/summer 0", "/sum1 1", "own.example.com/Box 2"}
	require.Equal(t, want, addressesOf(&l))
	require.Equal(t, "print", l.Aliases[1].Title)
	require.Equal(t, waypost.Print{PrintedOn: "2026-03-31", Batch: "ü"}, l.Aliases[1].Print, "in its normal form")
	box, _, err := s.Links.AddAlias(t.Context(), actor, "", "summer", controlplane.NewAlias{Code: "box3", Print: waypost.Print{PrintedOn: "2026-04-01"}})
	require.NoError(t, err)
	require.Equal(t, waypost.Print{PrintedOn: "2026-04-01"}, box.Aliases[2].Print)
	for _, print := range []waypost.Print{{PrintedOn: "2026-02-30"}, {PrintedOn: "soon"}, {Batch: strings.Repeat("x", 101)}} {
		_, _, err := s.Links.AddAlias(t.Context(), actor, "", "summer", controlplane.NewAlias{Code: "box4", Print: print})
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), print)
	}
	l, _, err = s.Links.RemoveAlias(t.Context(), actor, "", "summer", "", "box3")
	require.NoError(t, err)
	for _, address := range [][2]string{{"", "summer"}, {"", "sum1"}, {"own.example.com", "BOX"}} {
		read, err := s.Links.Find(t.Context(), actor, address[0], address[1])
		require.NoError(t, err)
		require.Equal(t, l, read)
	}
	title := "new"
	_, _, err = s.Links.Change(t.Context(), actor, "", "sum1", controlplane.LinkChange{
		Match: []controlplane.Version{controlplane.VersionOf(&l)}, Details: func(d *waypost.Details) { d.Title = title },
	})
	require.NoError(t, err, "the answer has the version of the link")
	require.NotZero(t, at.Seq)

	minted, _, err := s.Links.Create(t.Context(), actor, wish(aliased("mint1")))
	require.NoError(t, err)
	require.Equal(t, []string{"/" + string(minted.Code) + " 0", "/mint1 1"}, addressesOf(&minted))

	request := once("k", 1)
	both := []controlplane.NewLink{wish(custom("once"), aliased("once1")), wish(aliased("sum1"))}
	made, err := s.Links.CreateOnce(t.Context(), actor, both, request)
	require.NoError(t, err)
	require.Equal(t, []string{"/once 0", "/once1 1"}, addressesOf(&made.Outcomes[0].Link))
	require.Equal(t, waypost.EConflict, waypost.CodeOf(made.Outcomes[1].Err))
	again, err := s.Links.CreateOnce(t.Context(), actor, both, request)
	require.NoError(t, err)
	require.NotNil(t, again.Replayed)
	require.Contains(t, string(again.Replayed.Body), "once ")

	links := s.count(t, `SELECT count(*) FROM link`)
	yes := true
	var many []string
	for i := range waypost.MaxAliases + 1 {
		many = append(many, fmt.Sprintf("many%d", i))
	}
	for reason, n := range map[string]controlplane.NewLink{
		`cannot have the alias "sum1"`: wish(custom("winter"), aliased("win1", "sum1")),
		`cannot have the alias "BOX"`: wish(func(n *controlplane.NewLink) {
			n.Aliases = []controlplane.NewAlias{{Domain: "own.example.com", Code: "BOX"}}
		}),
		"at most 16 aliases":       wish(aliased(many...)),
		"a pattern has no aliases": wish(custom("docs/*"), aliased("docs1"), func(n *controlplane.NewLink) { n.Domain = "own.example.com" }),
		", and is none": wish(func(n *controlplane.NewLink) {
			n.Aliases = []controlplane.NewAlias{{Domain: "own.example.com", Code: "a/*"}}
		}),
		"aliases of its own": wish(aliased("win1"), func(n *controlplane.NewLink) { n.Dedupe = &yes }),
		"there is no domain": wish(func(n *controlplane.NewLink) {
			n.Aliases = []controlplane.NewAlias{{Domain: "theirs.example", Code: "abcd"}}
		}),
		"4 to 32": wish(aliased("abc")),
	} {
		_, _, err := s.Links.Create(t.Context(), actor, n)
		require.ErrorContains(t, err, reason)
	}
	full := make([]controlplane.NewLink, 1+waypost.MaxBulk/waypost.MaxAliases)
	for i := range full {
		full[i] = wish(aliased(many[:waypost.MaxAliases]...))
	}
	dry, err := s.Links.DryRun(t.Context(), actor, full)
	require.NoError(t, err)
	require.ErrorContains(t, dry[len(full)-1].Err, "at most 1000 of all links")
	require.Equal(t, links, s.count(t, `SELECT count(*) FROM link`))
	_, _, err = s.Links.Create(t.Context(), actor, wish(custom("winter"), aliased("win1")))
	require.NoError(t, err, "what was refused has left nothing")
}

func TestDomains_SwitchMovesAliasesAndTheirTargets(t *testing.T) {
	s := start(t)
	ids := map[string]waypost.DomainID{}
	for _, host := range []string{"links.example", "aliases.example", "taken.example"} {
		d, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: host})
		require.NoError(t, err)
		ids[host] = d.ID
	}
	create := func(code, host string, aliases ...controlplane.NewAlias) error {
		_, _, err := s.Links.Create(t.Context(), operator, wish(custom(code), under(host), func(n *controlplane.NewLink) { n.Aliases = aliases }))
		return err
	}
	require.NoError(t, create("Summer", "links.example", controlplane.NewAlias{Domain: "aliases.example", Code: "Box"},
		controlplane.NewAlias{Domain: "links.example", Code: "Mail"}, controlplane.NewAlias{Domain: "taken.example", Code: "Box"}))
	require.NoError(t, create("box", "taken.example"))
	require.NoError(t, create("gone", "aliases.example", controlplane.NewAlias{Domain: "aliases.example", Code: "Lost"}))
	_, _, err := s.Links.RemoveAlias(t.Context(), operator, "aliases.example", "gone", "aliases.example", "Lost")
	require.NoError(t, err)
	change := func(host string, ignores bool) error {
		_, _, err := s.Domains.ChangeDomain(t.Context(), operator, ids[host], api.DomainChange{Case: new(controlplane.CaseOf(ignores))})
		return err
	}
	err = change("taken.example", true)
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
	require.Equal(t, "codes of the domain differ in case alone: Box, box", waypost.MessageOf(err))
	as := func(host, path string) bool { return s.leads(t, host, path) != "" }
	require.True(t, as("aliases.example", "Box") && !as("aliases.example", "BOX"))
	for _, host := range []string{"aliases.example", "links.example", "aliases.example", "aliases.example"} {
		ignores := !as(host, "MAIL") && !as(host, "BOX")
		require.NoError(t, change(host, ignores))
		for range 2 { // during and after
			for at, code := range map[string]string{"aliases.example": "Box", "links.example": "Mail", "taken.example": "Box"} {
				require.True(t, as(at, code), "%s/%s while %s is switched", at, code, host)
			}
			require.NoError(t, s.Domains.SwitchNow(t.Context()))
		}
	}
	require.True(t, as("aliases.example", "bOX") && as("links.example", "mAIL") && as("links.example", "SUMMER"))
	l, err := s.Links.Find(t.Context(), operator, "aliases.example", "BOX")
	require.NoError(t, err)
	shown := []waypost.Code{l.Code}
	for _, a := range l.Aliases {
		shown = append(shown, a.Code)
	}
	require.Equal(t, []waypost.Code{"Summer", "Box", "Mail", "Box"}, shown, "as typed")
	for _, code := range []string{"bOX", "lOST"} {
		require.Equal(t, waypost.EConflict, waypost.CodeOf(create(code, "aliases.example")), code)
		require.Equal(t, waypost.EConflict, waypost.CodeOf(create("other", "links.example", controlplane.NewAlias{Domain: "aliases.example", Code: code})), code)
	}
	require.NoError(t, create("other", "aliases.example", controlplane.NewAlias{Domain: "aliases.example", Code: "Straße"}))
	require.True(t, as("aliases.example", "STRASSE"))
	_, _, err = s.Links.RemoveAlias(t.Context(), operator, "aliases.example", "other", "aliases.example", "STRASSE")
	require.NoError(t, err)
	require.NoError(t, change("aliases.example", false))
	require.NoError(t, s.Domains.SwitchNow(t.Context()))
	require.Equal(t, waypost.EConflict, waypost.CodeOf(create("Straße", "aliases.example")), "it stays retired as it was typed")
}
