package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// addUpTimeout bounds an addition of all rows, in PostgreSQL's terms. Ten million take
// some seconds.
const addUpTimeout = `SET LOCAL statement_timeout = '10min'`

func (db *Changelog) AddUp(ctx context.Context) (d controlplane.Digest, err error) {
	begun := time.Now()
	err = pgx.BeginTxFunc(ctx, db.pool, scoped.Stream.ReadOptions(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, addUpTimeout); err != nil {
			return err
		}
		head, err := scanHead(tx.QueryRow(ctx, selectHead))
		if err != nil {
			return err
		}
		var rows int64
		err = tx.QueryRow(ctx, `SELECT digest, records FROM changelog_add_up()`).Scan(&rows, &d.Records)
		d.Position, d.Head, d.Rows, d.At = head.Position, head.Digest, uint64(rows), time.UnixMilli(head.At)
		return err
	})
	d.Took = time.Since(begun)
	return d, scoped.Classify("add up the replicated rows", err)
}

func (db *DatabaseHistory) Recompute(ctx context.Context, by controlplane.Actor) error {
	if db.cfg.ReadOnly {
		return waypost.Errorf(waypost.EInternal, "opened for reading")
	}
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return scoped.Classify("connect", err)
	}
	defer conn.Release()
	seen := db.pool.highWater.current()
	opened := false
	err = pgx.BeginTxFunc(ctx, conn, scoped.Operator.TxOptions(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, addUpTimeout); err != nil {
			return err
		}
		var was, digest int64
		if err := tx.QueryRow(ctx, `SELECT opened, was, digest FROM changelog_recompute()`).Scan(&opened, &was, &digest); err != nil || !opened {
			return err
		}
		return auditBoth(ctx, tx, by, by.Workspace, "changelog.recompute", "changelog", map[string]any{
			"was": controlplane.DigestText(uint64(was)), "digest": controlplane.DigestText(uint64(digest)),
		})
	})
	if err != nil {
		return scoped.Classify("recompute the digest", err)
	}
	if opened {
		db.pool.Log.Warn("opened a new epoch of the changelog", "reason", "the digest was recomputed from the rows")
		db.beginMark(ctx, conn.Conn(), seen)
	}
	return nil
}
