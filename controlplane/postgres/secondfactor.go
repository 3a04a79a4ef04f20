package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// SignInStore keeps second factors and sign-in links. It implements
// controlplane.FactorStore.
type SignInStore struct{ access *AccessStore }

func (db *SignInStore) SecondFactor(ctx context.Context, user int64) (f controlplane.StoredFactor, found bool, err error) {
	err = db.access.pool.QueryIn(ctx, scoped.Operator,
		`SELECT secret, confirmed_at IS NOT NULL, last_step, cardinality(recovery_codes), true FROM second_factor WHERE user_id = $1`,
		[]any{user}, scoped.RowInto(&f.Secret, &f.On, &f.LastStep, &f.RecoveryCodes, &found))
	return f, found, scoped.Classify("look up a second factor", err)
}

func (db *SignInStore) ProposeFactor(ctx context.Context, user int64, secret []byte) error {
	return db.access.pool.Within(ctx, scoped.Operator, "propose a second factor", func(tx pgx.Tx) error {
		return scoped.ExecOr(ctx, tx, waypost.Errorf(waypost.EConflict, "the second factor is on: turn it off first"), `
			INSERT INTO second_factor (user_id, secret) VALUES ($1, $2)
			ON CONFLICT (user_id) DO UPDATE SET secret = $2, created_at = now() WHERE second_factor.confirmed_at IS NULL`, user, secret)
	})
}

func (db *SignInStore) ConfirmFactor(
	ctx context.Context, by controlplane.Actor, secret []byte, p controlplane.FactorProof, recovery [][]byte,
) error {
	return db.access.pool.Within(ctx, scoped.Operator, "turn a second factor on", func(tx pgx.Tx) error {
		if err := scoped.ExecOr(ctx, tx, waypost.Errorf(waypost.EConflict, "the second factor was changed meanwhile"), `
			UPDATE second_factor SET confirmed_at = now(), last_step = $3, recovery_codes = $4
			WHERE user_id = $1 AND secret = $2 AND confirmed_at IS NULL`, by.UserID, secret, p.Step, recovery); err != nil {
			return err
		}
		return auditAccount(ctx, tx, by, by.UserID, "users.second-factor-on", nil)
	})
}

func (db *SignInStore) EndFactor(ctx context.Context, by controlplane.Actor, p controlplane.FactorProof) error {
	return db.access.pool.Within(ctx, scoped.Operator, "turn a second factor off", func(tx pgx.Tx) error {
		if err := spend(ctx, tx, by.UserID, p); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM second_factor WHERE user_id = $1`, by.UserID); err != nil {
			return err
		}
		return auditAccount(ctx, tx, by, by.UserID, "users.second-factor-off", nil)
	})
}

func (db *SignInStore) RenewRecoveryCodes(ctx context.Context, by controlplane.Actor, p controlplane.FactorProof, recovery [][]byte) error {
	return db.access.pool.Within(ctx, scoped.Operator, "renew recovery codes", func(tx pgx.Tx) error {
		if err := spend(ctx, tx, by.UserID, p); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE second_factor SET recovery_codes = $2 WHERE user_id = $1`, by.UserID, recovery); err != nil {
			return err
		}
		return auditAccount(ctx, tx, by, by.UserID, "users.recovery-codes", nil)
	})
}

func (db *SignInStore) ResetFactor(ctx context.Context, by controlplane.Actor, user int64) (api.Account, error) {
	return db.access.changeAny(ctx, by, user, "users.second-factor-reset", func(tx pgx.Tx, _ map[string]any) error {
		return scoped.ExecOr(ctx, tx, waypost.Errorf(waypost.ENotFound, "the user has no second factor"),
			`DELETE FROM second_factor WHERE user_id = $1`, user)
	})
}

// spend uses up a code of a second factor. It fails with ErrCode if the code was used or
// is wrong. The row's lock lets only one of several concurrent calls succeed.
func spend(ctx context.Context, tx pgx.Tx, user int64, p controlplane.FactorProof) error {
	if p.Recovery == nil {
		return scoped.ExecOr(ctx, tx, controlplane.ErrCode,
			`UPDATE second_factor SET last_step = $2 WHERE user_id = $1 AND confirmed_at IS NOT NULL AND last_step < $2`, user, p.Step)
	}
	var left int
	err := tx.QueryRow(ctx, `
		UPDATE second_factor SET recovery_codes = array_remove(recovery_codes, $2)
		WHERE user_id = $1 AND confirmed_at IS NOT NULL AND $2 = ANY (recovery_codes) RETURNING cardinality(recovery_codes)`,
		user, p.Recovery[:]).Scan(&left)
	if err = scoped.IfNoRow(err, controlplane.ErrCode); err != nil {
		return err
	}
	return auditAccount(ctx, tx, controlplane.Actor{}, user, "users.recovery-code", map[string]any{"left": left})
}
