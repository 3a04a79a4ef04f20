package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

const selectKey = `
	SELECT k.id, k.name, k.description, k.prefix, k.scopes, k.created_by AS owner_id, coalesce(u.email, '') AS owner_email, k.rotated_from,
	       k.created_at, k.expires_at, k.last_used_at
	FROM api_key k LEFT JOIN app_user u ON u.id = k.created_by`

var scanKey = pgx.RowToStructByNameLax[api.APIKey]

func (db *AccessStore) APIKeys(
	ctx context.Context, ws waypost.WorkspaceID, owner, before int64, limit int,
) (all []api.APIKey, err error) {
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws), selectKey+`
		WHERE `+scoped.OfWorkspace("k.workspace_id", "$1")+` AND ($2 = 0 OR k.created_by = $2) AND ($3 = 0 OR k.id < $3) AND k.revoked_at IS NULL
		ORDER BY k.id DESC LIMIT $4`,
		[]any{ws, owner, before, limit}, scoped.CollectWith(&all, scanKey))
	return all, scoped.Classify("list API keys", err)
}

func (db *AccessStore) CreateAPIKey(
	ctx context.Context, by controlplane.Actor, n api.NewAPIKey, m controlplane.KeyMaterial, r *controlplane.KeyRequest,
) (controlplane.MadeKey, error) {
	return db.makeKey(ctx, by, "create-key", r, func(tx pgx.Tx) (api.APIKey, error) {
		if err := checkKeyCount(ctx, tx, by.Workspace, by.UserID); err != nil {
			return api.APIKey{}, err
		}
		k, err := insertKey(ctx, tx, by.Workspace, n, by.UserID, 0, m)
		if err != nil {
			return k, err
		}
		return k, auditBoth(ctx, tx, by, by.Workspace, "keys.create", subjectKey(k.ID), keyDetail(&k))
	})
}

// makeKey makes a key in a transaction that holds the workspace, once if the request has
// a name.
func (db *AccessStore) makeKey(ctx context.Context, by controlplane.Actor, route string, r *controlplane.KeyRequest,
	f func(tx pgx.Tx) (api.APIKey, error),
) (made controlplane.MadeKey, err error) {
	ws := by.Workspace
	err = db.pool.Within(ctx, scoped.TenantOf(ws), "make an API key", func(tx pgx.Tx) error {
		if err := lockWorkspace(ctx, tx, ws); err != nil {
			return err
		}
		if r != nil {
			if made.APIKey, made.Before, err = keyMadeBy(ctx, tx, ws, route, r); err != nil || made.Before {
				return err
			}
		}
		if made.APIKey, err = f(tx); err != nil || r == nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO idempotency (workspace_id, route, key, request, status, header, body) VALUES ($1, $2, $3, $4, 201, '{}', $5)`,
			ws, route, r.Key, r.Hash[:], packed(strconv.AppendInt(nil, made.ID, 10)))
		return err
	})
	return made, err
}

// keyMadeBy finds the key that a request has made before.
func keyMadeBy(
	ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, route string, r *controlplane.KeyRequest,
) (k api.APIKey, found bool, err error) {
	var hash, body []byte
	err = tx.QueryRow(ctx, `SELECT request, body FROM idempotency WHERE `+
		scoped.OfWorkspace("workspace_id", "$1")+` AND route = $2 AND key = $3`, ws, route, r.Key).
		Scan(&hash, &body)
	if errors.Is(err, pgx.ErrNoRows) {
		return k, false, nil
	}
	if err != nil {
		return k, false, err
	}
	if !bytes.Equal(hash, r.Hash[:]) {
		return k, false, waypost.Errorf(waypost.EKeyReused, "this Idempotency-Key was used for another request")
	}
	text, err := unpacked(body)
	if err != nil {
		return k, false, err
	}
	id, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return k, false, err
	}
	k, err = keyOf(ctx, tx, ws, id)
	return k, true, scoped.IfNoRow(err, noKey())
}

// checkKeyCount fails with EConflict if the workspace or the owner may have no further
// key.
func checkKeyCount(ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, owner int64) error {
	var all, own int
	err := tx.QueryRow(ctx, `
		SELECT count(*), count(*) FILTER (WHERE created_by = $2) FROM api_key
		WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`, ws,
		owner).Scan(&all, &own)
	switch {
	case err != nil:
		return err
	case all >= controlplane.MaxKeys:
		return waypost.Errorf(waypost.EConflict, "a workspace has at most %d API keys: revoke some first", controlplane.MaxKeys)
	case owner != 0 && own >= controlplane.MaxOwnKeys:
		return waypost.Errorf(waypost.EConflict, "a user has at most %d API keys in a workspace: revoke some first", controlplane.MaxOwnKeys)
	}
	return nil
}

func insertKey(
	ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, n api.NewAPIKey, owner, rotated int64, m controlplane.KeyMaterial,
) (api.APIKey, error) {
	var id int64
	err := tx.QueryRow(ctx, `
		INSERT INTO api_key (workspace_id, name, description, prefix, hash, scopes, created_by, rotated_from, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, nullif($7, 0), nullif($8, 0), $9) RETURNING id`,
		ws, n.Name, n.Description, m.Prefix, m.Hash[:], n.Scopes, owner, rotated, n.ExpiresAt).Scan(&id)
	if err != nil {
		return api.APIKey{}, err
	}
	return keyOf(ctx, tx, ws, id)
}

func keyOf(ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, id int64) (api.APIKey, error) {
	rows, _ := tx.Query(ctx, selectKey+` WHERE `+scoped.OfWorkspace("k.workspace_id", "$1")+` AND k.id = $2 AND k.revoked_at IS NULL`, ws, id)
	return pgx.CollectExactlyOneRow(rows, scanKey)
}

// liveKey returns the condition on a key that an actor may rotate and revoke: $1 is the
// workspace, $2 the id, $3 the owner or 0.
func liveKey() string {
	return scoped.OfWorkspace("workspace_id", "$1") + ` AND id = $2 AND ($3 = 0 OR created_by = $3) AND revoked_at IS NULL`
}

func (db *AccessStore) RotateAPIKey(
	ctx context.Context, by controlplane.Actor, owner, id int64, grace time.Duration, m controlplane.KeyMaterial, r *controlplane.KeyRequest,
) (controlplane.MadeKey, error) {
	ws := by.Workspace
	return db.makeKey(ctx, by, "rotate-key", r, func(tx pgx.Tx) (k api.APIKey, err error) {
		var n api.NewAPIKey
		var keeper int64
		err = tx.QueryRow(ctx, `
			SELECT name, description, scopes, coalesce(created_by, 0), CASE WHEN expires_at IS NOT NULL
				THEN least(now() + (expires_at - created_at), '9999-12-31 23:59:59+00') END FROM api_key
			WHERE `+liveKey()+` AND (expires_at IS NULL OR expires_at > now()) FOR UPDATE`, ws, id, owner).
			Scan(&n.Name, &n.Description, &n.Scopes, &keeper, &n.ExpiresAt)
		if err = scoped.IfNoRow(err, noKey()); err != nil {
			return k, err
		}
		for _, scope := range n.Scopes {
			if !by.Can(controlplane.Scope(scope)) {
				return k, waypost.Errorf(waypost.EForbidden, "the key has the scope %s, which you have not", scope)
			}
		}
		var rotated bool
		err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM api_key WHERE `+
			scoped.OfWorkspace("workspace_id", "$1")+` AND rotated_from = $2 AND revoked_at IS NULL)`, ws, id).Scan(&rotated)
		if err != nil {
			return k, err
		}
		if rotated {
			return k, waypost.Errorf(waypost.EConflict, "the key has been rotated already: rotate or revoke the one that took its place")
		}
		if grace > 0 { // both keys live
			if err := checkKeyCount(ctx, tx, ws, keeper); err != nil {
				return k, err
			}
		}
		if k, err = insertKey(ctx, tx, ws, n, keeper, id, m); err != nil {
			return k, err
		}
		if grace == 0 {
			_, err = tx.Exec(ctx, `UPDATE api_key SET revoked_at = now() WHERE `+liveKey(), ws, id, owner)
		} else {
			_, err = tx.Exec(ctx, `UPDATE api_key SET name = $5, expires_at = least(expires_at, now() + $4::interval)
				WHERE `+liveKey(), ws, id, owner, grace, replacedName(n.Name, k.ID))
		}
		if err != nil {
			return k, err
		}
		detail := keyDetail(&k)
		detail["new_key"], detail["grace_seconds"] = k.ID, int64(grace/time.Second)
		return k, auditBoth(ctx, tx, by, ws, "keys.rotate", subjectKey(id), detail)
	})
}

// replacedName returns the name of a key that is replaced by another, while both are
// valid.
func replacedName(name string, by int64) string {
	suffix := fmt.Sprintf(" (replaced by %d)", by)
	if r := []rune(name); len(r)+len(suffix) > controlplane.MaxName {
		name = strings.TrimRight(string(r[:controlplane.MaxName-len(suffix)-1]), " ") + "…"
	}
	return name + suffix
}

func (db *AccessStore) RevokeAPIKey(ctx context.Context, by controlplane.Actor, owner, id int64) error {
	return db.pool.Within(ctx, scoped.TenantOf(by.Workspace), "revoke an API key", func(tx pgx.Tx) error {
		var name string
		err := tx.QueryRow(ctx, `UPDATE api_key SET revoked_at = now() WHERE `+liveKey()+` RETURNING name`, by.Workspace, id, owner).Scan(&name)
		if err = scoped.IfNoRow(err, noKey()); err != nil {
			return err
		}
		return auditBoth(ctx, tx, by, by.Workspace, "keys.revoke", subjectKey(id), map[string]any{"name": name})
	})
}

// CreateKey makes a key without an owner in the workspace of a slug, for a caller with
// access to the database, and returns its text, which is shown once. It fails with
// ENotFound if there is no such workspace.
func (db *AccessStore) CreateKey(ctx context.Context, slug, name string, scopes []string) (string, error) {
	key := controlplane.NewKey()
	err := db.pool.Within(ctx, scoped.Operator, "make an API key", func(tx pgx.Tx) error {
		var ws waypost.WorkspaceID
		err := tx.QueryRow(ctx, `SELECT id FROM workspace WHERE slug = $1 AND deleted_at IS NULL FOR NO KEY UPDATE`, slug).Scan(&ws)
		if err = scoped.IfNoRow(err, waypost.Errorf(waypost.ENotFound, "there is no workspace %q", slug)); err != nil {
			return err
		}
		k, err := insertKey(ctx, tx, ws, api.NewAPIKey{Name: name, Scopes: scopes}, 0, 0, controlplane.MaterialOf(key))
		if err != nil {
			return err
		}
		by := controlplane.Actor{Workspace: ws, Name: commandLine}
		return auditBoth(ctx, tx, by, ws, "keys.create", subjectKey(k.ID), keyDetail(&k))
	})
	if err != nil {
		return "", err
	}
	return key, nil
}

func keyDetail(k *api.APIKey) map[string]any {
	detail := map[string]any{"name": k.Name, "scopes": k.Scopes}
	if k.ExpiresAt != nil {
		detail["expires_at"] = k.ExpiresAt
	}
	return detail
}

func subjectKey(id int64) string { return fmt.Sprintf("key %d", id) }

func noKey() error { return waypost.Errorf(waypost.ENotFound, "there is no such key") }
