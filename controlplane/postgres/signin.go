package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// linkHolds is the condition that a sign-in link l of the account u is valid: it has not
// expired, and has not ended as sessions do, because the account got another password or
// was disabled.
const linkHolds = `(l.expires_at > now() AND l.created_at >= u.valid_from)`

func (db *AccessStore) Linked(ctx context.Context, hash [32]byte) (controlplane.Account, bool, error) {
	a, found, err := db.account(ctx, `u.id = (SELECT l.user_id FROM sign_in_link l JOIN app_user u ON u.id = l.user_id WHERE l.hash = $1 AND `+
		linkHolds+`)`, hash[:])
	a.Password = ""
	return a, found, err
}

// SignInLink is a sign-in link that is made at the database itself.
type SignInLink struct {
	Email string // as controlplane.ParseEmail returns it
	Hash  [32]byte
	For   time.Duration // for which it is valid
}

// CreateSignInLink stores a sign-in link of an account. It fails with ENotFound if the
// address has no account that may sign in.
func (db *SignInStore) CreateSignInLink(ctx context.Context, n SignInLink) error {
	return db.access.pool.Within(ctx, scoped.Operator, "make a sign-in link", func(tx pgx.Tx) error {
		var user int64
		err := tx.QueryRow(ctx, `
			SELECT u.id FROM app_user u
			WHERE u.email = $1 AND u.disabled_at IS NULL AND u.deleted_at IS NULL
			  AND EXISTS (SELECT FROM membership m JOIN workspace w ON w.id = m.workspace_id AND w.deleted_at IS NULL WHERE m.user_id = u.id)
			FOR SHARE OF u`, n.Email).Scan(&user)
		if err = scoped.IfNoRow(err, waypost.Errorf(waypost.ENotFound, "no account with the address %s may sign in", n.Email)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO sign_in_link (hash, user_id, expires_at) VALUES ($1, $2, now() + $3::interval)`,
			n.Hash[:], user, n.For); err != nil {
			return err
		}
		return auditAccount(ctx, tx, controlplane.Actor{Name: commandLine}, user, "users.sign-in-link", nil)
	})
}

// keeper selects the workspace with the administrators of account u: its home, or the
// operators' workspace.
const keeper = `coalesce(u.home_id, 1)`

// EnsureDeveloper creates an account without a password that administers the default
// workspace, unless the address has an account.
func (db *SignInStore) EnsureDeveloper(ctx context.Context, email, name string) error {
	_, err := db.access.pool.ExecIn(ctx, scoped.Operator, `
		WITH u AS (
			INSERT INTO app_user (home_id, email, name) VALUES ($1, $2, $3) ON CONFLICT (email) WHERE deleted_at IS NULL DO NOTHING RETURNING id)
		INSERT INTO membership (workspace_id, user_id, role) SELECT $1, id, 'admin' FROM u`, waypost.DefaultWorkspace, email, name)
	return scoped.Classify("make the developer's account", err)
}
