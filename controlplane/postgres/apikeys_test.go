package postgres_test

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
)

var keyMaker = controlplane.Actor{
	Workspace: waypost.DefaultWorkspace, Name: "Ada", SessionID: 1, Scopes: []controlplane.Scope{controlplane.ScopeAdmin},
}

func makeAPIKey(t *testing.T, db *postgres.DB, expires time.Time) controlplane.MadeKey {
	t.Helper()
	n := api.NewAPIKey{Name: "ci", Scopes: []string{"links:read"}}
	if !expires.IsZero() {
		n.ExpiresAt = &expires
	}
	made, err := db.CreateAPIKey(t.Context(), keyMaker, n, controlplane.KeyMaterial{Prefix: "wp", Hash: sha256.Sum256([]byte(t.Name()))}, nil)
	require.NoError(t, err)
	return made
}

func rotate(t *testing.T, db *postgres.DB, id int64, grace time.Duration) (controlplane.MadeKey, error) {
	t.Helper()
	return db.RotateAPIKey(t.Context(), keyMaker, 0, id, grace,
		controlplane.KeyMaterial{Prefix: "wp", Hash: sha256.Sum256(fmt.Appendf(nil, "in place of %d", id))}, nil)
}

func TestRotateAPIKey_KeepsTheEndBeforeTheYear10000(t *testing.T) {
	db, hand := open(t)
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, expires := range []time.Time{last, {}} {
		made := makeAPIKey(t, db, expires)
		require.Equal(t, !expires.IsZero(), made.ExpiresAt != nil)
		exec(t, hand, `UPDATE api_key SET created_at = created_at - interval '1 day'`)
		again, err := rotate(t, db, made.ID, 0)
		require.NoError(t, err)
		require.Equal(t, made.ExpiresAt, again.ExpiresAt)
		exec(t, hand, `DELETE FROM api_key`)
	}
}

func TestRotateAPIKey_CountsTheOldKeyWhileItGoesOn(t *testing.T) {
	db, hand := open(t)
	const more = `INSERT INTO api_key (workspace_id, name, prefix, hash, scopes, created_by)
		SELECT 1, 'k', 'wp', sha256(n::text::bytea), '{admin}', %s FROM generate_series(1, %d) n`
	exec(t, hand, `INSERT INTO app_user (home_id, email, name) VALUES (1, 'ada@example.com', 'Ada')`)
	for _, c := range []struct {
		owner string
		most  int
	}{{"(SELECT id FROM app_user)", controlplane.MaxOwnKeys}, {"NULL", controlplane.MaxKeys}} {
		made := makeAPIKey(t, db, time.Time{})
		exec(t, hand, fmt.Sprintf(`UPDATE api_key SET created_by = %s`, c.owner))
		exec(t, hand, fmt.Sprintf(more, c.owner, c.most-1))
		_, err := rotate(t, db, made.ID, time.Hour)
		require.Equal(t, waypost.EConflict, waypost.CodeOf(err), c.owner)
		require.ErrorContains(t, err, fmt.Sprint(c.most))
		_, err = rotate(t, db, made.ID, 0)
		require.NoError(t, err, "one key takes the place of the other")
		exec(t, hand, `DELETE FROM api_key`)
	}
}
