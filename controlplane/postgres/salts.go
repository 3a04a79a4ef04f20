package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// SaltStore keeps the daily salts by which edges tell visitors apart. It implements
// controlplane.SaltStore.
type SaltStore struct {
	pool      *pool
	retention time.Duration
}

// saltDays is the number of days with a salt, from today on. An edge that is cut off for
// two days goes on telling visitors apart.
const saltDays = 3

// selectSaltsDue counts the missing salts, and the salts of days that have been over for
// $2 seconds.
const selectSaltsDue = `
SELECT $1::integer - (SELECT count(*) FROM visitor_salt WHERE day >= u.today AND day < u.today + $1::integer),
       (SELECT count(*) FROM visitor_salt WHERE day + 1 + make_interval(secs => $2::float8) <= u.now)
FROM (SELECT now() AT TIME ZONE 'UTC' AS now, (now() AT TIME ZONE 'UTC')::date AS today) u`

// keepSalts makes the salts of today and the next days, and destroys the salts of days
// that have been over for long enough. Several instances may call it at once: the second
// one changes nothing. If there is nothing to do, as mostly, it locks nothing.
func (db *SaltStore) keepSalts(ctx context.Context) error {
	var missing, over int64
	retention := db.retention.Seconds()
	err := db.pool.QueryIn(ctx, scoped.Operator, selectSaltsDue, []any{saltDays, retention}, scoped.RowInto(&missing, &over))
	if err != nil {
		return scoped.Classify("look at the salts of visitors", err)
	}
	if missing <= 0 && over == 0 {
		return nil
	}
	return db.pool.change(ctx, "keep the salts of visitors", func(tx pgx.Tx, _ uint32) error {
		if missing > 0 {
			// Another instance may have made some of them since: existing salts stay.
			if _, err := tx.Exec(ctx, `
				INSERT INTO visitor_salt (day) SELECT (now() AT TIME ZONE 'UTC')::date + n FROM generate_series(0, $1::integer - 1) n
				ON CONFLICT (day) DO NOTHING`, saltDays); err != nil {
				return err
			}
		}
		if over == 0 {
			return nil
		}
		tag, err := tx.Exec(ctx, `DELETE FROM visitor_salt WHERE day + 1 + make_interval(secs => $1::float8) <= now() AT TIME ZONE 'UTC'`,
			retention)
		if err == nil {
			db.pool.Log.Info("destroyed salts of visitors", "days", tag.RowsAffected())
		}
		return err
	})
}

func (db *SaltStore) DestroySalt(ctx context.Context, by controlplane.Actor, day int32) (waypost.Position, error) {
	return db.pool.changeIn(ctx, scoped.Operator, "destroy the salt of a day", func(tx pgx.Tx, _ uint32) error {
		err := scoped.ExecOr(ctx, tx, waypost.Errorf(waypost.ENotFound, "there is no salt of that day"),
			`UPDATE visitor_salt SET salt = NULL WHERE day - '1970-01-01'::date = $1::integer AND salt IS NOT NULL`, day)
		if err != nil {
			return err
		}
		detail := map[string]any{"what": "destroyed the salt of the visitors of " + waypost.DayText(day)}
		return scoped.NoteAct(ctx, tx, by, "salts.destroy", waypost.DayText(day), detail)
	})
}
