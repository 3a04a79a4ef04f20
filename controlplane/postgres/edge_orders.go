package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
)

var _ controlplane.OrderStore = (*DB)(nil)

const edgeOrderColumns = `id, node, what, repair, hold, ordered_by, ordered_at, until, done_at, outcome`

// keptOrders is how many orders of an edge are kept.
const keptOrders = 50

const (
	insertEdgeOrder = `
		INSERT INTO edge_order (node, what, repair, hold, ordered_by, until)
		SELECT $1, $2, $3, $4, $5, $6 WHERE $7 OR EXISTS (SELECT FROM click_progress WHERE node = $1)
		RETURNING ` + edgeOrderColumns

	trimEdgeOrders = `
		DELETE FROM edge_order WHERE node = $1 AND id <= (SELECT id FROM edge_order WHERE node = $1 ORDER BY id DESC OFFSET $2 LIMIT 1)
		  AND (done_at IS NOT NULL OR until < now())`

	selectEdgeOrder = `SELECT ` + edgeOrderColumns + ` FROM edge_order WHERE node = $1 AND id = $2`

	// The last verification of each edge, and all orders that are open.
	selectEdgeOrders = `
		SELECT ` + edgeOrderColumns + ` FROM edge_order WHERE done_at IS NULL AND until > now()
		UNION ALL (SELECT DISTINCT ON (node) ` + edgeOrderColumns + ` FROM edge_order
			WHERE done_at IS NOT NULL AND what = 'verify' ORDER BY node, id DESC)
		ORDER BY id`

	finishEdgeOrder = `
		WITH found AS (SELECT id, done_at FROM edge_order WHERE node = $1 AND id = $2 FOR UPDATE),
		     done AS (UPDATE edge_order o SET done_at = now(), outcome = $3::text::jsonb FROM found f WHERE o.id = f.id AND f.done_at IS NULL)
		SELECT count(*) FROM found`
)

func scanEdgeOrder(row pgx.CollectableRow) (o controlplane.EdgeOrder, err error) {
	var done *time.Time
	var outcome []byte
	if err := row.Scan(&o.ID, &o.Node, &o.What, &o.Repair, &o.Hold, &o.By, &o.At, &o.Until, &done, &outcome); err != nil {
		return o, err
	}
	if done != nil {
		o.DoneAt = *done
		err = json.Unmarshal(outcome, &o.Outcome)
	}
	return o, err
}

// OrderEdge implements controlplane.OrderStore.
func (db *DB) OrderEdge(ctx context.Context, by controlplane.Actor, o controlplane.EdgeOrder, known bool) (given controlplane.EdgeOrder, err error) {
	err = pgx.BeginTxFunc(ctx, db.pool, system.begin(), func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, insertEdgeOrder, o.Node, o.What, o.Repair, o.Hold, o.By, o.Until, known)
		if err != nil {
			return err
		}
		if given, err = pgx.CollectExactlyOneRow(rows, scanEdgeOrder); errors.Is(err, pgx.ErrNoRows) {
			return waypost.Errorf(waypost.ENotFound, "no edge of that name has ever reported")
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, trimEdgeOrders, o.Node, keptOrders); err != nil {
			return err
		}
		detail, err := json.Marshal(map[string]any{"order": given.ID, "repair": o.Repair, "hold": o.Hold})
		if err != nil {
			return err
		}
		return audit(ctx, tx, by, "edges."+string(o.What), o.Node, detail)
	})
	return given, classify("order an edge", err)
}

// EdgeOrder implements controlplane.OrderStore.
func (db *DB) EdgeOrder(ctx context.Context, node string, id int64) (o controlplane.EdgeOrder, err error) {
	err = db.queryIn(ctx, system, selectEdgeOrder, []any{node, id}, func(rows pgx.Rows) (err error) {
		if o, err = pgx.CollectExactlyOneRow(rows, scanEdgeOrder); errors.Is(err, pgx.ErrNoRows) {
			return waypost.Errorf(waypost.ENotFound, "the edge has no such order")
		}
		return err
	})
	return o, classify("find an order", err)
}

// EdgeOrders implements controlplane.OrderStore.
func (db *DB) EdgeOrders(ctx context.Context) (open, verified []controlplane.EdgeOrder, err error) {
	err = db.queryIn(ctx, system, selectEdgeOrders, nil, func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, scanEdgeOrder)
		for _, o := range all {
			if o.DoneAt.IsZero() {
				open = append(open, o)
			} else {
				verified = append(verified, o)
			}
		}
		return err
	})
	return open, verified, classify("read orders of edges", err)
}

// OrderDone implements controlplane.OrderStore.
func (db *DB) OrderDone(ctx context.Context, node string, id int64, outcome controlplane.EdgeOutcome) error {
	text, err := json.Marshal(outcome)
	if err != nil {
		return err
	}
	var found int64
	err = db.queryRowIn(ctx, system, finishEdgeOrder, []any{node, id, string(text)}, &found)
	if err == nil && found == 0 {
		err = waypost.Errorf(waypost.ENotFound, "the edge has no such order")
	}
	return classify("keep what came of an order", err)
}
