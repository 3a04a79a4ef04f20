package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
)

// APIKey implements controlplane.APIKeyStore.
func (db *DB) APIKey(ctx context.Context, hash [32]byte) (controlplane.StoredKey, bool, error) {
	k := controlplane.StoredKey{Hash: hash}
	found := false
	err := db.queryIn(ctx, system, `
		SELECT k.id, k.workspace_id, w.slug, k.name, k.hash, k.scopes, k.expires_at, coalesce(k.created_by, 0), coalesce(m.role, '')
		FROM api_key k
		JOIN workspace w ON w.id = k.workspace_id AND w.deleted_at IS NULL
		LEFT JOIN (membership m JOIN app_user u ON u.id = m.user_id AND u.disabled_at IS NULL AND u.deleted_at IS NULL)
		       ON m.user_id = k.created_by AND m.workspace_id = k.workspace_id
		WHERE k.hash = $1 AND k.revoked_at IS NULL AND (k.created_by IS NULL OR m.role IS NOT NULL)`, []any{hash[:]}, func(rows pgx.Rows) error {
		for rows.Next() {
			var stored []byte
			var expires *time.Time
			if err := rows.Scan(&k.ID, &k.Workspace, &k.Slug, &k.Name, &stored, &k.Scopes, &expires, &k.Owner, &k.Role); err != nil {
				return err
			}
			copy(k.Hash[:], stored)
			k.ExpiresAt = told(expires)
			found = true
		}
		return rows.Err()
	})
	return k, found, classify("look up an API key", err)
}

// told is a time that may be NULL in UTC, zero for that.
func told(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
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

// affiliated are the accounts that may sign in, a row for each workspace of each.
const affiliated = `
	u.id, u.email, u.name, coalesce(u.password, ''), coalesce(w.id, 0), coalesce(w.slug, ''), coalesce(w.name, ''), coalesce(m.role, '')
	FROM app_user u
	LEFT JOIN (membership m JOIN workspace w ON w.id = m.workspace_id AND w.deleted_at IS NULL) ON m.user_id = u.id`

// scanAffiliated reads a row of affiliated, and what stands before it, into an account.
func scanAffiliated(rows pgx.Rows, a *controlplane.Account, before ...any) error {
	var in controlplane.Affiliation
	err := rows.Scan(append(before, &a.UserID, &a.Email, &a.Name, &a.Password, &in.Workspace, &in.Slug, &in.Name, &in.Role)...)
	if err == nil && in.Workspace != 0 {
		a.Affiliations = append(a.Affiliations, in)
	}
	return err
}

// Account implements controlplane.SessionStore.
func (db *DB) Account(ctx context.Context, email string) (controlplane.Account, bool, error) {
	return db.account(ctx, "u.email = $1", email)
}

// AccountOf implements controlplane.SessionStore.
func (db *DB) AccountOf(ctx context.Context, user int64) (controlplane.Account, bool, error) {
	return db.account(ctx, "u.id = $1", user)
}

func (db *DB) account(ctx context.Context, condition string, value any) (a controlplane.Account, found bool, err error) {
	err = db.queryIn(ctx, system, `SELECT `+affiliated+` WHERE `+condition+` AND u.disabled_at IS NULL AND u.deleted_at IS NULL ORDER BY w.slug`,
		[]any{value}, func(rows pgx.Rows) error {
			for rows.Next() {
				if err := scanAffiliated(rows, &a); err != nil {
					return err
				}
				found = true
			}
			return rows.Err()
		})
	return a, found, classify("look up an account", err)
}

// Session implements controlplane.SessionStore.
func (db *DB) Session(ctx context.Context, hash [32]byte) (controlplane.StoredSession, bool, error) {
	var s controlplane.StoredSession
	found := false
	err := db.queryIn(ctx, system, `
		SELECT s.id, s.hash, s.expires_at, `+affiliated+` JOIN user_session s ON s.user_id = u.id AND s.created_at >= u.valid_from
		WHERE s.hash = $1 AND u.disabled_at IS NULL AND u.deleted_at IS NULL ORDER BY w.slug`, []any{hash[:]}, func(rows pgx.Rows) error {
		for rows.Next() {
			var stored []byte
			if err := scanAffiliated(rows, &s.Account, &s.ID, &stored, &s.ExpiresAt); err != nil {
				return err
			}
			copy(s.Hash[:], stored)
			found = true
		}
		return rows.Err()
	})
	s.Account.Password = ""
	return s, found, classify("look up a session", err)
}

// Unclaimed reports whether nobody can be let in: there is neither an administrator
// nor a key that has not been revoked.
func (db *DB) Unclaimed(ctx context.Context) (unclaimed bool, err error) {
	err = db.queryIn(ctx, system, `
		SELECT NOT EXISTS (SELECT FROM membership WHERE role = 'admin') AND NOT EXISTS (SELECT FROM api_key WHERE revoked_at IS NULL)`,
		nil, func(rows pgx.Rows) error {
			unclaimed, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
			return err
		})
	return unclaimed, classify("look for administrators", err)
}
