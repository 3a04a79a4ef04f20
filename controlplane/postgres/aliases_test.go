package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
)

var owner = controlplane.Actor{Workspace: waypost.DefaultWorkspace}

func TestAliases_ReplicateAndStayRetired(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO domain (id, workspace_id, host) OVERRIDING SYSTEM VALUE VALUES (7, 1, 'own.example.net')`)
	f := newFollow(t, db)
	insert(t, db, link("summer"), link("winter"))
	add := func(to string, a waypost.Alias) (waypost.Link, error) {
		l, err := db.Link(t.Context(), owner.Workspace, waypost.DefaultDomain, waypost.Code(to))
		require.NoError(t, err)
		l, _, err = db.AddAlias(t.Context(), owner, l.ID, a, nil)
		return l, err
	}
	_, err := add("summer", waypost.Alias{Domain: 1, Code: "sum1", Title: "box"})
	require.NoError(t, err)
	l, err := add("summer", waypost.Alias{Domain: 7, Code: "été"})
	require.NoError(t, err)
	require.Equal(t, []string{"1  sum1 box", "2 own.example.net été "}, aliasesOf(&l))
	require.NotZero(t, l.Flags&waypost.Aliased)

	f.catchUp(t, db, 100)
	require.Equal(t, waypost.AliasOf, f.rows["1/1/sum1"].Flags)
	require.Equal(t, "1/summer", string(f.rows["1/7/été"].Payload))
	require.Equal(t, waypost.Aliased, f.rows["1/1/summer"].Flags)
	require.Equal(t, f.rows, newFollow(t, db).rows, "a snapshot has the same")
	require.Equal(t, int64(f.digest()), number(t, hand, `SELECT digest FROM changelog_add_up()`))
	sums, head, err := db.Sums(t.Context(), 0, waypost.Slots-1)
	require.NoError(t, err)
	var digest uint64
	for _, s := range sums {
		digest ^= s.Digest
	}
	require.Equal(t, head.Digest, digest)

	rec, found, err := db.Record(t.Context(), 7, "été")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "summer", string(rec.Name))
	byAlias, err := db.Link(t.Context(), owner.Workspace, 7, "été")
	require.NoError(t, err)
	require.Equal(t, l.ID, byAlias.ID)
	_, err = db.DeleteLink(t.Context(), owner, 7, "été")
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))

	for _, a := range []waypost.Alias{{Domain: 1, Code: "sum1"}, {Domain: 7, Code: "été"}, {Domain: 1, Code: "summer"}} {
		_, err := add("winter", a)
		require.Equal(t, waypost.EConflict, waypost.CodeOf(err), a.Code)
	}
	placed, _, err := db.InsertLinks(t.Context(), 0, insertions(link("sum1"), link("autumn")))
	require.NoError(t, err)
	require.Equal(t, []controlplane.InsertResult{controlplane.Aliased, controlplane.Placed}, placed)

	l, _, err = db.RemoveAlias(t.Context(), owner, l.ID, 1, "sum1")
	require.NoError(t, err)
	require.Equal(t, []string{"2 own.example.net été "}, aliasesOf(&l))
	f.catchUp(t, db, 100)
	require.NotContains(t, f.rows, "1/1/sum1")
	placed, _, err = db.InsertLinks(t.Context(), 0, insertions(link("sum1")))
	require.NoError(t, err)
	require.Equal(t, []controlplane.InsertResult{controlplane.Retired}, placed)
	_, err = add("summer", waypost.Alias{Domain: 1, Code: "sum1"})
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
	l, err = add("summer", waypost.Alias{Domain: 1, Code: "sum3"})
	require.NoError(t, err)
	require.Equal(t, []string{"2 own.example.net été ", "3  sum3 "}, aliasesOf(&l), "the number is a new one")
	_, changes, err := db.History(t.Context(), owner.Workspace, 1, "summer", waypost.Revision{Epoch: 1 << 30}, 10)
	require.NoError(t, err)
	require.Len(t, changes, 4)
	require.JSONEq(t, `["own.example.net/été", "go.example.com/sum3"]`, string(changes[0].Fields[0].After))

	exec(t, hand, `UPDATE link SET deleted_at = now() - interval '2 hours', expires_at = now() - interval '3 hours' WHERE code = 'summer'`)
	f.catchUp(t, db, 100)
	require.Contains(t, f.rows, "1/1/sum3", "a deleted link answers 410 at all its addresses")
	r := controlplane.NewReaper(controlplane.ReaperConfig{Patience: waitLimit, Store: db, Buffer: time.Hour, PurgeAfter: time.Hour})
	require.NoError(t, r.Once(t.Context()))
	f.catchUp(t, db, 100)
	require.NotContains(t, f.rows, "1/1/summer")
	require.NotContains(t, f.rows, "1/1/sum3")
	require.NotContains(t, f.rows, "1/7/été")
	require.Zero(t, number(t, hand, `SELECT count(*) FROM link_alias`))
	require.Equal(t, "sum1 sum3 summer été", textOf(t, hand, `SELECT string_agg(code, ' ' ORDER BY code COLLATE "C") FROM retired_code`))
	require.Equal(t, int64(f.digest()), number(t, hand, `SELECT digest FROM changelog_add_up()`))
}

func aliasesOf(l *waypost.Link) (shown []string) {
	for _, a := range l.Aliases {
		shown = append(shown, string('0'+rune(a.N))+" "+a.Host+" "+string(a.Code)+" "+a.Title)
	}
	return shown
}

func TestAliases_AreBounded(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("summer"))
	l, err := db.Link(t.Context(), owner.Workspace, 1, "summer")
	require.NoError(t, err)
	for i := range waypost.MaxAliases {
		_, _, err := db.AddAlias(t.Context(), owner, l.ID, waypost.Alias{Domain: 1, Code: waypost.Code("alias-" + string(rune('a'+i)))}, nil)
		require.NoError(t, err)
	}
	_, _, err = db.AddAlias(t.Context(), owner, l.ID, waypost.Alias{Domain: 1, Code: "alias-z"}, nil)
	require.ErrorContains(t, err, "at most 16")
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	_, _, err = db.AddAlias(t.Context(), controlplane.Actor{Workspace: 7}, l.ID, waypost.Alias{Domain: 1, Code: "theirs"}, nil)
	require.Equal(t, waypost.ErrNoLink, err, "the link is another workspace's")
	theirs := link("theirs")
	theirs.Workspace = 7
	insert(t, db, theirs)
	_, _, err = db.AddAlias(t.Context(), controlplane.Actor{Workspace: 7}, theirs.ID, waypost.Alias{Domain: 1, Code: "alias-a"}, nil)
	require.ErrorContains(t, err, "is taken", "nothing of another workspace's alias is told")
	exec(t, hand, `DELETE FROM link_alias`)
	exec(t, hand, `UPDATE retired_code SET n = 250 WHERE n = 16`)
	_, _, err = db.AddAlias(t.Context(), owner, l.ID, waypost.Alias{Domain: 1, Code: "alias-y"}, nil)
	require.ErrorContains(t, err, "can get no other")
}

func TestAliases_AreRefusedByATakedownOfTheSameMoment(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("summer"))
	l, err := db.Link(t.Context(), owner.Workspace, 1, "summer")
	require.NoError(t, err)
	add := func(code waypost.Code) error {
		_, _, err := db.AddAlias(t.Context(), owner, l.ID, waypost.Alias{Domain: 1, Code: code}, nil)
		return err
	}
	require.NoError(t, add("sum1"))
	operator := controlplane.Actor{Workspace: waypost.DefaultWorkspace, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}
	for i, blocked := range []waypost.Code{"summer", "sum1"} {
		takedown, err := hand.Begin(t.Context())
		require.NoError(t, err)
		exec(t, takedown, `LOCK TABLE link_block IN SHARE ROW EXCLUSIVE MODE`) // as SetBlock does
		added := make(chan error, 1)
		go func() { added <- add("late") }()
		require.Eventually(t, func() bool {
			return len(added) > 0 || number(t, hand, `SELECT count(*) FROM pg_locks WHERE relation = 'link_block'::regclass AND NOT granted`) == 1
		}, waitLimit, time.Millisecond)
		exec(t, takedown, `INSERT INTO link_block (host, code, version, blocked, policy, reason, at, stamp, place)
			VALUES ('', '`+string(blocked)+`', 1, true, 'gone', 'test', 0, 0, `+string('1'+rune(2*i))+`)`)
		require.NoError(t, takedown.Commit(t.Context()))
		require.ErrorContains(t, <-added, "an operator blocks an address of the link")
		_, err = db.SetBlock(t.Context(), operator, false, waypost.Block{Code: blocked, Policy: waypost.BlockGone, Reason: "ended"})
		require.NoError(t, err)
	}
	require.NoError(t, add("late"), "the refused code is free, and both blocks have ended")
}

func TestAliases_AreCreatedWithTheirLinkOrRefuseIt(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	exec(t, hand, `INSERT INTO domain (id, workspace_id, host) OVERRIDING SYSTEM VALUE VALUES (7, 1, 'own.example.net')`)
	f := newFollow(t, db)
	insert(t, db, link("old"))
	exec(t, hand, `INSERT INTO link_block (host, code, version, blocked, policy, reason, at, stamp, place)
		VALUES ('', 'blocked', 1, true, 'gone', 'test', 0, 0, 1), ('own.example.net', 'bad', 1, true, 'gone', 'test', 0, 0, 2)`)
	held := lease(t, db, "eu")
	made := func(code string, ws waypost.WorkspaceID, aliases ...string) controlplane.Insertion {
		x := controlplane.Insertion{Link: link(code), TakenBy: new(waypost.Code)}
		x.Link.Workspace = ws
		for _, a := range aliases {
			domain := waypost.DomainID(1)
			if code, own := strings.CutPrefix(a, "own/"); own {
				domain, a = 7, code
			}
			x.Link.Aliases = append(x.Link.Aliases, waypost.Alias{Domain: domain, Code: waypost.Code(a), Title: "of " + code})
			x.AliasClaims = append(x.AliasClaims, nil)
		}
		return x
	}
	links := []controlplane.Insertion{
		made("plain", 1), made("one", 1, "one-box", "own/box"), made("theirs", 7, "theirs-box"), made("taken", 1, "fine", "old"),
		made("again", 7, "one-box"), made("later", 1), made("other", 1, "later"), made("blocked", 1, "way-round"), made("near", 1, "own/bad"),
		made("issuable", 1, string(testCoder.Encode(held.Prefix, held.Lo))), made("burning", 1, string(testCoder.Encode(held.Prefix, held.Hi))),
		made("one-box", 1), made("theirs-box", 1),
	}
	links[9].AliasClaims[0] = &controlplane.Counter{Prefix: held.Prefix, N: held.Lo}
	links[10].AliasClaims[0] = &controlplane.Counter{Prefix: held.Prefix, N: held.Hi}
	placed, at, err := db.InsertLinks(t.Context(), 0, links)
	require.NoError(t, err)
	P, A := controlplane.Placed, controlplane.AliasTaken
	require.Equal(t, []controlplane.InsertResult{P, P, P, A, A, P, A, A, A, A, P, controlplane.Aliased, controlplane.Taken}, placed)
	require.Equal(t, []waypost.Code{"old", "one-box", "later"}, []waypost.Code{*links[3].TakenBy, *links[4].TakenBy, *links[6].TakenBy})
	require.Equal(t, []string{"1  one-box of one", "2 own.example.net box of one"}, aliasesOf(links[1].Link))
	for _, x := range links[1:3] {
		l, err := db.Link(t.Context(), x.Link.Workspace, 1, x.Link.Code)
		require.NoError(t, err)
		require.Equal(t, l, *x.Link, "the version is that of the link with its aliases")
		_, changes, err := db.History(t.Context(), x.Link.Workspace, 1, x.Link.Code, waypost.Revision{Epoch: 1 << 30}, 10)
		require.NoError(t, err)
		require.Empty(t, changes, "they are part of the creation")
	}
	require.EqualValues(t, 6, number(t, hand, `SELECT count(*) FROM link`))
	f.catchUp(t, db, 100)
	require.Equal(t, at.Seq, f.at.Seq)
	require.Equal(t, "1/one", string(f.rows["1/7/box"].Payload))
	require.Equal(t, waypost.Aliased, f.rows["1/1/one"].Flags)
	require.Equal(t, int64(f.digest()), number(t, hand, `SELECT digest FROM changelog_add_up()`))
}

func TestAliases_MayBeAKeyThatTheirOwnWorkspaceReserved(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	insert(t, db, link("old"))
	held := lease(t, db, "eu")
	key := string(testCoder.Encode(held.Prefix, held.Lo))
	exec(t, hand, `INSERT INTO reserved_key (code, workspace_id, service, lease_id)
		SELECT '`+key+`', 7, 'shop', id FROM key_lease LIMIT 1`)
	made := func(code string, ws waypost.WorkspaceID, aliases ...string) controlplane.Insertion {
		x := controlplane.Insertion{Link: link(code), TakenBy: new(waypost.Code)}
		x.Link.Workspace = ws
		for _, a := range aliases {
			x.Link.Aliases = append(x.Link.Aliases, waypost.Alias{Domain: 1, Code: waypost.Code(a)})
			x.AliasClaims = append(x.AliasClaims, nil)
			if a == key {
				x.AliasClaims[len(x.AliasClaims)-1] = &controlplane.Counter{Prefix: held.Prefix, N: held.Lo}
			}
		}
		return x
	}
	P, A := controlplane.Placed, controlplane.AliasTaken
	for _, c := range []struct {
		links []controlplane.Insertion
		want  []controlplane.InsertResult
	}{
		{[]controlplane.Insertion{made("owner", 7, key, "old"), made("thief", 1, key)}, []controlplane.InsertResult{A, A}},
		{[]controlplane.Insertion{made("thief", 1, key), made("owner", 7, key)}, []controlplane.InsertResult{A, P}},
	} {
		placed, _, err := db.InsertLinks(t.Context(), 0, c.links)
		require.NoError(t, err)
		require.Equal(t, c.want, placed)
	}
}

// A domain that was switched is the same to an edge that followed and to one that begins
// with a snapshot at that moment, and the digest of both is the one of the database.
func TestSwitchCodes_IsTheSameForAnEdgeThatBeginsAnew(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO domain (id, workspace_id, host) OVERRIDING SYSTEM VALUE VALUES (7, 1, 'own.example.net')`)
	for _, code := range []string{"Summer", "docs", "GONE", "Docs/{page}"} {
		l := link(code)
		l.Domain = 7
		insert(t, db, l)
	}
	insert(t, db, link("shared"))
	alias := func(domain waypost.DomainID, code waypost.Code, a waypost.Alias) {
		l, err := db.Link(t.Context(), owner.Workspace, domain, code)
		require.NoError(t, err)
		_, _, err = db.AddAlias(t.Context(), owner, l.ID, a, nil)
		require.NoError(t, err)
	}
	alias(7, "Summer", waypost.Alias{Domain: 1, Code: "Sum1"})
	alias(7, "Summer", waypost.Alias{Domain: 7, Code: "Box"})
	alias(7, "GONE", waypost.Alias{Domain: 7, Code: "Lost"})
	alias(1, "shared", waypost.Alias{Domain: 7, Code: "Été"})
	_, err := db.DeleteLink(t.Context(), owner, 7, "GONE")
	require.NoError(t, err)
	f := newFollow(t, db)
	for _, ignores := range []string{"true", "false", "true"} {
		exec(t, hand, `UPDATE domain SET ignores_case = `+ignores+`, case_switching = true WHERE id = 7`)
		f.catchUp(t, db, 100)
		require.Equal(t, f.rows, newFollow(t, db).rows, "while it is being switched")
		require.NoError(t, db.SwitchCodes(t.Context(), 7))
		f.catchUp(t, db, 100)
		require.Equal(t, f.rows, newFollow(t, db).rows)
		require.Equal(t, int64(f.digest()), number(t, hand, `SELECT digest FROM changelog_add_up()`))
		of, box, ete := "7/Summer", "1/7/Box", "1/7/Été"
		if ignores == "true" {
			of, box, ete = "7/summer", "1/7/box", "1/7/été"
		}
		require.Equal(t, []string{of, of, "1/shared"},
			[]string{string(f.rows["1/1/Sum1"].Payload), string(f.rows[box].Payload), string(f.rows[ete].Payload)})
		l, err := db.Link(t.Context(), owner.Workspace, 7, waypost.Code(box[len("1/7/"):]))
		require.NoError(t, err)
		require.Equal(t, []string{"1  Sum1 ", "2 own.example.net Box "}, aliasesOf(&l), "as typed")
		_, changes, err := db.History(t.Context(), owner.Workspace, 7, waypost.Code(of[len("7/"):]), waypost.Revision{Epoch: 1 << 30}, 10)
		require.NoError(t, err)
		require.Len(t, changes, 2, "the two aliases")
	}
	require.NotContains(t, f.rows, "1/7/Box")
	require.Contains(t, f.rows, "1/7/lost")
	require.Contains(t, f.rows, "1/7/summer")
	require.Contains(t, f.rows, "6/7/docs/{page}")
	require.NotContains(t, f.rows, "1/7/Summer")
}
