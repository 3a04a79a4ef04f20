package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost/controlplane/postgres/scoped"
)

// isExhausted selects the links with an eventual budget that the counted clicks of people
// have used up. hasBudget selects the candidates, by the index link_counted.
const (
	hasBudget   = `l.deleted_at IS NULL AND l.programme IS NOT NULL AND get_byte(l.programme, 6) = 1 AND NOT l.exhausted`
	isExhausted = hasBudget + `
		AND EXISTS (SELECT FROM link_click c WHERE c.link_id = l.id AND c.clicks - c.bot_clicks >= (l.rules ->> 'max_clicks')::bigint)`

	findExhausted = `SELECT l.id FROM link l WHERE l.id = ANY ($1) AND ` + isExhausted

	// The next links with budgets, their number, and the last of them.
	findCounted = `
		WITH step AS MATERIALIZED (SELECT l.id FROM link l WHERE ` + hasBudget + ` AND l.id > $1 ORDER BY l.id LIMIT $2)
		SELECT count(*), coalesce(max(id), 0),
		       ARRAY(SELECT l.id FROM step s CROSS JOIN LATERAL (SELECT * FROM link WHERE id = s.id OFFSET 0) l
		             WHERE ` + isExhausted + ` ORDER BY l.id)
		FROM step`

	updateExhausted = `UPDATE link l SET exhausted = true WHERE l.id = ANY ($1) AND ` + isExhausted

	exhaustedAtOnce   = 1_000
	budgetsAtOnce     = 10_000
	exhaustedPatience = 4 * time.Second // of a step
)

// MarkExhausted implements analytics.Budgets: it marks each of these links that has used
// up an eventual budget.
func (db *BudgetStore) MarkExhausted(ctx context.Context, links []int64) error {
	ctx, cancel := context.WithTimeout(ctx, exhaustedPatience)
	defer cancel()
	var ids []int64
	if err := db.pool.QueryIn(ctx, scoped.Operator.LookingUp(), findExhausted, []any{links}, scoped.CollectInto(&ids)); err != nil {
		return scoped.Classify("find click budgets that are used up", err)
	}
	return db.markExhausted(ctx, ids)
}

// MarkAllExhausted implements analytics.Budgets: it marks every such link, because a
// budget may have become smaller. A step looks at a bounded number of links.
func (db *BudgetStore) MarkAllExhausted(ctx context.Context) error {
	for last, n := int64(0), budgetsAtOnce; n == budgetsAtOnce; {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, exhaustedPatience)
			defer cancel()
			var ids []int64
			err := db.pool.QueryRowIn(ctx, scoped.Operator.LookingUp(), findCounted, []any{last, budgetsAtOnce}, &n, &last, &ids)
			if err != nil {
				return scoped.Classify("find click budgets that are used up", err)
			}
			return db.markExhausted(ctx, ids)
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

// markExhausted judges the links again, and marks them. The owner's version of a link
// stays the same, as when a programme is compiled again.
func (db *BudgetStore) markExhausted(ctx context.Context, ids []int64) error {
	for some := range slices.Chunk(ids, exhaustedAtOnce) {
		err := db.pool.change(ctx, "end click budgets", func(tx pgx.Tx, _ uint32) error {
			if _, err := tx.Exec(ctx, `SELECT set_config('waypost.recompiling', 'on', true)`); err != nil {
				return err
			}
			return scoped.Exec(ctx, tx, updateExhausted, some)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
