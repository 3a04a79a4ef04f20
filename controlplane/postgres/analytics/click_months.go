package analytics

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost/controlplane/postgres/scoped"
	"waypost/internal/atomicfile"
	"waypost/internal/failpoint"
)

const (
	eventMonthsAhead = 2
	eventsInterval   = time.Hour
	// An export may read for long, and no process waits for it.
	eventsTimeLimit = 12 * time.Hour
	eventsLock      = 2 // 1 is that of the changelog's partitions
)

// maintenanceLocks is the first key of the locks of maintenance.
const maintenanceLocks = 7305

// KeepEvents makes months of single clicks ahead of time, and exports and drops old
// months, until ctx is over.
func (db *Store) KeepEvents(ctx context.Context) {
	db.pool.RunEvery(ctx, eventsInterval, "months of clicks", func(ctx context.Context) error {
		var now time.Time // not this machine's: a month that is dropped does not come back
		if err := db.pool.QueryRowIn(ctx, scoped.Operator, `SELECT clock_timestamp()`, nil, &now); err != nil {
			return scoped.Classify("read the clock", err)
		}
		return db.KeepEventsOnce(ctx, now)
	})
}

// KeepEventsOnce does one round of KeepEvents, as of a moment. Several instances may
// do it at once: one of them does the work.
func (db *Store) KeepEventsOnce(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, eventsTimeLimit)
	defer cancel()
	now = now.UTC()
	this := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	var errs []error
	for n := range eventMonthsAhead + 1 {
		errs = append(errs, db.makeEventMonth(ctx, this.AddDate(0, n, 0)))
	}
	stray, err := db.strayMonths(ctx)
	errs = append(errs, err)
	for _, month := range stray {
		errs = append(errs, db.makeEventMonth(ctx, month))
	}
	first := this.AddDate(0, -db.cfg.EventMonths, 0)
	// A month is exported once, because a second export would replace its file by the
	// clicks that came later.
	if y, m, _ := now.Add(-maxClickAge - 24*time.Hour).Date(); first.After(time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)) {
		first = time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	}
	errs = append(errs, db.dropEventMonths(ctx, first))
	return errors.Join(errs...)
}

// strayMonths returns the months of clicks that arrived when there was no table for them.
func (db *Store) strayMonths(ctx context.Context) (months []time.Time, err error) {
	err = db.pool.QueryIn(ctx, scoped.Operator, `SELECT DISTINCT date_trunc('month', at AT TIME ZONE 'UTC')::timestamptz
		FROM click_event_default LIMIT 100`, nil,
		scoped.CollectInto(&months))
	return months, scoped.Classify("look for clicks without a month", err)
}

// makeEventMonth makes the table of a month, unless it is there. Clicks of the month that
// came before it move into it.
func (db *Store) makeEventMonth(ctx context.Context, month time.Time) error {
	month = month.UTC()
	err := db.pool.AlterTable(ctx, func(tx pgx.Tx) error {
		var there bool
		if err := tx.QueryRow(ctx, `SELECT pg_advisory_xact_lock($1, $2)::text IS NOT NULL AND to_regclass($3) IS NOT NULL`,
			maintenanceLocks, eventsLock, "click_event_"+month.Format("2006_01")).Scan(&there); err != nil || there {
			return err
		}
		// No click may come for the month between its way out of the default table and the
		// attachment of its own.
		if _, err := tx.Exec(ctx, `LOCK TABLE click_event_default IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		if err := scoped.Ingest.Enter(ctx, tx); err != nil {
			return err
		}
		for _, sql := range []string{
			`CREATE TEMPORARY TABLE stray_clicks (LIKE click_event) ON COMMIT DROP`,
			fmt.Sprintf(`WITH stray AS (DELETE FROM click_event WHERE at >= '%s' AND at < '%s' RETURNING *)
				INSERT INTO stray_clicks SELECT * FROM stray`,
				month.Format(time.RFC3339), month.AddDate(0, 1, 0).Format(time.RFC3339)),
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		if err := scoped.Owner.Enter(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT click_event_month($1::date)`, month); err != nil {
			return err
		}
		if err := scoped.Ingest.Enter(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO click_event SELECT * FROM stray_clicks`)
		return err
	})
	return scoped.Classify("make the table of a month of clicks", err)
}

// dropEventMonths drops the months before first. It first detaches a month from
// click_event, so that no click is added during the export. A month that was detached by
// a process that then died is found by its name.
func (db *Store) dropEventMonths(ctx context.Context, first time.Time) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return scoped.Classify("drop months of clicks", err)
	}
	defer conn.Release()
	var mine bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, $2)`, maintenanceLocks, eventsLock+1).Scan(&mine); err != nil || !mine {
		return scoped.Classify("drop months of clicks", err)
	}
	defer func() {
		// Should this fail, the connection is broken, and its end frees the lock.
		_, _ = conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1, $2)`, maintenanceLocks, eventsLock+1)
	}()
	var months []eventMonth
	err = db.pool.QueryIn(ctx, scoped.Owner, `
		SELECT c.relname, to_date(right(c.relname, 7), 'YYYY_MM')::timestamptz, c.relispartition
		FROM pg_class c JOIN pg_class parent ON parent.oid = 'click_event'::regclass AND parent.relnamespace = c.relnamespace
		WHERE c.relkind = 'r' AND c.relname ~ '^click_event_[0-9]{4}_(0[1-9]|1[0-2])$' AND to_date(right(c.relname, 7), 'YYYY_MM') < $1::date
		ORDER BY 1`, []any{first}, scoped.CollectWith(&months, pgx.RowToStructByPos[eventMonth]))
	if err != nil {
		return scoped.Classify("list months of clicks", err)
	}
	for _, m := range months {
		dropped, err := db.dropEventMonth(ctx, m)
		if err != nil || !dropped {
			return err
		}
	}
	return nil
}

// eventMonth is the table of a month.
type eventMonth struct {
	Name     string
	Month    time.Time
	Attached bool // to click_event
}

// dropEventMonth takes a month out, exports it if that is configured, and drops it. It
// returns false when a transaction reads the table: the next round tries again.
func (db *Store) dropEventMonth(ctx context.Context, m eventMonth) (done bool, err error) {
	table, month := pgx.Identifier{m.Name}.Sanitize(), m.Month.UTC().Format("2006-01")
	alter := func(statements ...string) (done bool, err error) {
		err = db.pool.AlterTable(ctx, func(tx pgx.Tx) error {
			for _, sql := range statements {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return err
				}
			}
			done = true
			return nil
		})
		return done, scoped.Classify("drop a month of clicks", err)
	}
	if m.Attached {
		// Deleting a link's clicks must reach the month until it is dropped.
		if out, err := alter(`ALTER TABLE click_event DETACH PARTITION `+table, `SELECT waypost_protect('`+m.Name+`')`); err != nil || !out {
			return false, err
		}
	}
	failpoint.Hit("drop clicks: detached")
	if db.cfg.ExportEvents != "" {
		if err := db.exportMonth(ctx, db.cfg.ExportEvents, table, month); err != nil {
			return false, fmt.Errorf("export the clicks of %s: %w", month, err)
		}
	}
	failpoint.Hit("drop clicks: exported")
	if done, err = alter(`DROP TABLE ` + table); done && err == nil {
		db.pool.Log.Info("dropped a month of clicks", "month", month, "exported_to", db.cfg.ExportEvents)
	}
	return done, err
}

// exportMonth writes a table to clicks-YYYY-MM.jsonl.gz, synced before it gets that
// name, and its name synced, too. It replaces a file of an earlier try, which has the
// same clicks.
func (db *Store) exportMonth(ctx context.Context, dir, table, month string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return atomicfile.WriteWith(filepath.Join(dir, "clicks-"+month+".jsonl.gz"), 0o600, func(w io.Writer) error {
		z := gzip.NewWriter(w)
		return errors.Join(db.copyEvents(ctx, z, table), z.Close())
	})
}

// exportedBlocks is the number of blocks that one transaction reads: some 20,000 clicks.
const exportedBlocks = 250

// selectExported reads the clicks in a part of a table.
const selectExported = `
SELECT row_to_json(e)::text FROM (
	SELECT c.at, c.workspace_id, c.link_id, l.domain_id, l.code, c.clicks, c.bot, c.country, c.city, c.device, c.browser, c.os, c.referrer,
	       c.rule, c.variant
	FROM %s c LEFT JOIN LATERAL (SELECT domain_id, coalesce(typed_code, code) AS code FROM link WHERE id = c.link_id LIMIT 1) l ON true
	WHERE c.ctid >= $1::text::tid AND c.ctid < $2::text::tid) e`

// copyEvents writes a JSON object a line. It reads a table that gets no more rows, in the
// order on the disk. Each part is read in its own transaction and then written, because a
// transaction as long as the export would keep vacuum from cleaning up every table of the
// database. The scope sees all tenants' rows.
func (db *Store) copyEvents(ctx context.Context, w io.Writer, table string) error {
	var blocks int64
	if err := db.pool.QueryRowIn(ctx, scoped.Operator, `SELECT pg_relation_size($1::regclass) / current_setting('block_size')::bigint`,
		[]any{table}, &blocks); err != nil {
		return err
	}
	var lines []byte
	for first := int64(0); first < blocks; first += exportedBlocks {
		lines = lines[:0]
		var b pgx.Batch
		scoped.Operator.EnterBatch(&b)
		b.Queue(moreTime, ingestTimeLimit)
		b.Queue(fmt.Sprintf(selectExported, table), fmt.Sprintf("(%d,0)", first),
			fmt.Sprintf("(%d,0)", first+exportedBlocks)).Query(scoped.Each(func(rows pgx.Rows) error {
			lines = append(append(lines, rows.RawValues()[0]...), '\n')
			return nil
		}))
		if err := db.pool.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		if _, err := w.Write(lines); err != nil {
			return err
		}
	}
	return nil
}
