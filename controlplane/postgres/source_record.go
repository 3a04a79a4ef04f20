package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/replication"
)

// selectRecord is one link as selectRecords has it.
const selectRecord = `SELECT * FROM (` + selectRecords + `) AS r(kind, domain, name) WHERE kind = 1 AND domain = $3 AND name = $4`

// RecordAt implements replication.RecordSource. Record and head are of one moment: the
// transaction that reads them takes no lock.
func (db *DB) RecordAt(ctx context.Context, domain waypost.DomainID, code []byte) (record []byte, head replication.Head, err error) {
	slot := int16(waypost.Slot(waypost.KindLink, domain, code))
	err = pgx.BeginTxFunc(ctx, db.pool, stream.beginReading(), func(tx pgx.Tx) error {
		var q pgx.Batch
		q.Queue(selectHead).QueryRow(func(row pgx.Row) (err error) {
			head, err = scanHead(row)
			return err
		})
		q.Queue(selectRecord, slot, slot, int32(domain), string(code)).Query(func(rows pgx.Rows) error {
			var rec waypost.Record
			for rows.Next() {
				if err := scanRecord(rows, &rec); err != nil {
					return err
				}
				record = encode(nil, &rec)
			}
			return rows.Err()
		})
		return tx.SendBatch(ctx, &q).Close()
	})
	if err != nil {
		return nil, head, classify("read a record", err)
	}
	return record, head, nil
}
