package postgres_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
)

// The statement of the page counts the links that each actor has deleted, and neither
// restored nor changed ones.
func TestHistory_PageFindsWhoDeletedTheLinks(t *testing.T) {
	db, hand := open(t)
	ann := controlplane.Actor{Workspace: waypost.DefaultWorkspace, UserID: 7, Name: "ann"}
	insert(t, db, links(4)...)
	for _, code := range []waypost.Code{"link-0", "link-1"} {
		_, err := db.DeleteLink(t.Context(), ann, waypost.DefaultDomain, code)
		require.NoError(t, err)
	}
	exec(t, hand, `UPDATE link SET deleted_at = now() WHERE code = 'link-2'`)
	exec(t, hand, `UPDATE link SET deleted_at = NULL WHERE code = 'link-0'`)
	exec(t, hand, `UPDATE link SET title = 'changed' WHERE code = 'link-3'`)

	page, err := os.ReadFile("../../docs/operations/troubleshoot.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?s)```sql\nSET ROLE waypost_operator;\n(.+?)```").FindSubmatch(page)
	require.NotNil(t, found)
	exec(t, hand, `SET ROLE waypost_operator`)
	type row struct {
		Workspace, Kind, Name string
		Count                 int
		Example               string
	}
	rows, err := hand.Query(t.Context(), string(found[1]))
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	require.NoError(t, err)
	require.ElementsMatch(t, []row{{"default", "user", "ann", 1, "link-1"}, {"default", "database", "postgres", 1, "link-2"}}, got)
}
