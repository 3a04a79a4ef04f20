package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
)

// APIKey implements controlplane.KeyStore.
func (db *DB) APIKey(ctx context.Context, hash [32]byte) (controlplane.StoredKey, bool, error) {
	k := controlplane.StoredKey{Hash: hash}
	found := false
	err := db.queryIn(ctx, system, `
		SELECT k.id, k.workspace_id, k.name, k.hash, k.scopes, k.expires_at
		FROM api_key k JOIN workspace w ON w.id = k.workspace_id
		WHERE k.hash = $1 AND k.revoked_at IS NULL AND w.deleted_at IS NULL`, []any{hash[:]}, func(rows pgx.Rows) error {
		for rows.Next() {
			var stored []byte
			var expires *time.Time
			if err := rows.Scan(&k.ID, &k.Workspace, &k.Name, &stored, &k.Scopes, &expires); err != nil {
				return err
			}
			copy(k.Hash[:], stored)
			if expires != nil {
				k.ExpiresAt = *expires
			}
			found = true
		}
		return rows.Err()
	})
	return k, found, classify("look up an API key", err)
}

// EnsureKey registers a key in a workspace; a key that is there already is left
// as it is. Only its hash is stored.
func (db *DB) EnsureKey(ctx context.Context, ws waypost.WorkspaceID, name, key string, scopes []controlplane.Scope) error {
	hash := controlplane.HashKey(key)
	err := db.queryIn(ctx, tenantOf(ws), `
		INSERT INTO api_key (workspace_id, name, prefix, hash, scopes) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (hash) DO NOTHING`,
		[]any{ws, name, key[:controlplane.KeyDisplay], hash[:], scopes}, func(rows pgx.Rows) error {
			for rows.Next() {
				continue
			}
			return rows.Err()
		})
	return classify("register an API key", err)
}

// CreateKey makes a key in the workspace of a slug and gives its text, which is
// to be shown once. ENotFound when there is no such workspace.
func (db *DB) CreateKey(ctx context.Context, slug, name string, scopes []controlplane.Scope) (string, error) {
	var ws waypost.WorkspaceID
	err := db.queryIn(ctx, system, `SELECT id FROM workspace WHERE slug = $1 AND deleted_at IS NULL`, []any{slug}, func(rows pgx.Rows) error {
		for rows.Next() {
			if err := rows.Scan(&ws); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if err != nil {
		return "", classify("look up a workspace", err)
	}
	if ws == 0 {
		return "", waypost.Errorf(waypost.ENotFound, "there is no workspace %q", slug)
	}
	key, err := controlplane.NewKey()
	if err != nil {
		return "", err
	}
	return key, db.EnsureKey(ctx, ws, name, key, scopes)
}
