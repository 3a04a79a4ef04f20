package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
)

// minted are links whose codes are expected to be free.
func minted(codes ...string) []*waypost.Link {
	ls := make([]*waypost.Link, len(codes))
	for i, code := range codes {
		ls[i] = link(code)
		ls[i].Custom = false
	}
	return ls
}

func TestAMintedCodeThatIsTakenAfterAllIsToldAndTheOthersArePlaced(t *testing.T) {
	db, _ := open(t)
	f := newFollow(t, db)
	first := insert(t, db, link("taken-1"))
	ls := minted("free-1", "taken-1", "free-2")
	placed, at, err := db.InsertLinks(t.Context(), 0, insertions(ls...))
	require.NoError(t, err)
	require.Equal(t, []controlplane.InsertResult{controlplane.Placed, controlplane.Taken, controlplane.Placed}, placed)
	require.Equal(t, first.Seq+1, at.Seq, "the first attempt has left nothing")
	require.Zero(t, ls[1].ID)

	require.Equal(t, []uint64{first.Seq, at.Seq}, f.catchUp(t, db, 1000))
	for _, i := range []int{0, 2} {
		l, err := db.Link(t.Context(), waypost.DefaultWorkspace, waypost.DefaultDomain, ls[i].Code)
		require.NoError(t, err)
		require.Equal(t, l.ID, ls[i].ID)
		require.Equal(t, ls[i].Stamp, f.rows["1/1/"+string(ls[i].Code)].Stamp)
	}
	require.Equal(t, f.rows, newFollow(t, db).rows)
}

func TestACodeThatWasPurgedOfAnotherDomainIsNeverMintedThere(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO domain (id, workspace_id, host) OVERRIDING SYSTEM VALUE VALUES (7, 1, 'brand.example')`)
	exec(t, hand, `INSERT INTO retired_code (domain_id, code) VALUES (7, 'summers'), (1, 'winters')`)
	ls := minted("springs", "summers", "winters")
	for _, l := range ls {
		l.Domain = 7
	}
	placed, _, err := db.InsertLinks(t.Context(), 0, insertions(ls...))
	require.NoError(t, err)
	require.Equal(t, []controlplane.InsertResult{controlplane.Placed, controlplane.Taken, controlplane.Placed}, placed)
}

func TestEntriesAreWrittenWhateverIdsTheirLinksHave(t *testing.T) {
	db, hand := open(t)
	f := newFollow(t, db)
	for _, values := range []string{
		`(500, 1, 1, 'low-1', 'https://example.com/'), (9000000000000, 1, 1, 'high-1', 'https://example.com/'), (700, 1, 1, 'low-2',
			'https://example.com/')`,
		`(9223372036854775807, 1, 1, 'last', 'https://example.com/'), (-9223372036854775808, 1, 1, 'first', 'https://example.com/')`,
		`(9223372036854775806, 1, 1, 'last-2', 'https://example.com/'), (9223372036854775805, 1, 1, 'last-3', 'https://example.com/')`,
	} {
		exec(t, hand, `INSERT INTO link (id, workspace_id, domain_id, code, original_url) OVERRIDING SYSTEM VALUE VALUES `+values)
	}
	exec(t, hand, `INSERT INTO link (workspace_id, domain_id, code, original_url) SELECT 1, 1, 'none', 'https://example.com/' WHERE false`)
	tx, err := hand.Begin(t.Context()) // several statements of one transaction, links of which some have been there
	require.NoError(t, err)
	exec(t, tx, `INSERT INTO link (workspace_id, domain_id, code, original_url)
		SELECT 1, 1, 'many-' || n, 'https://example.com/' FROM generate_series(1, 20, 2) n`)
	exec(t, tx, `INSERT INTO link (workspace_id, domain_id, code, original_url)
		SELECT 1, 1, 'many-' || n, 'https://example.com/' FROM generate_series(1, 20) n ON CONFLICT DO NOTHING`)
	require.NoError(t, tx.Commit(t.Context()))

	require.Len(t, f.catchUp(t, db, 1000), 5)
	require.Equal(t, f.rows, newFollow(t, db).rows)
	require.EqualValues(t, 27, number(t, hand, `SELECT count(*) FROM link`))
	require.Zero(t, number(t, hand, `SELECT count(*) FROM (SELECT max(c.ord) AS last
		FROM changelog c GROUP BY c.seq HAVING max(c.ord) >= 10000) s`))
}

func TestOwnersOfNewLinksAreThereAndTheirTagsAreCounted(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (2, 'Two', 'two')`)
	exec(t, hand, `INSERT INTO domain (id, workspace_id, host) OVERRIDING SYSTEM VALUE VALUES (20, 2, 'two.example')`)
	before, err := db.Head(t.Context())
	require.NoError(t, err)
	for want, values := range map[string]string{
		"no workspace 3": `(1, 1, 'one-1', 'https://example.com/'), (3, 1, 'one-2', 'https://example.com/'), (2, 1, 'one-3',
			'https://example.com/')`,
		"no workspace 0": `(0, 1, 'one-1', 'https://example.com/'), (1, 1, 'one-2', 'https://example.com/')`,
		"no domain 19": `(1, 1, 'one-1', 'https://example.com/'), (1, 19, 'one-2', 'https://example.com/'), (1, 20, 'one-3',
			'https://example.com/')`,
		"no domain 21": `(1, 21, 'one-1', 'https://example.com/')`,
	} {
		_, err := hand.Exec(t.Context(), `INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES `+values)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "23503")
	}
	after, err := db.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, before.Position, after.Position)

	exec(t, hand, `INSERT INTO link (workspace_id, domain_id, code, original_url, tags) VALUES
		(1, 1, 'one-1', 'https://example.com/', '{}'), (2, 20, 'one-1', 'https://example.com/', '{a,b,a}'), (2, 1, 'one-2',
			'https://example.com/', '{a}')`)
	require.Equal(t, "2/a/2 2/b/1", textOf(t, hand, `SELECT string_agg(workspace_id || '/' || tag || '/' || links, ' ' ORDER BY tag)
		FROM link_tag`))
}

func TestALinkOfThisTransactionsNumberAndOfAnotherEpochIsRefused(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("before"))
	tx, err := hand.Begin(t.Context())
	require.NoError(t, err)
	exec(t, tx, `SELECT set_config('waypost.stamped', (changelog_begin()).seq::text, true)`)
	_, err = tx.Exec(t.Context(), `INSERT INTO link (workspace_id, domain_id, code, original_url, slot, rev_epoch, rev_seq, stamp)
		SELECT 1, 1, 'forged', original_url, slot, rev_epoch - 1, rev_seq + 1, 1 FROM link`)
	require.ErrorContains(t, err, "not of this transaction")
	require.NoError(t, tx.Rollback(t.Context()))
}
