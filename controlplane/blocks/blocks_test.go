package blocks_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/blocks"
	"waypost/replication"
)

func TestBlocks_OutlastWhateverTheOwnerDoes(t *testing.T) {
	s := start(t)
	_, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{
		Host: "own.example.com", NotFoundURL: "https://example.com/lost",
	})
	require.NoError(t, err)
	for _, domain := range []string{"", "own.example.com"} {
		_, _, err := s.Links.Create(t.Context(), actor, wish("phish", func(n *controlplane.NewLink) {
			n.Domain, n.Password = domain, "secret"
		}))
		require.NoError(t, err)
	}
	b, err := s.Blocks.Set(t.Context(), operator, blocks.Request{
		Code: "phish", Blocked: true, Policy: waypost.BlockLegal, Reason: "court order 7",
	})
	require.NoError(t, err)
	require.InDelta(t, time.Now().UnixMilli(), b[0].At, 5000)
	require.Equal(t, 451, s.answers(t, "go.example.com", "phish"))
	require.Equal(t, 451, s.answers(t, "198.51.100.7", "phish/more?x=1"), "before passwords and paths")
	require.NotEqual(t, 451, s.answers(t, "own.example.com", "phish"), "another address")

	_, err = s.Blocks.Set(t.Context(), operator, blocks.Request{
		Domain: "OWN.example.com", Code: "phish", Blocked: true, Reason: "malware",
	})
	require.NoError(t, err)
	require.Equal(t, 410, s.answers(t, "own.example.com", "phish"))

	// Whatever the owner does.
	_, err = s.Links.Remove(t.Context(), actor, "", "phish")
	require.NoError(t, err)
	require.Equal(t, 451, s.answers(t, "", "phish"))
	_, _, err = s.Links.Restore(t.Context(), actor, "", "phish")
	require.NoError(t, err)
	require.Equal(t, 451, s.answers(t, "", "phish"))
	yes := true
	_, _, err = s.Links.Change(t.Context(), actor, "", "phish", controlplane.LinkChange{Active: &yes})
	require.NoError(t, err)
	require.Equal(t, 451, s.answers(t, "", "phish"))
	domains, err := s.Domains.Domains(t.Context(), actor)
	require.NoError(t, err)
	for _, d := range domains {
		if d.Host == "own.example.com" {
			_, err = s.Domains.RemoveDomain(t.Context(), actor, d.ID, true)
			require.NoError(t, err)
		}
	}
	_, _, err = s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: "own.example.com"})
	require.NoError(t, err)
	_, _, err = s.Links.Create(t.Context(), actor, wish("phish", func(n *controlplane.NewLink) { n.Domain = "own.example.com" }))
	require.NoError(t, err, "the domain is another one now")
	require.Equal(t, 410, s.answers(t, "own.example.com", "phish"))

	e, err := s.Links.Explain(t.Context(), actor, "own.example.com", "phish", &controlplane.Visitor{})
	require.NoError(t, err)
	require.Equal(t, 410, e.Resolution.Status)
	require.Equal(t, controlplane.GateBlocked, e.Trace.Gate)

	page, next, err := s.Blocks.List(operator, 1, "")
	require.NoError(t, err)
	require.Equal(t, "own.example.com", page[0].Host)
	page, next, err = s.Blocks.List(operator, 1, next)
	require.NoError(t, err)
	require.Equal(t, "court order 7", page[0].Reason)
	require.Empty(t, next)

	ended, err := s.Blocks.Set(t.Context(), operator, blocks.Request{Code: "phish", Reason: "appeal"})
	require.NoError(t, err)
	require.Greater(t, ended[0].Version, b[0].Version)
	require.NotEqual(t, 451, s.answers(t, "", "phish"))
	log, err := s.Workspaces.Audit(t.Context(), operator, true, 50, "")
	require.NoError(t, err)
	var acts []string
	for _, e := range log.Entries {
		if e.Subject == "link phish" {
			acts = append(acts, e.Action)
		}
	}
	require.Equal(t, []string{"links.unblock", "links.block"}, acts)
}

// A statement by hand that changes very many links holds all other writes for minutes.
func TestBlocks_WaitForNoChangeOfLinks(t *testing.T) {
	s := start(t)
	_, _, err := s.Links.Create(t.Context(), actor, wish("phish"))
	require.NoError(t, err)
	tx, err := s.hand.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `UPDATE link SET title = 'all'`)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, _, err = s.Links.Create(ctx, actor, wish("later"))
	require.Error(t, err, "it holds all other writes")

	for _, blocked := range []bool{true, false, true} {
		b, err := s.Blocks.Set(t.Context(), operator, blocks.Request{Code: "phish", Blocked: blocked, Reason: "malware"})
		require.NoError(t, err)
		stored, _, err := s.db.Blocks(t.Context(), 0, 10)
		require.NoError(t, err)
		require.Equal(t, b, stored)
	}
	require.Equal(t, 410, s.answers(t, "", "phish"))
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, 410, s.answers(t, "", "phish"))
}

func TestBlocks_AreForOperators(t *testing.T) {
	s := start(t)
	_, _, err := s.Links.Create(t.Context(), actor, wish("phish"))
	require.NoError(t, err)
	admin := controlplane.Actor{Workspace: 2, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}
	wanted := blocks.Request{Code: "phish", Blocked: true, Reason: "mine"}
	for name, c := range map[string]struct {
		by   controlplane.Actor
		want waypost.ErrorCode
		edit func(*blocks.Request)
	}{
		"an administrator of another workspace": {admin, waypost.EForbidden, nil},
		"a member":                              {actor, waypost.EForbidden, nil},
		"no link":                               {operator, waypost.ENotFound, func(n *blocks.Request) { n.Code = "none" }},
		"no domain":                             {operator, waypost.ENotFound, func(n *blocks.Request) { n.Domain = "none.example" }},
		"no code":                               {operator, waypost.ENotFound, func(n *blocks.Request) { n.Code = "a/../b" }},
		"no reason":                             {operator, waypost.EInvalid, func(n *blocks.Request) { n.Reason = "" }},
		"two lines":                             {operator, waypost.EInvalid, func(n *blocks.Request) { n.Reason = "a\nb" }},
		"the end of none":                       {operator, waypost.EConflict, func(n *blocks.Request) { n.Blocked = false }},
	} {
		n := wanted
		if c.edit != nil {
			c.edit(&n)
		}
		_, err := s.Blocks.Set(t.Context(), c.by, n)
		require.Equal(t, c.want, waypost.CodeOf(err), "%s: %v", name, err)
	}
	_, _, err = s.Blocks.List(admin, 10, "")
	require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
	require.Equal(t, 302, s.answers(t, "", "phish"))

	away := s.another(t)
	away.db.Close()
	_, err = away.Blocks.Set(t.Context(), operator, wanted)
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err), "the database is away")
	require.False(t, away.set.Any())
}

func TestBlocks_AreTakenBackFromEdgesAfterARestore(t *testing.T) {
	first := start(t)
	for _, code := range []string{"kept", "lost", "ended"} {
		_, _, err := first.Links.Create(t.Context(), actor, wish(code))
		require.NoError(t, err)
	}
	block := func(code string, blocked bool) {
		_, err := first.Blocks.Set(t.Context(), operator, blocks.Request{Code: code, Blocked: blocked, Reason: "order"})
		require.NoError(t, err)
	}
	block("kept", true)
	block("ended", true)
	_, err := first.hand.Exec(t.Context(), `CREATE TABLE backup AS SELECT * FROM link_block`)
	require.NoError(t, err)
	block("lost", true)
	block("ended", false)
	edge := &replication.BlockSet{}
	_, err = edge.Take(first.set.All()...)
	require.NoError(t, err)

	second := first.another(t)
	require.Equal(t, first.set.Digest(), second.set.Digest(), "a control plane that starts reads them")
	block("kept", false)
	digest, all, err := second.Blocks.Known(t.Context())
	require.NoError(t, err)
	require.Equal(t, digest == first.set.Digest(), all, "it does not take an edge with the older ones for one with all")
	require.Eventually(t, func() bool { return second.Blocks.Of("", "kept") == nil }, 5*time.Second, 5*time.Millisecond,
		"and hears of those of others")
	block("kept", true)
	_, err = edge.Take(first.set.All()...)
	require.NoError(t, err)

	// The database is restored, and a control plane starts that remembers nothing.
	_, err = first.hand.Exec(t.Context(), `DELETE FROM link_block`)
	require.NoError(t, err)
	_, err = first.hand.Exec(t.Context(), `INSERT INTO link_block SELECT * FROM backup`)
	require.NoError(t, err)
	stored := func() (digest uint64) {
		digest, err := first.db.BlockDigest(t.Context())
		require.NoError(t, err)
		return digest
	}
	require.Eventually(t, func() bool { return stored() == edge.Digest() }, 10*time.Second, 10*time.Millisecond,
		"a control plane that ran on writes them back")
	_, err = first.hand.Exec(t.Context(), `DELETE FROM link_block`)
	require.NoError(t, err)
	signerOfOld, err := replication.NewSigner([32]byte{1}, replication.Cluster{2}, 1)
	require.NoError(t, err)
	var old [][]byte
	for _, b := range edge.All() {
		signed := signerOfOld.SignBlock(b.Block)
		old = append(old, replication.AppendBlock(nil, &signed))
	}
	third := first.unloaded(t)
	forged := edge.All()[0]
	forged.Version++
	_, err = third.Blocks.Exchange(t.Context(), &api.EdgeBlocks{Node: "edge-1", Blocks: append([][]byte{[]byte("x")}, old...)}, 2)
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	require.Zero(t, third.set.Digest(), "a request that cannot be read changes nothing")
	back, err := third.Blocks.Exchange(t.Context(), &api.EdgeBlocks{
		Node: "edge-1", Digests: make([]uint64, replication.BlockShards),
		Blocks: append([][]byte{replication.AppendBlock(nil, &forged)}, old...),
	}, 2)
	require.NoError(t, err)
	require.Equal(t, edge.Digest(), third.set.Digest(), "one that is forged is left out, and keeps no other back")
	require.Len(t, back.Blocks, 2)
	more, err := third.Blocks.Exchange(t.Context(), &api.EdgeBlocks{
		Node: "edge-1", Digests: make([]uint64, replication.BlockShards), After: back.Last,
	}, 2)
	require.NoError(t, err)
	require.Len(t, more.Blocks, len(old)-2)
	last, err := replication.DecodeBlock(more.Blocks[0])
	require.NoError(t, err)
	require.Equal(t, uint32(2), last.Signature.Generation, "signed again with the present key")
	require.Equal(t, 410, third.answers(t, "", "lost"))
	require.Equal(t, 302, third.answers(t, "", "ended"))
	require.Eventually(t, func() bool { return stored() == edge.Digest() }, 10*time.Second, 10*time.Millisecond)
	var recovered int
	require.NoError(t, first.hand.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = 'links.block_recovered'`).Scan(&recovered))
	require.GreaterOrEqual(t, recovered, 3)

	// A statement of the restored database is newer than all that it has forgotten.
	block("lost", false)
	require.Equal(t, 302, first.answers(t, "", "lost"))
}

func TestBlocks_OfAllAddressesHoldTogether(t *testing.T) {
	s := start(t)
	const host = "own.example.com"
	_, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: host, Case: controlplane.CaseInsensitive})
	require.NoError(t, err)
	_, _, err = s.Links.Create(t.Context(), actor, wish("phish"))
	require.NoError(t, err)
	for _, n := range []controlplane.NewAlias{{Code: "bait"}, {Domain: host, Code: "Hook"}} {
		_, _, err = s.Links.AddAlias(t.Context(), actor, "", "phish", n)
		require.NoError(t, err)
	}
	set := func(domain, code string, all, blocked bool) (made []string) {
		b, err := s.Blocks.Set(t.Context(), operator, blocks.Request{Domain: domain, Code: code, All: all, Blocked: blocked, Reason: "test"})
		require.NoError(t, err)
		for i := range b {
			require.Equal(t, blocked, b[i].Blocked)
			made = append(made, b[i].Host+"/"+string(b[i].Code))
		}
		return made
	}
	answers := func() []int {
		return []int{s.answers(t, "", "phish"), s.answers(t, "", "bait"), s.answers(t, host, "HOOK")}
	}
	require.Equal(t, []int{302, 302, 302}, answers())
	require.Equal(t, []string{host + "/Hook", "/phish", "/bait"}, set(host, "HOOK", true, true))
	require.Equal(t, []int{410, 410, 410}, answers())
	_, _, err = s.Links.AddAlias(t.Context(), actor, "", "phish", controlplane.NewAlias{Code: "late"})
	require.ErrorContains(t, err, "an operator blocks an address")
	stored, _, err := s.db.Blocks(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, stored, 3)
	log, err := s.Workspaces.Audit(t.Context(), operator, true, 50, "")
	require.NoError(t, err)
	noted := 0
	for i := range log.Entries {
		if log.Entries[i].Action == "links.block" {
			noted++
		}
	}
	require.Equal(t, 3, noted)

	require.Equal(t, []string{host + "/Hook"}, set(host, "hook", false, false), "one address alone")
	require.Equal(t, []int{410, 410, 302}, answers())
	require.Equal(t, []string{"/phish", "/bait"}, set(host, "Hook", true, false), "an address without a block is skipped")
	require.Equal(t, []int{302, 302, 302}, answers())
	_, err = s.Blocks.Set(t.Context(), operator, blocks.Request{Code: "phish", All: true, Reason: "test"})
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
	_, err = s.Blocks.Set(t.Context(), operator, blocks.Request{Code: "nothing", All: true, Blocked: true, Reason: "test"})
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
}
