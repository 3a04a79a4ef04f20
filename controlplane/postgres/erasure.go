package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/rollup"
	"waypost/internal/failpoint"
)

// ForgetClicks implements controlplane.StatsStore: single clicks in steps, and then all
// the rest in one transaction. It keeps rollers off the link's area; parts that come
// meanwhile count from zero.
func (db *ClickStore) ForgetClicks(
	ctx context.Context, by controlplane.Actor, domain waypost.DomainID, code waypost.Code,
) (f controlplane.ForgottenClicks, err error) {
	e := erasure{workspace: by.Workspace}
	err = db.pool.queryIn(ctx, tenantOf(by.Workspace), `
		SELECT id FROM link WHERE `+ofWorkspace("workspace_id", "$1")+` AND domain_id = $2 AND code = $3`,
		[]any{by.Workspace, domain, code}, func(rows pgx.Rows) (err error) {
			e.link, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
			return err
		})
	if errors.Is(err, pgx.ErrNoRows) {
		return f, waypost.Errorf(waypost.ENotFound, "there is no such link")
	}
	if err != nil {
		return f, classify("find a link whose clicks are to be deleted", err)
	}
	if e.done.Events, err = db.deleteSingles(ctx, tenantOf(e.workspace), e.workspace, []int64{e.link}); err != nil {
		return f, classify("delete the single clicks of a link", err)
	}
	err = pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		if err := setTenant(ctx, tx, by.Workspace); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT set_config('idle_in_transaction_session_timeout', $1, true)`, ingestTimeLimit); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, $2)`, foldLocks, place{int64(e.workspace), e.link}.lock()); err != nil {
			return err
		}
		failpoint.Hit("forget clicks: begun")
		if err := e.take(ctx, tx); err != nil {
			return err
		}
		if err := e.subtract(ctx, tx); err != nil {
			return err
		}
		f = e.done
		detail, err := json.Marshal(map[string]any{
			"what": fmt.Sprintf("deleted %d clicks, of these by bots %d, kept one by one %d", f.Clicks, f.Bots, f.Events), "domain": domain,
		})
		if err != nil {
			return err
		}
		if err := audit(ctx, tx, by, "clicks.forget", string(code), detail); err != nil {
			return err
		}
		// What could not be read is the operators', not the tenant's.
		if err := system.enter(ctx, tx); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM click_set_aside WHERE workspace_id = $1 AND link_id = $2`, e.workspace, e.link)
		return err
	})
	if err != nil {
		return controlplane.ForgottenClicks{}, classify("delete the clicks of a link", err)
	}
	return f, nil
}

// erasure collects the deleted rows of a link.
type erasure struct {
	workspace waypost.WorkspaceID
	link      int64
	days      map[int32]*erasedDay
	hours     hourColumns // all with the workspace as their key
	done      controlplane.ForgottenClicks
}

// erasedDay is a row of click_day that was deleted.
type erasedDay struct {
	clicks, bots int64
	breakdown    *rollup.Breakdown
}

// take deletes all rows of the link, and remembers what is in rollups of the
// workspace, too.
func (e *erasure) take(ctx context.Context, tx pgx.Tx) error {
	e.days = make(map[int32]*erasedDay)
	own := ` WHERE ` + ofWorkspace("workspace_id", "$1") + ` AND link_id = $2`
	var q pgx.Batch
	count := func(rows pgx.Rows) error {
		var clicks, bots int64
		_, err := pgx.ForEachRow(rows, []any{&clicks, &bots}, func() error {
			e.done.Clicks += clicks
			e.done.Bots += bots
			return nil
		})
		return err
	}
	q.Queue(takePartsOf, e.workspace, e.link, areasOf([]int64{e.link})).Query(count)
	q.Queue(`DELETE FROM link_click`+own+` RETURNING clicks, bot_clicks`, e.workspace, e.link).Query(count)
	q.Queue(`DELETE FROM click_day`+own+` RETURNING day - date '1970-01-01', clicks, bot_clicks, breakdown`, e.workspace,
		e.link).Query(e.scanDays)
	q.Queue(`DELETE FROM click_hour`+own+` RETURNING hour, q0, q1, q2, q3, b0, b1, b2, b3`, e.workspace, e.link).Query(e.scanHours)
	q.Queue(`WITH gone AS (DELETE FROM click_event`+own+` RETURNING clicks) SELECT coalesce(sum(clicks), 0)::bigint FROM gone`,
		// that came meanwhile
		e.workspace, e.link).QueryRow(func(row pgx.Row) error {
		var gone int64
		err := row.Scan(&gone)
		e.done.Events += gone
		return err
	})
	return tx.SendBatch(ctx, &q).Close()
}

func (e *erasure) scanDays(rows pgx.Rows) error {
	for rows.Next() {
		var n int32
		var d erasedDay
		var packed []byte
		if err := rows.Scan(&n, &d.clicks, &d.bots, &packed); err != nil {
			return err
		}
		var err error
		if d.breakdown, err = rollup.UnpackBreakdown(packed); err != nil {
			// The names are lost; the clicks are deleted anyway.
			d.breakdown = &rollup.Breakdown{}
			d.breakdown.AddOther(countOf(d.clicks, d.bots))
		}
		e.days[n] = &d
	}
	return rows.Err()
}

func (e *erasure) scanHours(rows pgx.Rows) error {
	for rows.Next() {
		var at time.Time
		var n [8]int64
		if err := rows.Scan(&at, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &n[7]); err != nil {
			return err
		}
		e.hours.keys, e.hours.at = append(e.hours.keys, int64(e.workspace)), append(e.hours.at, at)
		for i := range n {
			e.hours.n[i] = append(e.hours.n[i], n[i])
		}
	}
	return rows.Err()
}

// subtractHours never goes below zero, nor bots above clicks.
var subtractHours = `
UPDATE click_workspace_hour h
SET q0 = greatest(h.q0 - s.q0, 0), q1 = greatest(h.q1 - s.q1, 0), q2 = greatest(h.q2 - s.q2, 0), q3 = greatest(h.q3 - s.q3, 0),
    b0 = least(greatest(h.b0 - s.b0, 0), greatest(h.q0 - s.q0, 0)), b1 = least(greatest(h.b1 - s.b1, 0), greatest(h.q1 - s.q1, 0)),
    b2 = least(greatest(h.b2 - s.b2, 0), greatest(h.q2 - s.q2, 0)), b3 = least(greatest(h.b3 - s.b3, 0), greatest(h.q3 - s.q3, 0))
FROM unnest($2::bigint[], $3::timestamptz[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
	$10::bigint[], $11::bigint[])
     AS s (key, hour, q0, q1, q2, q3, b0, b1, b2, b3)
WHERE ` + ofWorkspace("h.workspace_id", "$1") + ` AND h.workspace_id = s.key AND h.hour = s.hour`

// subtract takes the link's days out of the workspace's. Who holds the row of a day holds
// its hours, too, as rollers have it. Visitors stay: a sketch cannot be subtracted from.
func (e *erasure) subtract(ctx context.Context, tx pgx.Tx) error {
	if len(e.days) == 0 && len(e.hours.at) == 0 {
		return nil
	}
	numbers := make([]int32, 0, len(e.days))
	for n := range e.days {
		numbers = append(numbers, n)
	}
	rows, err := tx.Query(ctx, `
		SELECT day - date '1970-01-01', clicks, bot_clicks, breakdown, top FROM click_workspace_day
		WHERE `+ofWorkspace("workspace_id", "$1")+` AND day = ANY (ARRAY(SELECT date '1970-01-01' + n FROM unnest($2::integer[]) n))
		ORDER BY day FOR UPDATE`, e.workspace, numbers)
	if err != nil {
		return err
	}
	defer rows.Close()
	var c dayColumns
	var tops [][]byte
	for rows.Next() {
		var n int32
		var clicks, bots int64
		var packed, top []byte
		if err := rows.Scan(&n, &clicks, &bots, &packed, &top); err != nil {
			return err
		}
		gone := e.days[n]
		// What cannot be read stays as it is: the next roller sets it aside.
		if b, err := rollup.UnpackBreakdown(packed); err == nil {
			b.Subtract(gone.breakdown)
			packed = b.Append(nil)
		}
		if t, err := rollup.UnpackTop(top); err == nil {
			t.Set(rollup.LinkCount{Link: e.link})
			top = t.Append(nil)
		}
		tops = append(tops, top)
		clicks = max(clicks-gone.clicks, 0)
		c.days = append(c.days, midnight(n))
		c.clicks, c.bots = append(c.clicks, clicks), append(c.bots, min(max(bots-gone.bots, 0), clicks))
		c.breakdowns = append(c.breakdowns, packed)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	var q pgx.Batch
	q.Queue(`
		UPDATE click_workspace_day d SET clicks = s.clicks, bot_clicks = s.bots, breakdown = s.breakdown, top = s.top
		FROM unnest($2::date[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[]) AS s (day, clicks, bots, breakdown, top)
		WHERE `+ofWorkspace("d.workspace_id", "$1")+` AND d.day = s.day`, e.workspace, c.days, c.clicks, c.bots, c.breakdowns, tops)
	q.Queue(subtractHours, e.workspace, e.hours.keys, e.hours.at, e.hours.n[0], e.hours.n[1], e.hours.n[2], e.hours.n[3],
		e.hours.n[4], e.hours.n[5], e.hours.n[6], e.hours.n[7])
	return tx.SendBatch(ctx, &q).Close()
}

// forgottenAtOnce bounds one statement of forgetClickBatches.
const forgottenAtOnce = 10_000

// forgetClickBatches removes what is known of batches that were taken more than a
// day ago. Their clicks stay counted, and by the watermark they are still known as
// counted when they are sent again; only another batch under the same identity is
// then no longer told apart from them.
func (db *ClickStore) forgetClickBatches(ctx context.Context) error {
	for {
		n, err := db.pool.execIn(ctx, ingest, `
			DELETE FROM click_batch WHERE (node, boot, seq) IN (
				SELECT node, boot, seq FROM click_batch WHERE received_at < now() - interval '24 hours'
				ORDER BY received_at LIMIT $1 FOR UPDATE SKIP LOCKED)`, forgottenAtOnce)
		if err != nil {
			return classify("forget batches of clicks", err)
		}
		if n < forgottenAtOnce {
			return nil
		}
	}
}
