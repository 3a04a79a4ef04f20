package analytics

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
	"waypost/controlplane/rollup"
	"waypost/internal/failpoint"
)

// ForgetClicks implements controlplane.StatsStore: it deletes single clicks in steps, and
// then all other clicks in one transaction. It keeps rollers off the link's area; parts
// that arrive during the erasure count from zero.
func (db *Store) ForgetClicks(
	ctx context.Context, by controlplane.Actor, domain waypost.DomainID, code waypost.Code,
) (f controlplane.ForgottenClicks, err error) {
	e := erasure{workspace: by.Workspace}
	err = db.pool.QueryRowIn(ctx, scoped.TenantOf(by.Workspace), `
		SELECT id FROM link WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND domain_id = $2 AND code = $3`,
		[]any{by.Workspace, domain, code}, &e.link)
	if err = scoped.IfNoRow(err, waypost.ErrNoLink); err != nil {
		return f, scoped.Classify("find a link whose clicks are to be deleted", err)
	}
	if e.done.Events, err = db.deleteSingles(ctx, &singles{
		as: scoped.TenantOf(e.workspace), workspace: e.workspace, links: []int64{e.link},
	}); err != nil {
		return f, scoped.Classify("delete the single clicks of a link", err)
	}
	var broken []brokenPiece
	for try := 1; ; try++ {
		attempt := e
		f, broken, err = attempt.run(ctx, db.pool, by, domain, code)
		// Rollers of other areas may have locked days of the workspace in another order.
		if scoped.PgCode(err) != "40P01" || try == 3 {
			break
		}
	}
	if err != nil {
		return controlplane.ForgottenClicks{}, scoped.Classify("delete the clicks of a link", err)
	}
	db.logBroken(broken)
	return f, nil
}

// run deletes the clicks in one transaction, and returns the pieces that it could not
// read.
func (e *erasure) run(
	ctx context.Context, pool *scoped.Pool, by controlplane.Actor, domain waypost.DomainID, code waypost.Code,
) (f controlplane.ForgottenClicks, broken []brokenPiece, err error) {
	as := scoped.TenantOf(by.Workspace)
	err = pool.Transact(ctx, as, as.TxOptions(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT set_config('idle_in_transaction_session_timeout', $1, true)`, ingestTimeLimit); err != nil {
			return err
		}
		class, key := FoldLock(int64(e.workspace), e.link)
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, $2)`, class, key); err != nil {
			return err
		}
		failpoint.Hit("forget clicks: begun")
		if err := e.deleteRows(ctx, tx); err != nil {
			return err
		}
		in := &folding{}
		for more := true; more; {
			if more, err = e.takeDays(ctx, tx, in); err != nil {
				return err
			}
		}
		broken = in.broken
		if err := scoped.EnterTenant(ctx, tx, by.Workspace); err != nil {
			return err
		}
		f = e.done
		detail, err := json.Marshal(map[string]any{
			"what": fmt.Sprintf("deleted %d clicks, of these by bots %d, kept one by one %d", f.Clicks, f.Bots, f.Events), "domain": domain,
		})
		if err != nil {
			return err
		}
		if err := scoped.NoteAct(ctx, tx, by, "clicks.forget", string(code), detail); err != nil {
			return err
		}
		// Unreadable pieces belong to the operators, not to the tenant.
		if err := scoped.Operator.Enter(ctx, tx); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM click_set_aside WHERE workspace_id = $1 AND link_id = $2`, e.workspace, e.link)
		return err
	})
	return f, broken, err
}

// erasure collects the deleted rows of a link.
type erasure struct {
	workspace waypost.WorkspaceID
	link      int64
	days      map[int32]*rollup.Day // deleted days that are not subtracted yet
	folded    bool                  // the parts of the workspace are
	done      controlplane.ForgottenClicks
}

// deleteRows deletes all rows of the link except its days. It remembers the parts, which
// are in rollups of the workspace, too.
func (e *erasure) deleteRows(ctx context.Context, tx pgx.Tx) error {
	e.days = make(map[int32]*rollup.Day)
	own := ` WHERE ` + scoped.OfWorkspace("workspace_id", "$1") + ` AND link_id = $2`
	var q pgx.Batch
	var clicks, bots int64
	count := scoped.ForEach([]any{&clicks, &bots}, func() error {
		e.done.Clicks += clicks
		e.done.Bots += bots
		return nil
	})
	q.Queue(takePartsOf, e.workspace, e.link, areasOf([]int64{e.link})).Query(e.scanParts)
	q.Queue(`DELETE FROM link_click`+own+` RETURNING clicks, bot_clicks`, e.workspace, e.link).Query(count)
	q.Queue(`WITH gone AS (DELETE FROM click_event`+own+` RETURNING clicks) SELECT coalesce(sum(clicks), 0)::bigint FROM gone`,
		// that came after the steps
		e.workspace, e.link).QueryRow(func(row pgx.Row) error {
		var gone int64
		err := row.Scan(&gone)
		e.done.Events += gone
		return err
	})
	// Kept answers hold the clicks, too; they are counted again when asked for.
	q.Queue(`DELETE FROM stats_question WHERE `+scoped.OfWorkspace("workspace_id", "$1"), e.workspace)
	return tx.SendBatch(ctx, &q).Close()
}

// takeDays deletes the first days of the link, subtracts them from the workspace with the
// parts up to the last of them, and reports whether there may be more. So only a few days
// are in memory at once. The rows of the workspace are locked in the order of days.
func (e *erasure) takeDays(ctx context.Context, tx pgx.Tx, in *folding) (more bool, err error) {
	if err := scoped.TenantOf(e.workspace).LookingUp().Enter(ctx, tx); err != nil {
		return false, err
	}
	own := ` FROM click_day WHERE ` + scoped.OfWorkspace("workspace_id", "$1") + ` AND link_id = $2`
	rows, _ := tx.Query(ctx, `DELETE`+own+` AND day = ANY (ARRAY(SELECT day`+own+` ORDER BY day LIMIT $3))
		RETURNING day - date '1970-01-01', clicks, bot_clicks, quarters, breakdown`, e.workspace, e.link, daysAtOnce)
	taken, last := 0, int32(0)
	var n int32
	var s storedDay
	if _, err := pgx.ForEachRow(rows, []any{&n, &s.clicks, &s.bots, &s.quarters, &s.breakdown}, func() error {
		d := &rollup.Day{}
		_ = s.unpack(d) // what cannot be read is deleted anyway
		e.addDay(n, d)
		taken, last = taken+1, max(last, n)
		return nil
	}); err != nil {
		return false, err
	}
	more = taken == daysAtOnce
	numbers := make([]int32, 0, len(e.days))
	for day := range e.days {
		if day <= last || !more {
			numbers = append(numbers, day)
		}
	}
	if err := scoped.Ingest.LookingUp().Enter(ctx, tx); err != nil {
		return false, err
	}
	return more, e.subtract(ctx, tx, in, numbers)
}

func (e *erasure) scanParts(rows pgx.Rows) error {
	var p rollup.Delta
	for rows.Next() {
		var n int32
		var hour int
		var clicks, bots int64
		var detail []byte
		if err := rows.Scan(&n, &hour, &clicks, &bots, &detail); err != nil {
			return err
		}
		d, said := &rollup.Day{}, countOf(clicks, bots)
		if readPart(&p, detail, said) == nil {
			d.Fold(&p)
		} else {
			addUnread(d, said, hour)
		}
		e.done.Clicks += clicks
		e.done.Bots += bots
		e.addDay(n, d)
	}
	return rows.Err()
}

// addDay adds to the deleted clicks of a day.
func (e *erasure) addDay(n int32, d *rollup.Day) {
	if have := e.days[n]; have != nil {
		d.Merge(have)
	}
	e.days[n] = d
}

// subtract takes days of the link out of the workspace's, once these have all clicks that
// were counted by now. Visitors stay: a sketch cannot be subtracted from.
func (e *erasure) subtract(ctx context.Context, tx pgx.Tx, in *folding, numbers []int32) error {
	if len(numbers) == 0 {
		return nil
	}
	for ws, n := int64(e.workspace), workspacePartsAtOnce; n == workspacePartsAtOnce && !e.folded; {
		var err error
		if n, _, err = in.foldWorkspaces(ctx, tx, ws, ws+1); err != nil {
			return err
		}
	}
	e.folded = true
	rows, _ := tx.Query(ctx, `
		SELECT day - date '1970-01-01', clicks, bot_clicks, quarters, breakdown, top FROM click_workspace_day
		WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND day = ANY (ARRAY(SELECT date '1970-01-01' + n FROM unnest($2::integer[]) n))
		ORDER BY day FOR UPDATE`, e.workspace, numbers)
	defer rows.Close()
	var c dayColumns
	var tops [][]byte
	for rows.Next() {
		var n int32
		var clicks, bots int64
		var quarters, packed, top []byte
		if err := rows.Scan(&n, &clicks, &bots, &quarters, &packed, &top); err != nil {
			return err
		}
		gone := e.days[n]
		// An unreadable column stays as it is; the next roller sets it aside.
		var d rollup.Day
		if err := d.Quarters.Unpack(quarters); err == nil {
			d.Quarters.Subtract(&gone.Quarters)
			quarters = d.Quarters.Append(nil)
		}
		if err := d.Breakdown.Unpack(packed); err == nil {
			d.Breakdown.Subtract(&gone.Breakdown)
			packed = d.Breakdown.Append(nil)
		}
		if t, err := rollup.UnpackTop(top); err == nil {
			t.Set(rollup.LinkCount{Link: e.link})
			top = t.Append(nil)
		}
		tops = append(tops, top)
		total := gone.Total()
		clicks = max(clicks-int64(total.Clicks), 0)
		c.days = append(c.days, midnight(n))
		c.clicks, c.bots = append(c.clicks, clicks), append(c.bots, min(max(bots-int64(total.Bots), 0), clicks))
		c.quarters, c.breakdowns = append(c.quarters, quarters), append(c.breakdowns, packed)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, n := range numbers {
		delete(e.days, n)
	}
	_, err := tx.Exec(ctx, `
		UPDATE click_workspace_day d SET clicks = s.clicks, bot_clicks = s.bots, quarters = s.quarters, breakdown = s.breakdown, top = s.top
		FROM unnest($2::date[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[], $7::bytea[])
			AS s (day, clicks, bots, quarters, breakdown, top)
		WHERE `+scoped.OfWorkspace("d.workspace_id", "$1")+` AND d.day = s.day`, e.workspace, c.days, c.clicks, c.bots, c.quarters, c.breakdowns, tops)
	return err
}

// KeptBatches is the time for which the record of a batch is kept besides the watermark.
const KeptBatches = 24 * time.Hour

// forgottenAtOnce bounds one statement of ForgetBatches.
const forgottenAtOnce = 10_000

// ForgetBatches deletes the records of batches that were taken longer ago than
// KeptBatches. The clicks of these batches stay counted, and the watermark still
// recognises a batch that is sent again; only a different batch under the same identity
// can then pass for the counted one.
func (db *Store) ForgetBatches(ctx context.Context) error {
	for {
		n, err := db.pool.ExecIn(ctx, scoped.Ingest, `
			DELETE FROM click_batch WHERE (node, boot, seq) IN (
				SELECT node, boot, seq FROM click_batch WHERE received_at < now() - $2::interval
				ORDER BY received_at LIMIT $1 FOR UPDATE SKIP LOCKED)`, forgottenAtOnce, KeptBatches)
		if err != nil {
			return scoped.Classify("forget batches of clicks", err)
		}
		if n < forgottenAtOnce {
			return nil
		}
	}
}
