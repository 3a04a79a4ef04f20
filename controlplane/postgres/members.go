package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

const selectMember = `
	SELECT u.id, u.email, u.name, m.role, u.disabled_at IS NOT NULL AS disabled, u.home_id IS DISTINCT FROM m.workspace_id AS shared,
		m.created_at, u.password IS NOT NULL AS has_password, u.invited_until
	FROM membership m JOIN app_user u ON u.id = m.user_id AND u.deleted_at IS NULL`

var scanMember = pgx.RowToStructByNameLax[api.Member]

func (db *AccessStore) Members(ctx context.Context, ws waypost.WorkspaceID, after int64, limit int) (all []api.Member, err error) {
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws), selectMember+` WHERE `+
		scoped.OfWorkspace("m.workspace_id", "$1")+` AND m.user_id > $2 ORDER BY m.user_id LIMIT $3`,
		[]any{ws, after, limit}, scoped.CollectWith(&all, scanMember))
	return all, scoped.Classify("list users", err)
}

func (db *AccessStore) Member(ctx context.Context, ws waypost.WorkspaceID, user int64) (m api.Member, err error) {
	err = db.pool.Within(ctx, scoped.TenantOf(ws), "find a user", func(tx pgx.Tx) error {
		m, err = member(ctx, tx, ws, user)
		return err
	})
	return m, err
}

func member(ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, user int64) (api.Member, error) {
	rows, _ := tx.Query(ctx, selectMember+` WHERE `+scoped.OfWorkspace("m.workspace_id", "$1")+` AND m.user_id = $2`, ws, user)
	m, err := pgx.CollectExactlyOneRow(rows, scanMember)
	return m, scoped.IfNoRow(err, waypost.Errorf(waypost.ENotFound, "there is no such user"))
}

func (db *AccessStore) AddMember(
	ctx context.Context, by controlplane.Actor, ws waypost.WorkspaceID, n controlplane.NewMember,
) (m api.Member, invited bool, err error) {
	err = db.pool.Within(ctx, scoped.TenantOf(ws), "add a user", func(tx pgx.Tx) error {
		if err := lockWorkspace(ctx, tx, ws); err != nil {
			return err
		}
		var have int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM membership WHERE `+scoped.OfWorkspace("workspace_id", "$1"), ws).Scan(&have); err != nil {
			return err
		}
		if have >= controlplane.MaxMembers {
			return waypost.Errorf(waypost.EConflict, "a workspace has at most %d users: remove some first", controlplane.MaxMembers)
		}
		var id int64
		if id, invited, err = accountFor(ctx, tx, ws, n); err != nil {
			return err
		}
		if err := scoped.ExecOr(ctx, tx, waypost.Errorf(waypost.EConflict, "the user is in the workspace already"),
			`INSERT INTO membership (workspace_id, user_id, role) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, ws, id, n.Role); err != nil {
			return err
		}
		if m, err = member(ctx, tx, ws, id); err != nil {
			return err
		}
		return auditBoth(ctx, tx, by, ws, "users.add", subjectUser(id), map[string]any{"email": m.Email, "role": m.Role, "invited": invited})
	})
	return m, invited, err
}

// accountFor makes an account, or finds the existing one and makes it one of several
// workspaces. Invited reports whether the invitation is for it.
func accountFor(ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, n controlplane.NewMember) (id int64, invited bool, err error) {
	if !n.Known {
		var hash []byte
		var until *time.Time
		if invited = n.Hash == ""; invited {
			hash, until = n.Invitation.Hash[:], &n.Invitation.Until
		}
		err = tx.QueryRow(ctx, `
			INSERT INTO app_user (home_id, email, name, password, invitation, invited_until) VALUES ($1, $2, $3, nullif($4, ''), $5, $6)
				RETURNING id`,
			ws, n.Email, n.Name, n.Hash, hash, until).Scan(&id)
		if scoped.PgCode(err) == scoped.UniqueViolation {
			return 0, false, waypost.Errorf(waypost.EConflict, "the address has an account already: an operator can add it to this workspace")
		}
		return id, invited, err
	}
	if err := scoped.Operator.Enter(ctx, tx); err != nil { // the account is one of other workspaces
		return 0, false, err
	}
	var home waypost.WorkspaceID
	err = tx.QueryRow(ctx, `SELECT id, coalesce(home_id, 0) FROM app_user WHERE email = $1
		AND deleted_at IS NULL FOR NO KEY UPDATE`, n.Email).Scan(&id, &home)
	if err = scoped.IfNoRow(err, waypost.Errorf(waypost.EConflict, "the account was deleted meanwhile")); err != nil {
		return 0, false, err
	}
	if home != ws && home != 0 {
		if _, err := tx.Exec(ctx, `UPDATE app_user SET home_id = NULL WHERE id = $1`, id); err != nil {
			return 0, false, err
		}
		// The workspace that made the account may know its password, have a session, and hold
		// its second factor.
		if invited = home != waypost.DefaultWorkspace; invited {
			if _, err := tx.Exec(ctx, `DELETE FROM second_factor WHERE user_id = $1`, id); err != nil {
				return 0, false, err
			}
			if err := invite(ctx, tx, id, n.Invitation); err != nil {
				return 0, false, err
			}
		}
	}
	return id, invited, scoped.TenantOf(ws).Enter(ctx, tx)
}

// lockWorkspace locks a workspace until the transaction ends, so that a condition over
// several of its rows stays true. It fails with ENotFound if the workspace is deleted.
// Other transactions can still create links.
func lockWorkspace(ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID) error {
	return scoped.ExecOr(ctx, tx, waypost.Errorf(waypost.ENotFound, "there is no such workspace"),
		`SELECT FROM workspace WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE`, ws)
}

// mayEnter selects an account u with a password, or with an invitation that can still set
// one.
const mayEnter = `(u.password IS NOT NULL OR u.invited_until IS NOT NULL AND u.invited_until > now())`

// checkAdministrators fails with EConflict if one of the workspaces is left without an
// administrator.
func checkAdministrators(ctx context.Context, tx pgx.Tx, ids []waypost.WorkspaceID) error {
	var left int
	err := tx.QueryRow(ctx, `
		SELECT count(DISTINCT m.workspace_id) FROM membership m JOIN app_user u ON u.id = m.user_id
		WHERE m.workspace_id = ANY ($1) AND m.role = 'admin' AND u.disabled_at IS NULL AND u.deleted_at IS NULL AND `+mayEnter, ids).Scan(&left)
	if err == nil && left != len(ids) {
		return waypost.Errorf(waypost.EConflict, "this is the last administrator of a workspace: make another one first")
	}
	return err
}

func (db *AccessStore) ChangeMember(
	ctx context.Context, by controlplane.Actor, ws waypost.WorkspaceID, user int64, c api.MemberChange, anyAccount bool,
) (m api.Member, err error) {
	err = db.pool.Within(ctx, scoped.TenantOf(ws), "change a user", func(tx pgx.Tx) error {
		var governed []waypost.WorkspaceID
		if m, governed, err = lockMember(ctx, tx, ws, user); err != nil {
			return err
		}
		detail := map[string]any{"email": m.Email}
		if c.Role != nil {
			if _, err := tx.Exec(ctx, `UPDATE membership SET role = $3 WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND user_id = $2`, ws,
				user, *c.Role); err != nil {
				return err
			}
			detail["role"] = *c.Role
		}
		if c.AccountChange != (api.AccountChange{}) {
			others, err := changeAccount(ctx, tx, &m, ws, c.AccountChange, anyAccount, detail)
			if err != nil {
				return err
			}
			governed = append(governed, others...)
		}
		if err := checkAdministrators(ctx, tx, governed); err != nil {
			return err
		}
		if m, err = member(ctx, tx, ws, user); err != nil {
			return err
		}
		return auditBoth(ctx, tx, by, ws, "users.change", subjectUser(user), detail)
	})
	return m, err
}

// lockMember reads a member as it stays until the transaction ends. It also returns the
// workspace if the member is an administrator of it who can sign in.
func lockMember(
	ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, user int64,
) (m api.Member, governed []waypost.WorkspaceID, err error) {
	if err := lockWorkspace(ctx, tx, ws); err != nil {
		return m, nil, err
	}
	if m, err = member(ctx, tx, ws, user); err != nil || m.Role != string(controlplane.RoleAdmin) || m.Disabled {
		return m, nil, err
	}
	var enters bool
	if err := tx.QueryRow(ctx, `SELECT `+mayEnter+` FROM app_user u WHERE id = $1`, user).Scan(&enters); err != nil || !enters {
		return m, nil, err
	}
	return m, []waypost.WorkspaceID{ws}, nil
}

// changeAccount changes the fields that a member has in common in all workspaces, and
// returns the workspaces, besides ws, that could lose an administrator.
func changeAccount(ctx context.Context, tx pgx.Tx, m *api.Member, ws waypost.WorkspaceID, c api.AccountChange,
	anyAccount bool, detail map[string]any,
) (governed []waypost.WorkspaceID, err error) {
	if err := lookAfter(ctx, tx, m, anyAccount); err != nil {
		return nil, err
	}
	if m.Shared && c.Disabled != nil {
		if governed, err = lockGoverned(ctx, tx, m.ID, ws); err != nil {
			return nil, err
		}
	}
	return governed, updateAccount(ctx, tx, m.ID, c, detail)
}

// lookAfter fails with EForbidden if the actor may not change a member's account.
// Otherwise it enters the scope that the change needs.
func lookAfter(ctx context.Context, tx pgx.Tx, m *api.Member, anyAccount bool) error {
	switch {
	case !m.Shared:
		return nil
	case !anyAccount:
		return waypost.Errorf(waypost.EForbidden, "the user is in other workspaces, too, or was: operators look after the account")
	}
	return scoped.Operator.Enter(ctx, tx)
}

func (db *AccessStore) RemoveMember(ctx context.Context, by controlplane.Actor, ws waypost.WorkspaceID, user int64) error {
	return db.pool.Within(ctx, scoped.TenantOf(ws), "remove a user", func(tx pgx.Tx) error {
		m, governed, err := lockMember(ctx, tx, ws, user)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE api_key SET revoked_at = now() WHERE `+
			scoped.OfWorkspace("workspace_id", "$1")+` AND created_by = $2 AND revoked_at IS NULL`, ws, user); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			UPDATE app_user SET deleted_at = now(), password = NULL, invitation = NULL, invited_until = NULL, valid_from = clock_timestamp()
			WHERE id = $2 AND home_id = $1`, ws, user); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM membership WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND user_id = $2`, ws, user); err != nil {
			return err
		}
		if err := checkAdministrators(ctx, tx, governed); err != nil {
			return err
		}
		return auditBoth(ctx, tx, by, ws, "users.remove", subjectUser(user), map[string]any{"email": m.Email})
	})
}

func subjectUser(id int64) string { return fmt.Sprintf("user %d", id) }

// NewAdministrator is an administrator that is made at the database itself.
type NewAdministrator struct {
	Workspace string // slug
	Email     string // as controlplane.ParseEmail returns it
	Name      string
	Hash      string // of the password, by controlplane.HashPassword
	Another   bool   // also when the workspace has an administrator
}

// CreateAdministrator makes a user an administrator of a workspace. An account that the
// address has gets the password, is enabled, and its sessions end. EConflict when there
// is an administrator, unless another is wanted; ENotFound for the workspace.
func (db *AccessStore) CreateAdministrator(ctx context.Context, n NewAdministrator) (id int64, err error) {
	err = db.pool.Within(ctx, scoped.Operator, "make an administrator", func(tx pgx.Tx) error {
		var ws waypost.WorkspaceID
		err := tx.QueryRow(ctx, `SELECT id FROM workspace WHERE slug = $1 AND deleted_at IS NULL FOR NO KEY UPDATE`, n.Workspace).Scan(&ws)
		if err = scoped.IfNoRow(err, waypost.Errorf(waypost.ENotFound, "there is no workspace %q", n.Workspace)); err != nil {
			return err
		}
		if !n.Another {
			if missing := checkAdministrators(ctx, tx, []waypost.WorkspaceID{ws}); missing == nil {
				return waypost.Errorf(waypost.EConflict, "the workspace %q has an administrator already", n.Workspace)
			} else if waypost.CodeOf(missing) != waypost.EConflict {
				return missing
			}
		}
		err = tx.QueryRow(ctx, `
			UPDATE app_user SET password = $2, invitation = NULL, invited_until = NULL, disabled_at = NULL, valid_from = clock_timestamp(),
				home_id = CASE WHEN home_id = $3 THEN home_id END
			WHERE email = $1 AND deleted_at IS NULL RETURNING id`, n.Email, n.Hash, ws).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			err = tx.QueryRow(ctx, `INSERT INTO app_user (home_id, email, name, password) VALUES ($1, $2, $3, $4)
				RETURNING id`, ws, n.Email, n.Name, n.Hash).Scan(&id)
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO membership (workspace_id, user_id, role) VALUES ($1, $2, 'admin')
			ON CONFLICT (workspace_id, user_id) DO UPDATE SET role = 'admin'`, ws, id); err != nil {
			return err
		}
		by := controlplane.Actor{Workspace: ws, Name: commandLine}
		return auditBoth(ctx, tx, by, ws, "users.admin", subjectUser(id), map[string]any{"email": n.Email})
	})
	return id, err
}

// commandLine names in the audit log who is at the database itself.
const commandLine = "command line"
