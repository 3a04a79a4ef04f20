package postgres_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
)

func TestALinkReadsBackAsItWasCreated(t *testing.T) {
	db, _ := open(t)
	l := link("spring")
	l.OriginalURL, l.Location = "https://exämple.com/ü x", "https://xn--exmple-cua.com/%C3%BC%20x"
	l.Title, l.Description, l.CreatedBy = "Frühling", "d", "me"
	l.Tags, l.Metadata = []string{`a"b`, "ü,{}"}, json.RawMessage(`{"a": [1, "x"]}`)
	l.ExpiresAt = time.Date(2999, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	insert(t, db, l)
	got, err := db.Link(t.Context(), waypost.DefaultWorkspace, waypost.DefaultDomain, "spring")
	require.NoError(t, err)
	require.JSONEq(t, string(l.Metadata), string(got.Metadata))
	got.Metadata = l.Metadata
	l.Active = true
	require.Equal(t, *l, got)
}

func TestOneTakenCodeDoesNotRefuseItsBatch(t *testing.T) {
	db, _ := open(t)
	insert(t, db, link("taken"))
	added, _, err := db.InsertLinks(t.Context(), 0, insertions(link("free-1"), link("taken"), link("free-2")))
	require.NoError(t, err)
	require.Equal(t, []controlplane.InsertResult{controlplane.Placed, controlplane.Taken, controlplane.Placed}, added)
}

func TestADeletedLinkLeavesATombstoneAndKeepsItsCode(t *testing.T) {
	db, _ := open(t)
	insert(t, db, link("brief"))
	_, err := db.DeleteLink(t.Context(), controlplane.Actor{Workspace: waypost.DefaultWorkspace}, waypost.DefaultDomain, "brief")
	require.NoError(t, err)
	_, err = db.Link(t.Context(), waypost.DefaultWorkspace, waypost.DefaultDomain, "brief")
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
	_, err = db.DeleteLink(t.Context(), controlplane.Actor{Workspace: waypost.DefaultWorkspace}, waypost.DefaultDomain, "brief")
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
	rec, found, err := db.Record(t.Context(), waypost.DefaultDomain, "brief")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, waypost.Deleted, rec.State)
	require.Empty(t, rec.Payload, "an edge does not keep the target of a deleted link")
	added, _, err := db.InsertLinks(t.Context(), 0, insertions(link("brief")))
	require.NoError(t, err)
	require.Equal(t, controlplane.Restorable, added[0])
}

func TestAListGivesTheNewestFirstWithoutTheDeleted(t *testing.T) {
	db, _ := open(t)
	insert(t, db, links(5)...)
	_, err := db.DeleteLink(t.Context(), controlplane.Actor{Workspace: waypost.DefaultWorkspace}, waypost.DefaultDomain, "link-3")
	require.NoError(t, err)
	page, err := db.ListLinks(t.Context(), waypost.DefaultWorkspace, controlplane.LinkFilter{}, time.Now(), controlplane.NewestFirst,
		controlplane.ListPlace{}, 2)
	require.NoError(t, err)
	require.Equal(t, []waypost.Code{"link-4", "link-2"}, []waypost.Code{page.Links[0].Code, page.Links[1].Code})
	page, err = db.ListLinks(t.Context(), waypost.DefaultWorkspace, controlplane.LinkFilter{}, time.Now(), controlplane.NewestFirst,
		*page.Next, 9)
	require.NoError(t, err)
	require.Len(t, page.Links, 2)
	require.Nil(t, page.Next)
}

func TestRowSecurityDeniesWhatNoScopeAllows(t *testing.T) {
	db, hand := open(t)
	insert(t, db, links(3)...)
	require.NoError(t, db.EnsureKey(t.Context(), waypost.DefaultWorkspace, "k", newKey(t), []controlplane.Scope{controlplane.ScopeAdmin}))
	count := func(table string) (n int) {
		require.NoError(t, hand.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n))
		return n
	}
	tables := []string{"link", "api_key", "changelog", "changelog_0"}
	for _, table := range tables {
		require.Positive(t, count(table), table)
	}
	exec(t, hand, `SET ROLE waypost_tenant`)
	for _, table := range []string{"link", "api_key"} {
		require.Zero(t, count(table), table)
	}
	for _, table := range []string{"changelog", "changelog_0"} {
		_, err := hand.Exec(t.Context(), `SELECT FROM `+table)
		require.ErrorContains(t, err, "permission denied", table)
	}
	exec(t, hand, `SET waypost.workspaces = '1'`)
	require.Equal(t, 3, count("link"))
	exec(t, hand, `SET waypost.workspaces = '2,3'`)
	require.Zero(t, count("link"))
	_, err := hand.Exec(t.Context(), `INSERT INTO link (workspace_id, domain_id, code, original_url)
		VALUES (1, 1, 'theirs', 'https://example.net/')`)
	require.Error(t, err)
}

func TestAnUnknownHostMeansTheDefaultDomainUnlessStrict(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO domain (id, host) VALUES (5, 'own.example')`)
	insert(t, db, link("shared"))
	own := link("shared")
	own.Domain, own.Location, own.OriginalURL = 5, "https://example.com/own", "https://example.com/own"
	insert(t, db, own)
	for _, c := range []struct {
		host   string
		strict bool
		want   string
	}{
		{"go.example.com", false, "https://example.com/shared"},
		{"go.example.com", true, "https://example.com/shared"},
		{"own.example", true, "https://example.com/own"},
		{"stranger.example", false, "https://example.com/shared"},
		{"stranger.example", true, ""},
	} {
		d, served, err := db.DomainOf(t.Context(), c.host, c.strict)
		require.NoError(t, err)
		require.Equal(t, c.want != "", served)
		rec, found, err := db.Record(t.Context(), d.ID, "shared")
		require.NoError(t, err)
		require.Equal(t, served, found)
		require.Equal(t, c.want, string(rec.Payload))
	}
}

func newKey(t *testing.T) string {
	t.Helper()
	key := controlplane.NewKey()
	return key
}

func TestAnAPIKeyIsFoundByItsHashUntilItIsRevoked(t *testing.T) {
	db, hand := open(t)
	key, err := db.CreateKey(t.Context(), "default", "ci", []string{"links:read"})
	require.NoError(t, err)
	stored, ok, err := db.APIKey(t.Context(), controlplane.HashKey(key))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, waypost.DefaultWorkspace, stored.Workspace)
	require.Equal(t, []controlplane.Scope{controlplane.ScopeLinksRead}, stored.Scopes)

	var leaked bool
	require.NoError(t, hand.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM api_key k
		WHERE k::text LIKE '%' || $1 || '%')`, key[12:]).Scan(&leaked))
	require.False(t, leaked, "the key itself is not stored")
	exec(t, hand, `UPDATE api_key SET revoked_at = now()`)
	_, ok, err = db.APIKey(t.Context(), controlplane.HashKey(key))
	require.NoError(t, err)
	require.False(t, ok)
	_, err = db.CreateKey(t.Context(), "nobody", "x", nil)
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
}
