package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
)

// within does f in one transaction of a scope.
func (db *DB) within(ctx context.Context, s scope, doing string, f func(tx pgx.Tx) error) error {
	return classify(doing, pgx.BeginTxFunc(ctx, db.pool, s.begin(), f))
}

// StartSession implements controlplane.SessionStore.
// A change of the password waits for the session, and ends it, or the session waits for
// the change, and does not begin.
func (db *DB) StartSession(ctx context.Context, account controlplane.Account, hash [32]byte, until time.Time) error {
	return db.within(ctx, system, "start a session", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			WITH u AS (SELECT id FROM app_user WHERE id = $1 AND password = $4 AND disabled_at IS NULL AND deleted_at IS NULL FOR SHARE)
			INSERT INTO user_session (user_id, hash, expires_at) SELECT id, $2, $3 FROM u`, account.UserID, hash[:], until, account.Password)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return waypost.Errorf(waypost.EUnauthorized, "the address or the password is wrong")
		}
		_, err = tx.Exec(ctx, `
			DELETE FROM user_session WHERE user_id = $1 AND id NOT IN (SELECT id FROM user_session WHERE user_id = $1 ORDER BY id DESC LIMIT $2)`,
			account.UserID, controlplane.MaxSessions)
		return err
	})
}

// EndSession implements controlplane.SessionStore.
func (db *DB) EndSession(ctx context.Context, id int64) error {
	return db.within(ctx, system, "end a session", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM user_session WHERE id = $1`, id)
		return err
	})
}

// NoteUses implements controlplane.SessionStore. What another instance is writing
// at this moment is left to that.
func (db *DB) NoteUses(ctx context.Context, u controlplane.Uses) error {
	return db.within(ctx, system, "note uses", func(tx pgx.Tx) error {
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
					SELECT s.id, least(n.at + $3::interval, s.created_at + $4::interval) AS until
					FROM unnest($1::bigint[], $2::timestamptz[]) AS n (id, at) JOIN user_session s ON s.id = n.id
					WHERE s.expires_at > now() AND s.expires_at <= n.at + $3::interval - interval '1 minute'
					FOR NO KEY UPDATE OF s SKIP LOCKED)
				UPDATE user_session s SET expires_at = due.until FROM due WHERE s.id = due.id AND s.expires_at < due.until`,
				ids, at, controlplane.SessionIdle, controlplane.SessionMost)
			if err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `
			DELETE FROM user_session WHERE id IN (
				SELECT id FROM user_session WHERE expires_at < now() - interval '1 day' ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED)`)
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

// ChangeSelf implements controlplane.SessionStore. It is no act of an administrator,
// so the audit log does not hold it.
func (db *DB) ChangeSelf(ctx context.Context, by controlplane.Actor, name, password *string, was string) error {
	return db.within(ctx, system, "change an account", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE app_user SET name = coalesce($2, name), password = coalesce($3, password)
			WHERE id = $1 AND deleted_at IS NULL AND ($3::text IS NULL OR password = $4)`,
			by.UserID, name, password, was)
		if err != nil || password == nil {
			return err
		}
		if tag.RowsAffected() == 0 { // taken away, or changed, while the new one was hashed
			return controlplane.ErrPassword
		}
		_, err = tx.Exec(ctx, `DELETE FROM user_session WHERE user_id = $1 AND id <> $2`, by.UserID, by.SessionID)
		return err
	})
}
