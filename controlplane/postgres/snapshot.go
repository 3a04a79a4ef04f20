package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane/postgres/scoped"
	"waypost/replication"
)

// Snapshot implements replication.Source, in a transaction of its own that reads
// the head and the rows as of one moment.
func (db *Changelog) Snapshot(ctx context.Context, first, last uint16, visit func(record []byte) error) (replication.Head, error) {
	rows := rawRecords{visit: visit}
	var refused error // of visit; the rest is passed over
	head, err := db.readSlots(ctx, func(tx pgx.Tx) error {
		slots := [][]byte{strconv.AppendUint(nil, uint64(first), 10), strconv.AppendUint(nil, uint64(last), 10)}
		found := tx.Conn().PgConn().ExecParams(ctx, selectRecords, slots, nil, nil, []int16{pgx.BinaryFormatCode})
		for refused == nil && found.NextRow() {
			refused = rows.sendRow(found.Values())
		}
		_, err := found.Close()
		return err
	})
	if refused != nil {
		return head, refused
	}
	if err != nil {
		return head, scoped.Classify(fmt.Sprintf("snapshot slots %d to %d", first, last), err)
	}
	return head, nil
}

// readSlots reads the head, and then calls read as of the same moment.
func (db *Changelog) readSlots(ctx context.Context, read func(pgx.Tx) error) (head replication.Head, err error) {
	err = pgx.BeginTxFunc(ctx, db.pool, scoped.Stream.ReadOptions(), func(tx pgx.Tx) (err error) {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = '60s'`); err != nil {
			return err
		}
		if head, err = scanHead(tx.QueryRow(ctx, selectHead)); err != nil {
			return err
		}
		return read(tx)
	})
	return head, err
}

// selectSums adds up every replicated row of the slots $1 to $2.
const selectSums = `
SELECT slot, bit_xor(stamp), count(*) FROM (
	SELECT slot, stamp FROM link WHERE slot BETWEEN $1 AND $2
	UNION ALL SELECT slot, stamp FROM link_alias WHERE slot BETWEEN $1 AND $2
	UNION ALL SELECT slot, stamp FROM domain WHERE slot BETWEEN $1 AND $2
	UNION ALL SELECT slot, stamp FROM key_range WHERE slot BETWEEN $1 AND $2
	UNION ALL SELECT slot, stamp FROM key_lease WHERE slot BETWEEN $1 AND $2
	UNION ALL SELECT slot, stamp FROM visitor_salt WHERE slot BETWEEN $1 AND $2) r
GROUP BY slot`

func (db *Changelog) Sums(ctx context.Context, first, last uint16) ([]replication.Sum, replication.Head, error) {
	sums := make([]replication.Sum, int(last)-int(first)+1)
	head, err := db.readSlots(ctx, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, selectSums, int16(first), int16(last))
		var slot int16
		var digest, records int64
		_, err := pgx.ForEachRow(rows, []any{&slot, &digest, &records}, func() error {
			sums[uint16(slot)-first] = replication.Sum{Digest: uint64(digest), Records: uint64(records)}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, head, scoped.Classify(fmt.Sprintf("add up slots %d to %d", first, last), err)
	}
	return sums, head, nil
}

// Count implements replication.Counter by the planner's estimate.
func (db *Changelog) Count(ctx context.Context) (uint64, error) {
	rows, err := db.estimate(ctx)
	return uint64(max(rows, 0)), err
}

// estimate returns the approximate number of links; below 0 if PostgreSQL has not counted
// yet.
func (db *Changelog) estimate(ctx context.Context) (rows float64, err error) {
	if err := db.pool.QueryRow(ctx, `SELECT reltuples FROM pg_class WHERE oid = 'link'::regclass`).Scan(&rows); err != nil {
		return 0, scoped.Classify("estimate the size", err)
	}
	return rows, nil
}

// snapshotRows is the approximate number of rows of one reading of a snapshot. The rows
// of a slot lie all over the table, so each reading goes through much of it, and fewer
// readings take less time together. A reading of this size takes half a second.
const snapshotRows = 300_000

// SnapshotWidth implements replication.Source by the planner's estimate of the table.
func (db *Changelog) SnapshotWidth(ctx context.Context) (int, error) {
	rows, err := db.estimate(ctx)
	if err != nil {
		return 0, err
	}
	width := waypost.Slots / 4
	for width > 1 && rows*float64(width)/waypost.Slots > snapshotRows {
		width /= 2
	}
	return width, nil
}
