package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Links whose eventual budgets are used up, by the counted clicks of people. The index
// link_counted has the links that can be.
const (
	isExhausted = `l.deleted_at IS NULL AND l.programme IS NOT NULL AND get_byte(l.programme, 6) = 1 AND NOT l.exhausted
		AND EXISTS (SELECT FROM link_click c WHERE c.link_id = l.id AND c.clicks - c.bot_clicks >= (l.rules ->> 'max_clicks')::bigint)`

	findExhausted     = `SELECT l.id FROM link l WHERE ` + isExhausted + ` ORDER BY l.id LIMIT 1000`
	findExhaustedOf   = `SELECT l.id FROM link l WHERE l.id = ANY ($1) AND ` + isExhausted
	updateExhausted   = `UPDATE link l SET exhausted = true WHERE l.id = ANY ($1) AND ` + isExhausted
	exhaustedAtOnce   = 1000
	exhaustedPatience = 4 * time.Second
)

// exhaust marks those of some links, or of all for nil, whose eventual budgets are used
// up. The owner's version of a link stays the same, as when a programme is compiled
// again.
func (db *ClickStore) exhaust(ctx context.Context, links []int64) error {
	ctx, cancel := context.WithTimeout(ctx, exhaustedPatience)
	defer cancel()
	find, args := findExhausted, []any(nil)
	if links != nil {
		find, args = findExhaustedOf, []any{links}
	}
	var ids []int64
	if err := db.pool.queryIn(ctx, system, find, args, collect(&ids)); err != nil {
		return classify("find click budgets that are used up", err)
	}
	for len(ids) > 0 {
		n := min(len(ids), exhaustedAtOnce)
		err := db.pool.change(ctx, "end click budgets", func(tx pgx.Tx, _ uint32) error {
			if _, err := tx.Exec(ctx, `SELECT set_config('waypost.recompiling', 'on', true)`); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, updateExhausted, ids[:n])
			return err
		})
		if err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}
