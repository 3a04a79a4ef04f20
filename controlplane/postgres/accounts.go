package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// AccessStore keeps workspaces, accounts and their members, sessions, API keys, and the
// audit log. It implements controlplane.APIKeyStore, controlplane.AccountStore,
// controlplane.AuditStore, controlplane.MemberStore, controlplane.SessionStore and
// controlplane.WorkspaceStore.
type AccessStore struct {
	pool        *pool
	eventSample int // of workspaces that do not set their own
}

func (db *AccessStore) Accounts(ctx context.Context, email string, after int64, limit int) (all []api.Account, err error) {
	err = db.pool.Within(ctx, scoped.Operator, "list accounts", func(tx pgx.Tx) error {
		all, err = accounts(ctx, tx, `u.deleted_at IS NULL AND ($1 = '' OR u.email = $1) AND u.id > $2
			ORDER BY u.id LIMIT $3`, email, after, limit)
		return err
	})
	return all, err
}

// accounts reads the accounts that match a condition on u, a row of app_user. The
// transaction has the scope operator.
func accounts(ctx context.Context, tx pgx.Tx, which string, args ...any) ([]api.Account, error) {
	rows, _ := tx.Query(ctx, `
		SELECT u.id, u.email, u.name, coalesce(h.slug, '') AS home, u.disabled_at IS NOT NULL AS disabled, u.password IS NOT NULL AS has_password,
		       EXISTS (SELECT FROM second_factor f WHERE f.user_id = u.id AND f.confirmed_at IS NOT NULL) AS second_factor,
		       u.invited_until, u.created_at, i.workspaces
		FROM app_user u LEFT JOIN workspace h ON h.id = u.home_id
		LEFT JOIN LATERAL (
			SELECT coalesce(json_agg(json_build_object('slug', w.slug, 'name', w.name, 'role', m.role) ORDER BY w.slug), '[]') AS workspaces
			FROM membership m JOIN workspace w ON w.id = m.workspace_id AND w.deleted_at IS NULL WHERE m.user_id = u.id) i ON true
		WHERE `+which, args...)
	return pgx.CollectRows(rows, pgx.RowToStructByNameLax[api.Account])
}

func oneAccount(ctx context.Context, tx pgx.Tx, user int64) (api.Account, error) {
	found, err := accounts(ctx, tx, `u.id = $1 AND u.deleted_at IS NULL`, user)
	if err != nil {
		return api.Account{}, err
	}
	if len(found) == 0 {
		return api.Account{}, waypost.Errorf(waypost.ENotFound, "there is no such user")
	}
	return found[0], nil
}

// changeAny calls f with an account and returns the changed account. It locks the
// workspaces that the account administers; each must have an administrator at the end.
func (db *AccessStore) changeAny(
	ctx context.Context, by controlplane.Actor, user int64, action string, f func(tx pgx.Tx, detail map[string]any) error,
) (a api.Account, err error) {
	err = db.pool.Within(ctx, scoped.Operator, "change an account", func(tx pgx.Tx) error {
		governed, err := lockGoverned(ctx, tx, user, 0)
		if err != nil {
			return err
		}
		if a, err = oneAccount(ctx, tx, user); err != nil {
			return err
		}
		detail := map[string]any{"email": a.Email}
		if err := f(tx, detail); err != nil {
			return err
		}
		if err := checkAdministrators(ctx, tx, governed); err != nil {
			return err
		}
		if a, err = oneAccount(ctx, tx, user); err != nil {
			return err
		}
		return auditBoth(ctx, tx, by, by.Workspace, action, subjectUser(user), detail)
	})
	return a, err
}

func (db *AccessStore) ChangeAccount(
	ctx context.Context, by controlplane.Actor, user int64, c api.AccountChange,
) (api.Account, error) {
	return db.changeAny(ctx, by, user, "users.change", func(tx pgx.Tx, detail map[string]any) error {
		return updateAccount(ctx, tx, user, c, detail)
	})
}

// updateAccount changes an account and notes the changes in detail.
func updateAccount(ctx context.Context, tx pgx.Tx, user int64, c api.AccountChange, detail map[string]any) error {
	if c.Name != nil {
		detail["name"] = *c.Name
	}
	if c.Disabled != nil {
		detail["disabled"] = *c.Disabled
	}
	if c.Password != nil {
		detail["password"] = "changed"
	}
	_, err := tx.Exec(ctx, `
		UPDATE app_user SET
			name          = coalesce($2, name),
			password      = coalesce($3, password),
			invitation    = CASE WHEN $3 IS NULL THEN invitation END,
			invited_until = CASE WHEN $3 IS NULL THEN invited_until END,
			disabled_at   = CASE WHEN $4::boolean IS NULL THEN disabled_at WHEN $4 THEN coalesce(disabled_at, now()) END,
			valid_from    = CASE WHEN $3 IS NOT NULL OR $4 THEN clock_timestamp() ELSE valid_from END
		WHERE id = $1 AND deleted_at IS NULL`, user, c.Name, c.Password, c.Disabled)
	return err
}

// lockGoverned locks and returns all workspaces, except one, that a user administers, if
// the user can sign in. Only operators call it, and they hold their own workspace or
// none, so two calls never wait for each other.
func lockGoverned(ctx context.Context, tx pgx.Tx, user int64, but waypost.WorkspaceID) ([]waypost.WorkspaceID, error) {
	rows, _ := tx.Query(ctx, `
		SELECT w.id FROM membership m JOIN app_user u ON u.id = m.user_id JOIN workspace w ON w.id = m.workspace_id
		WHERE m.user_id = $1 AND w.id <> $2 AND m.role = 'admin' AND u.disabled_at IS NULL AND w.deleted_at IS NULL AND `+mayEnter+`
		ORDER BY w.id FOR NO KEY UPDATE OF w`, user, but)
	return pgx.CollectRows(rows, pgx.RowTo[waypost.WorkspaceID])
}

// invite takes the password of an account away, ends its sessions, and puts an invitation
// in its place.
func invite(ctx context.Context, tx pgx.Tx, user int64, i controlplane.StoredInvitation) error {
	_, err := tx.Exec(ctx, `
		UPDATE app_user SET password = NULL, invitation = $2, invited_until = $3, valid_from = clock_timestamp() WHERE id = $1
			AND deleted_at IS NULL`,
		user, i.Hash[:], i.Until)
	return err
}

func (db *AccessStore) InviteAccount(
	ctx context.Context, by controlplane.Actor, user int64, i controlplane.StoredInvitation,
) (api.Account, error) {
	return db.changeAny(ctx, by, user, "users.invite", func(tx pgx.Tx, _ map[string]any) error { return invite(ctx, tx, user, i) })
}

func (db *AccessStore) InviteMember(
	ctx context.Context, by controlplane.Actor, ws waypost.WorkspaceID, user int64, i controlplane.StoredInvitation, anyAccount bool,
) (m api.Member, err error) {
	err = db.pool.Within(ctx, scoped.TenantOf(ws), "invite a user", func(tx pgx.Tx) error {
		if m, _, err = lockMember(ctx, tx, ws, user); err != nil {
			return err
		}
		if err := lookAfter(ctx, tx, &m, anyAccount); err != nil {
			return err
		}
		if err := invite(ctx, tx, user, i); err != nil {
			return err
		}
		if m, err = member(ctx, tx, ws, user); err != nil {
			return err
		}
		return auditBoth(ctx, tx, by, ws, "users.invite", subjectUser(user), map[string]any{"email": m.Email})
	})
	return m, err
}

// invited selects the account with a valid invitation; $1 is the invitation's hash.
const invited = `invitation = $1 AND invited_until > now() AND disabled_at IS NULL AND deleted_at IS NULL`

func (db *AccessStore) Invited(ctx context.Context, hash [32]byte) (a controlplane.Account, found bool, err error) {
	err = db.pool.QueryIn(ctx, scoped.Operator, `SELECT id, email, name, true FROM app_user WHERE `+invited, []any{hash[:]},
		scoped.RowInto(&a.UserID, &a.Email, &a.Name, &found))
	return a, found, scoped.Classify("look up an invitation", err)
}

func (db *AccessStore) AcceptInvitation(ctx context.Context, hash [32]byte, password string) (accepted bool, err error) {
	err = db.pool.Within(ctx, scoped.Operator, "accept an invitation", func(tx pgx.Tx) error {
		var user int64
		err := tx.QueryRow(ctx, `
			UPDATE app_user SET password = $2, invitation = NULL, invited_until = NULL, valid_from = clock_timestamp()
			WHERE `+invited+` RETURNING id`, hash[:], password).Scan(&user)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		accepted = true
		return auditAccount(ctx, tx, controlplane.Actor{}, user, "users.accept", nil)
	})
	return accepted && err == nil, err
}
