package postgres

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

func (db *AccessStore) APIKey(ctx context.Context, hash [32]byte) (controlplane.StoredKey, bool, error) {
	k := controlplane.StoredKey{Hash: hash}
	found := false
	err := db.pool.QueryIn(ctx, scoped.Operator, `
		SELECT k.id, k.workspace_id, w.slug, k.name, k.hash, k.scopes, k.expires_at, coalesce(k.created_by, 0), coalesce(m.role, '')
		FROM api_key k
		JOIN workspace w ON w.id = k.workspace_id AND w.deleted_at IS NULL
		LEFT JOIN (membership m JOIN app_user u ON u.id = m.user_id AND u.disabled_at IS NULL AND u.deleted_at IS NULL)
		       ON m.user_id = k.created_by AND m.workspace_id = k.workspace_id
		WHERE k.hash = $1 AND k.revoked_at IS NULL AND (k.created_by IS NULL OR m.role IS NOT NULL)`,
		[]any{hash[:]}, scoped.Each(func(rows pgx.Rows) error {
			var stored []byte
			var expires *time.Time
			err := rows.Scan(&k.ID, &k.Workspace, &k.Slug, &k.Name, &stored, &k.Scopes, &expires, &k.Owner, &k.Role)
			copy(k.Hash[:], stored)
			k.ExpiresAt, found = scoped.UTC(expires), true
			return err
		}))
	return k, found, scoped.Classify("look up an API key", err)
}

// EnsureKey registers a key in a workspace; a key that is there already is left
// as it is. Only its hash is stored.
func (db *AccessStore) EnsureKey(ctx context.Context, ws waypost.WorkspaceID, name, key string, scopes []controlplane.Scope) error {
	hash := controlplane.HashKey(key)
	_, err := db.pool.ExecIn(ctx, scoped.TenantOf(ws), `
		INSERT INTO api_key (workspace_id, name, prefix, hash, scopes) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (hash) DO NOTHING`,
		ws, name, key[:controlplane.KeyDisplay], hash[:], scopes)
	return scoped.Classify("register an API key", err)
}

// affiliated are the accounts that may sign in, a row for each workspace of each.
const affiliated = `
	u.id, u.email, u.name, coalesce(u.password, ''), coalesce(w.id, 0), coalesce(w.slug, ''), coalesce(w.name, ''), coalesce(m.role, '')
	FROM app_user u
	LEFT JOIN (membership m JOIN workspace w ON w.id = m.workspace_id AND w.deleted_at IS NULL) ON m.user_id = u.id`

// scanAffiliated reads a row of affiliated into an account, and the columns that stand
// before it into before.
func scanAffiliated(rows pgx.Rows, a *controlplane.Account, before ...any) error {
	var in controlplane.Affiliation
	err := rows.Scan(append(before, &a.UserID, &a.Email, &a.Name, &a.Password, &in.Workspace, &in.Slug, &in.Name, &in.Role)...)
	if err == nil && in.Workspace != 0 {
		a.Affiliations = append(a.Affiliations, in)
	}
	return err
}

func (db *AccessStore) Account(ctx context.Context, email string) (controlplane.Account, bool, error) {
	return db.account(ctx, "u.email = $1", email)
}

func (db *AccessStore) AccountOf(ctx context.Context, user int64) (controlplane.Account, bool, error) {
	return db.account(ctx, "u.id = $1", user)
}

func (db *AccessStore) account(ctx context.Context, condition string, value any) (a controlplane.Account, found bool, err error) {
	err = db.pool.QueryIn(ctx, scoped.Operator, `SELECT `+affiliated+` WHERE `+condition+` AND u.disabled_at IS NULL AND u.deleted_at IS NULL ORDER BY w.slug`,
		[]any{value}, scoped.Each(func(rows pgx.Rows) error {
			found = true
			return scanAffiliated(rows, &a)
		}))
	return a, found, scoped.Classify("look up an account", err)
}

func (db *AccessStore) Session(ctx context.Context, hash [32]byte) (controlplane.StoredSession, bool, error) {
	var s controlplane.StoredSession
	found := false
	err := db.pool.QueryIn(ctx, scoped.Operator, `
		SELECT s.id, s.hash, s.expires_at, `+affiliated+` JOIN user_session s ON s.user_id = u.id AND s.created_at >= u.valid_from
		WHERE s.hash = $1 AND u.disabled_at IS NULL AND u.deleted_at IS NULL ORDER BY w.slug`,
		[]any{hash[:]}, scoped.Each(func(rows pgx.Rows) error {
			found = true
			var stored []byte
			err := scanAffiliated(rows, &s.Account, &s.ID, &stored, &s.ExpiresAt)
			copy(s.Hash[:], stored)
			return err
		}))
	s.Account.Password = ""
	return s, found, scoped.Classify("look up a session", err)
}

// Unclaimed reports whether the installation has neither an administrator nor a valid API
// key, so that no caller can sign in.
func (db *AccessStore) Unclaimed(ctx context.Context) (unclaimed bool, err error) {
	err = db.pool.QueryRowIn(ctx, scoped.Operator, `
		SELECT NOT EXISTS (SELECT FROM membership WHERE role = 'admin') AND NOT EXISTS (SELECT FROM api_key WHERE revoked_at IS NULL)`,
		nil, &unclaimed)
	return unclaimed, scoped.Classify("look for administrators", err)
}

// StartSession implements controlplane.SessionStore.
// A change of the password waits for the session, and ends it, or the session waits for
// the change, and does not begin.
func (db *AccessStore) StartSession(ctx context.Context, n controlplane.NewSession) error {
	var address *netip.Addr
	if n.Browser.Address.IsValid() {
		address = &n.Browser.Address
	}
	user := n.Account.UserID
	return db.pool.Within(ctx, scoped.Operator, "start a session", func(tx pgx.Tx) error {
		refused := controlplane.ErrSignIn
		if n.Link != nil {
			refused = controlplane.ErrLink
		}
		var seen bool // here before
		if err := tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM user_session WHERE user_id = $1 AND user_agent = $2 AND address IS NOT DISTINCT FROM $3)`,
			user, n.Browser.UserAgent, address).Scan(&seen); err != nil {
			return err
		}
		err := scoped.ExecOr(ctx, tx, refused, `
			WITH u AS (
				SELECT u.id FROM app_user u LEFT JOIN sign_in_link l ON l.user_id = u.id AND l.hash = $7
				WHERE u.id = $1 AND CASE WHEN $7::bytea IS NULL THEN u.password = $4 ELSE `+linkHolds+` END
				  AND u.disabled_at IS NULL AND u.deleted_at IS NULL FOR SHARE OF u)
			INSERT INTO user_session (user_id, hash, expires_at, address, user_agent) SELECT id, $2, $3, $5, $6 FROM u`,
			user, n.Hash[:], n.ExpiresAt, n.Account.Password, address, n.Browser.UserAgent, hashOrNull(n.Link))
		if err == nil && n.Link != nil { // only one of several at once deletes the row
			err = scoped.ExecOr(ctx, tx, refused, `DELETE FROM sign_in_link WHERE hash = $1`, n.Link[:])
		}
		if err != nil {
			return err
		}
		if n.Proof != (controlplane.FactorProof{}) {
			if err := spend(ctx, tx, user, n.Proof); err != nil {
				return err
			}
		}
		err = scoped.Exec(ctx, tx, `
			DELETE FROM user_session WHERE user_id = $1 AND id NOT IN (SELECT id FROM user_session WHERE user_id = $1 ORDER BY id DESC LIMIT $2)`,
			user, controlplane.MaxSessions)
		if err != nil || seen && n.Link == nil {
			return err
		}
		by := "password"
		if n.Link != nil {
			by = "link"
		}
		detail := map[string]any{"by": by, "address": textOf(n.Browser.Address), "program": n.Browser.UserAgent}
		return auditAccount(ctx, tx, controlplane.Actor{}, user, "users.sign-in", detail)
	})
}

// textOf returns an address; "" for an invalid one.
func textOf(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func (db *AccessStore) NoteFailures(ctx context.Context, all []controlplane.FailedSignIns) error {
	return db.pool.Within(ctx, scoped.Operator, "note failed sign-ins", func(tx pgx.Tx) error {
		for _, f := range all {
			detail := map[string]any{"wrong_passwords": f.Passwords, "wrong_codes": f.Codes, "last_address": textOf(f.Address)}
			if err := auditAccount(ctx, tx, controlplane.Actor{Name: "unknown"}, f.UserID, "users.sign-in-failed", detail); err != nil {
				return err
			}
		}
		return nil
	})
}

func hashOrNull(h *[32]byte) []byte {
	if h == nil {
		return nil
	}
	return h[:]
}

func (db *AccessStore) EndSession(ctx context.Context, user, id int64) (ended bool, err error) {
	n, err := db.pool.ExecIn(ctx, scoped.Operator, `DELETE FROM user_session WHERE user_id = $1 AND id = $2`, user, id)
	return n > 0, scoped.Classify("end a session", err)
}

func (db *AccessStore) EndOtherSessions(ctx context.Context, user, except int64) error {
	_, err := db.pool.ExecIn(ctx, scoped.Operator, `DELETE FROM user_session WHERE user_id = $1 AND id <> $2`, user, except)
	return scoped.Classify("end sessions", err)
}

func (db *AccessStore) Sessions(ctx context.Context, user int64, now time.Time) (all []api.SessionInfo, err error) {
	err = db.pool.QueryIn(ctx, scoped.Operator, `
		SELECT s.id, coalesce(host(s.address), '') AS address, s.user_agent, s.created_at, s.used_at AS last_used_at, s.expires_at
		FROM user_session s JOIN app_user u ON u.id = s.user_id AND s.created_at >= u.valid_from
		WHERE s.user_id = $1 AND s.expires_at > $2 ORDER BY s.id DESC LIMIT $3`, []any{user, now, controlplane.MaxSessions},
		scoped.CollectWith(&all, pgx.RowToStructByNameLax[api.SessionInfo]))
	return all, scoped.Classify("list sessions", err)
}

// NoteUses implements controlplane.SessionStore. It skips rows that another instance is
// writing at this moment.
func (db *AccessStore) NoteUses(ctx context.Context, u controlplane.Uses) error {
	return db.pool.Within(ctx, scoped.Operator, "note uses", func(tx pgx.Tx) error {
		if ids, at := timesOf(u.Keys); len(ids) > 0 {
			_, err := tx.Exec(ctx, `
				WITH due AS (
					SELECT k.id, n.at FROM unnest($1::bigint[], $2::timestamptz[]) AS n (id, at) JOIN api_key k ON k.id = n.id
					WHERE k.last_used_at IS NULL OR k.last_used_at <= n.at - interval '1 minute'
					FOR NO KEY UPDATE OF k SKIP LOCKED)
				UPDATE api_key k SET last_used_at = due.at FROM due WHERE k.id = due.id`, ids, at)
			if err != nil {
				return err
			}
		}
		if ids, at := timesOf(u.Sessions); len(ids) > 0 {
			_, err := tx.Exec(ctx, `
				WITH due AS (
					SELECT s.id, n.at, least(n.at + $3::interval, s.created_at + $4::interval) AS until
					FROM unnest($1::bigint[], $2::timestamptz[]) AS n (id, at) JOIN user_session s ON s.id = n.id
					WHERE s.expires_at > now() AND s.used_at <= n.at - interval '1 minute'
					FOR NO KEY UPDATE OF s SKIP LOCKED)
				UPDATE user_session s SET expires_at = greatest(s.expires_at, due.until), used_at = due.at FROM due WHERE s.id = due.id`,
				ids, at, controlplane.SessionIdle, controlplane.SessionMost)
			if err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `
			DELETE FROM user_session WHERE id IN (
				SELECT id FROM user_session WHERE expires_at < now() - $1::interval
				ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED)`, keptSessions)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM sign_in_link WHERE hash IN (
			SELECT hash FROM sign_in_link WHERE expires_at < now() ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED)`)
		return err
	})
}

func timesOf(used map[int64]time.Time) (ids []int64, at []time.Time) {
	ids = slices.Sorted(maps.Keys(used))
	for _, id := range ids {
		at = append(at, used[id])
	}
	return ids, at
}

// ChangeSelf implements controlplane.SessionStore. The audit log has the change of a
// password alone.
func (db *AccessStore) ChangeSelf(ctx context.Context, by controlplane.Actor, name, password *string, was string) error {
	return db.pool.Within(ctx, scoped.Operator, "change an account", func(tx pgx.Tx) error {
		var none error
		if password != nil { // taken away, or changed, while the new one was hashed
			none = controlplane.ErrPassword
		}
		err := scoped.ExecOr(ctx, tx, none, `
			UPDATE app_user SET name = coalesce($2, name), password = coalesce($3, password)
			WHERE id = $1 AND deleted_at IS NULL AND ($3::text IS NULL OR password = $4)`,
			by.UserID, name, password, was)
		if err != nil || password == nil {
			return err
		}
		if _, err = tx.Exec(ctx, `DELETE FROM user_session WHERE user_id = $1 AND id <> $2`, by.UserID, by.SessionID); err != nil {
			return err
		}
		if _, err = tx.Exec(ctx, `DELETE FROM sign_in_link WHERE user_id = $1`, by.UserID); err != nil {
			return err
		}
		return auditAccount(ctx, tx, by, by.UserID, "users.password", nil)
	})
}
