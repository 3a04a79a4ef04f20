package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// FleetStore keeps edges and relays: their credentials, their progress, and the orders
// of operators to them. It implements controlplane.ProgressStore, fleet.BootStore,
// fleet.NodeStore and fleet.OrderStore.
type FleetStore struct{ pool *pool }

const edgeOrderColumns = `id, node, what, hold, question, ordered_by, ordered_at, until, done_at, outcome`

const (
	insertEdgeOrder = `
		INSERT INTO edge_order (node, what, hold, ordered_by, until, question)
		SELECT $1, $2, $3, $4, $5, $7::jsonb WHERE $6 OR EXISTS (SELECT FROM click_progress WHERE node = $1)
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

var scanEdgeOrder = pgx.RowToStructByName[api.EdgeOrder]

func (db *FleetStore) OrderEdge(
	ctx context.Context, by controlplane.Actor, o api.EdgeOrder, known bool,
) (given api.EdgeOrder, err error) {
	err = pgx.BeginTxFunc(ctx, db.pool, scoped.Operator.TxOptions(), func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, insertEdgeOrder, o.Node, o.What, o.Hold, o.OrderedBy, o.Until, known, o.Question)
		given, err = pgx.CollectExactlyOneRow(rows, scanEdgeOrder)
		if err = scoped.IfNoRow(err, waypost.Errorf(waypost.ENotFound, "no edge of that name has ever reported")); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, trimEdgeOrders, o.Node, keptEdgeOrders); err != nil {
			return err
		}
		return scoped.NoteAct(ctx, tx, by, "edges."+o.What, o.Node, map[string]any{"order": given.ID, "hold": o.Hold})
	})
	return given, scoped.Classify("order an edge", err)
}

func (db *FleetStore) EdgeOrder(ctx context.Context, node string, id int64) (o api.EdgeOrder, err error) {
	err = db.pool.QueryIn(ctx, scoped.Operator, selectEdgeOrder, []any{node, id}, func(rows pgx.Rows) (err error) {
		o, err = pgx.CollectExactlyOneRow(rows, scanEdgeOrder)
		return scoped.IfNoRow(err, waypost.Errorf(waypost.ENotFound, "the edge has no such order"))
	})
	return o, scoped.Classify("find an order", err)
}

func (db *FleetStore) EdgeOrders(ctx context.Context) (open, verified []api.EdgeOrder, err error) {
	err = db.pool.QueryIn(ctx, scoped.Operator, selectEdgeOrders, nil, func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, scanEdgeOrder)
		for _, o := range all {
			if o.DoneAt == nil {
				open = append(open, o)
			} else {
				verified = append(verified, o)
			}
		}
		return err
	})
	return open, verified, scoped.Classify("read orders of edges", err)
}

func (db *FleetStore) OrderDone(ctx context.Context, node string, id int64, outcome api.EdgeOutcome) error {
	text, err := json.Marshal(outcome)
	if err != nil {
		return err
	}
	var found int64
	err = db.pool.QueryRowIn(ctx, scoped.Operator, finishEdgeOrder, []any{node, id, string(text)}, &found)
	if err == nil && found == 0 {
		err = waypost.Errorf(waypost.ENotFound, "the edge has no such order")
	}
	return scoped.Classify("keep what came of an order", err)
}

// noteProgress keeps the known values if an edge reports none. Rows are taken in the
// order of their keys, so that several instances never deadlock.
const noteProgress = `
INSERT INTO click_progress AS p (node, region, complete_until, pending, has_left, reported_at)
SELECT s.node, s.region, s.until, s.pending, s.has_left, now() - s.age * interval '1 second'
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::bigint[], $5::boolean[], $6::float8[]) AS s (node, region, until, pending,
	has_left, age)
ORDER BY s.node COLLATE "C"
ON CONFLICT (node) DO UPDATE
SET region = excluded.region, complete_until = coalesce(excluded.complete_until, p.complete_until),
    pending = excluded.pending, has_left = excluded.has_left,
    reported_at = greatest(CASE WHEN p.reported_at < now() + interval '5 minutes' THEN p.reported_at END, excluded.reported_at)`

func (db *FleetStore) NoteProgress(ctx context.Context, nodes []controlplane.EdgeProgress) error {
	names, regions := make([]string, len(nodes)), make([]string, len(nodes))
	until, pending, left := make([]*time.Time, len(nodes)), make([]*int64, len(nodes)), make([]bool, len(nodes))
	ages, now := make([]float64, len(nodes)), time.Now()
	for i := range nodes {
		n := &nodes[i]
		names[i], regions[i], left[i] = n.Node, string(n.Region), n.Left
		if !n.Until.IsZero() {
			until[i] = &n.Until
		}
		if !n.At.IsZero() {
			ages[i] = max(now.Sub(n.At), 0).Seconds()
		}
		if n.Pending >= 0 {
			pending[i] = &n.Pending
		}
	}
	_, err := db.pool.ExecIn(ctx, scoped.Operator, noteProgress, names, regions, until, pending, left, ages)
	return scoped.Classify("note up to when clicks are counted", err)
}

// heardOf selects when an edge was last heard of, and whether that is recent enough to
// count it as present. A time of the future is from a clock that was wrong.
const heardOf = `
SELECT max(at) IS NOT NULL, coalesce(bool_or(at > now() - $2::interval AND at < now() + interval '5 minutes'), false),
	coalesce(bool_or(has_left), false), coalesce(max(pending), -1) FROM (
	SELECT reported_at, has_left, pending FROM click_progress WHERE node = $1
	UNION ALL
	SELECT updated_at, false, NULL FROM click_watermark WHERE node = $1) h (at, has_left, pending)`

// giveUp keeps when the edge was last heard of, so that it is forgotten in due time.
const giveUp = `
INSERT INTO click_progress (node, region, has_left, reported_at)
SELECT $1, '', true, coalesce(max(updated_at), now()) FROM click_watermark WHERE node = $1
ON CONFLICT (node) DO UPDATE SET has_left = true`

// dropSilentBoots drops the boots of a node that have not reported for a time. A time of
// the future is from a clock that was set back since.
const dropSilentBoots = `
DELETE FROM edge_boot WHERE node = $1 AND reported_at NOT BETWEEN now() - $2::interval AND now() + interval '1 second' AND NOT stopped`

func (db *FleetStore) GiveUpEdge(ctx context.Context, by controlplane.Actor, node string, silent time.Duration) error {
	err := pgx.BeginTxFunc(ctx, db.pool, scoped.Operator.TxOptions(), func(tx pgx.Tx) error {
		var known, heard, left bool
		var pending int64
		if err := tx.QueryRow(ctx, heardOf, node, silent).Scan(&known, &heard, &left, &pending); err != nil {
			return err
		}
		dropped, err := tx.Exec(ctx, dropSilentBoots, node, silent)
		if err != nil {
			return err
		}
		silentBoots := dropped.RowsAffected()
		var ended bool // whether budgets ended, because PostgreSQL may have forgotten the edge's grants
		if !heard {    // its clicks of budgets count as spent
			if err := tx.QueryRow(ctx, `SELECT budget_give_up($1)`, node).Scan(&ended); err != nil {
				return err
			}
		}
		if left && !ended && silentBoots == 0 {
			return nil
		}
		if !known && silentBoots == 0 {
			return waypost.Errorf(waypost.ENotFound, "no edge of that name has ever sent clicks, or told of any")
		}
		if heard && silentBoots > 0 { // another edge with its name reports
			detail := map[string]any{"what": "changes are waited for no longer by the one of its name that is silent"}
			return scoped.NoteAct(ctx, tx, by, "edges.gone", node, detail)
		}
		if heard {
			return waypost.Errorf(waypost.EConflict, "the edge is not gone: it was heard of within the last %v", silent)
		}
		if _, err := tx.Exec(ctx, giveUp, node); err != nil {
			return err
		}
		what := "it is waited for no longer, nor are its clicks"
		if ended {
			what += ", and the exact click budgets of all existing links have ended"
		}
		return scoped.NoteAct(ctx, tx, by, "edges.gone", node, map[string]any{"what": what, "pending": pending})
	})
	return scoped.Classify("give up an edge", err)
}

// notRevoked is the condition that clicks may still come from the node of p: it has a
// valid credential, or was heard of after its last one was revoked. Reports are stored a
// little late.
const notRevoked = `
	NOT EXISTS (SELECT FROM node_credential c WHERE c.node = p.node
		HAVING count(*) > 0 AND bool_and(c.revoked_at IS NOT NULL) AND max(c.revoked_at) > p.heard - interval '1 minute')`

// selectProgress also has edges that have sent clicks and no report, like edges of
// earlier versions.
const selectProgress = `
SELECT * FROM (
SELECT node, region, complete_until, coalesce(pending, -1), has_left, extract(epoch FROM now() - reported_at), reported_at AS heard
FROM click_progress WHERE reported_at > now() - $1::interval
UNION ALL
SELECT w.node, '', NULL, -1, false, extract(epoch FROM now() - max(w.updated_at)), max(w.updated_at)
FROM click_watermark w
WHERE w.updated_at > now() - $1::interval AND NOT EXISTS (SELECT FROM click_progress p WHERE p.node = w.node)
GROUP BY w.node) p
WHERE ` + notRevoked + `
ORDER BY 1`

func (db *FleetStore) Progress(ctx context.Context) ([]controlplane.EdgeProgress, error) {
	var all []controlplane.EdgeProgress
	began := time.Now()
	err := db.pool.QueryIn(ctx, scoped.Operator, selectProgress, []any{controlplane.LongestProgress}, scoped.Each(func(rows pgx.Rows) error {
		var p controlplane.EdgeProgress
		var until *time.Time
		var age float64 // by PostgreSQL's clock, which may differ from ours
		err := rows.Scan(&p.Node, &p.Region, &until, &p.Pending, &p.Left, &age, nil)
		p.At, p.Until = began.Add(-time.Duration(age*float64(time.Second))), scoped.Deref(until)
		all = append(all, p)
		return err
	}))
	return all, scoped.Classify("read up to when clicks are counted", err)
}
