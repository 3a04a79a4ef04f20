package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"waypost"
	"waypost/controlplane/postgres/scoped"
	"waypost/replication"
)

// Changelog reads the changelog and the replicated rows for followers, and keeps its
// partitions. It implements controlplane.DigestStore and replication.Source.
type Changelog struct {
	pool *pool
	cfg  Config
}

var _ replication.Source = (*Changelog)(nil)

const selectHead = `
SELECT (SELECT id FROM cluster WHERE singleton), h.epoch, e.id, h.seq, h.stamp, h.digest, clock_timestamp()
FROM changelog_head h JOIN changelog_epoch e ON e.ordinal = h.epoch WHERE h.singleton`

func scanHead(row pgx.Row) (h replication.Head, err error) {
	var stamp, digest int64
	var at time.Time
	err = row.Scan((*[16]byte)(&h.Cluster), &h.Position.Epoch.Ordinal, (*[16]byte)(&h.Position.Epoch.ID),
		&h.Position.Seq, &stamp, &digest, &at)
	h.Position.Stamp, h.Digest, h.At = uint64(stamp), uint64(digest), at.UnixMilli()
	return h, err
}

func (db *Changelog) Head(ctx context.Context) (replication.Head, error) {
	var h replication.Head
	var b pgx.Batch
	scoped.Stream.EnterBatch(&b)
	b.Queue(selectHead).QueryRow(func(row pgx.Row) (err error) {
		h, err = scanHead(row)
		return err
	})
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return h, scoped.Classify("connect", err)
	}
	defer conn.Release()
	asked := time.Now()
	if err := conn.SendBatch(ctx, &b).Close(); err != nil {
		return h, scoped.Classify("read the head", err)
	}
	db.pool.clock.heard(asked, time.UnixMilli(h.At))
	return h, nil
}

// Changed implements replication.Source. It signals this process's own commits and, while
// [Notifier.Notify] runs, commits of other control planes.
func (db *Changelog) Changed() <-chan struct{} { return db.pool.changed.wait() }

// enterTail enters a scope and has statements planned once for each connection: to plan
// them, partition by partition, takes several times as long as to run them. The plan must
// not depend on how short the changelog is at that moment.
const enterTail = `SELECT set_config('role', $1, true), set_config('plan_cache_mode', 'force_generic_plan', true),
	set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true)`

func (db *Changelog) Read(ctx context.Context, after waypost.Position, maxRecords int) (replication.Batch, error) {
	var head replication.Head
	var known, same bool
	var b replication.Batch
	var rows changelogRows

	var q pgx.Batch
	q.Queue(enterTail, scoped.Stream.Role)
	q.Queue(selectHead).QueryRow(func(row pgx.Row) (err error) {
		head, err = scanHead(row)
		return err
	})
	q.Queue(`SELECT epoch = $2 AND stamp = $3 FROM changelog WHERE seq = $1 AND ord = 0`,
		int64(after.Seq), int64(after.Epoch.Ordinal), int64(after.Stamp)).
		Query(scoped.ForEach([]any{&same}, func() error { known = true; return nil }))
	// One row more than asked for shows whether the last transaction is whole.
	q.Queue(selectChangelog+` WHERE seq > $1 ORDER BY seq, ord LIMIT $2`, int64(after.Seq), maxRecords+1).Query(rows.read)
	if err := db.pool.SendBatch(ctx, &q).Close(); err != nil {
		return b, scoped.Classify("read the changelog", err)
	}
	switch {
	case head.Position.Epoch != after.Epoch, after.Seq > head.Position.Seq, known && !same:
		return b, replication.ErrOtherHistory
	case !known:
		return b, replication.ErrTrimmed
	}
	b.Epoch = head.Position.Epoch
	if b.AtHead = len(rows.all) <= maxRecords; !b.AtHead {
		if err := db.wholeTransactions(ctx, &rows); err != nil {
			return b, err
		}
	}
	var err error
	b.Transactions, err = rows.transactions(after.Seq, b.Epoch.Ordinal)
	return b, err
}

// wholeTransactions drops the last transaction, which may be cut. If it is the only one,
// wholeTransactions reads all of it, unless it is too large.
func (db *Changelog) wholeTransactions(ctx context.Context, rows *changelogRows) error {
	last := rows.all[len(rows.all)-1].seq
	i := len(rows.all)
	for i > 0 && rows.all[i-1].seq == last {
		i--
	}
	if i > 0 {
		rows.all = rows.all[:i]
		return nil
	}
	rows.all = nil
	var count, bytes int64
	err := db.pool.QueryRowIn(ctx, scoped.Stream, `SELECT count(*), coalesce(sum(octet_length(payload) + coalesce(octet_length(programme), 0)), 0) FROM changelog WHERE seq = $1`,
		[]any{last}, &count, &bytes)
	if err != nil {
		return scoped.Classify("measure a transaction", err)
	}
	if count > int64(db.cfg.MaxTransaction) || bytes > maxTransactionBytes {
		db.pool.Log.Warn("cannot stream a transaction of this size: followers take a snapshot", "seq", last, "records", count, "bytes", bytes)
		return replication.ErrTrimmed
	}
	err = db.pool.QueryIn(ctx, scoped.Stream, selectChangelog+` WHERE seq = $1 ORDER BY ord`, []any{last}, rows.read)
	return scoped.Classify("read a transaction", err)
}

// maxTransactionBytes bounds the payloads of a transaction that is streamed, because a
// frame has a limit.
const maxTransactionBytes = 24 << 20

const selectChangelog = `
SELECT seq, epoch, kind, stamp, digest, at, domain_id, name, state, status, flags, expires_at, payload, programme FROM changelog`

// changelogRow is a row as it is stored: an opening or closing mark (kind 0), or an
// entry.
type changelogRow struct {
	seq, stamp           int64
	epoch                int32
	kind                 int16
	digest               pgtype.Int8
	at                   time.Time
	domain               pgtype.Int4
	name, payload        []byte
	programme            []byte
	state, status, flags pgtype.Int2
	expires              pgtype.Timestamptz
}

type changelogRows struct{ all []changelogRow }

func (rs *changelogRows) read(rows pgx.Rows) error {
	var r changelogRow
	into := []any{
		&r.seq, &r.epoch, &r.kind, &r.stamp, &r.digest, &r.at,
		&r.domain, &r.name, &r.state, &r.status, &r.flags, &r.expires, &r.payload, &r.programme,
	}
	return scoped.ForEach(into, func() error { rs.all = append(rs.all, r); return nil })(rows)
}

// transactions groups rows that follow sequence after, encoding each record once.
// A gap means that a part of the log is gone, a foreign epoch that a new one began.
func (rs *changelogRows) transactions(after uint64, epoch uint32) ([]replication.Transaction, error) {
	var txs []replication.Transaction
	var encoded []byte // of all records, one behind the other
	for i := range rs.all {
		r := &rs.all[i]
		if uint32(r.epoch) != epoch {
			return nil, replication.ErrOtherHistory
		}
		if len(txs) == 0 || txs[len(txs)-1].Seq != uint64(r.seq) {
			if uint64(r.seq) != after+1 {
				return nil, replication.ErrTrimmed
			}
			after++
			txs = append(txs, replication.Transaction{Seq: uint64(r.seq), At: r.at.UnixMilli()})
		}
		tx := &txs[len(txs)-1]
		if r.kind == 0 {
			tx.Stamp, tx.Digest, tx.At = uint64(r.stamp), uint64(r.digest.Int64), r.at.UnixMilli()
			continue
		}
		rec := waypost.Record{
			Kind: waypost.Kind(r.kind), State: waypost.State(r.state.Int16), Status: uint16(r.status.Int16),
			Flags:  waypost.LinkFlags(r.flags.Int16),
			Domain: waypost.DomainID(r.domain.Int32), Name: r.name,
			Revision: waypost.Revision{Epoch: uint32(r.epoch), Seq: uint64(r.seq)}, Stamp: uint64(r.stamp),
			Payload: r.payload, Programme: r.programme,
		}
		if r.expires.Valid {
			rec.ExpiresAt = millis(&r.expires.Time)
		}
		before := len(encoded)
		encoded = encode(encoded, &rec)
		tx.Records = append(tx.Records, encoded[before:len(encoded):len(encoded)])
	}
	return txs, nil
}

// encode appends a record that followers can decode, whatever the row holds. If the
// payload exceeds the bounds, which only a change of the schema by hand can cause, the
// record goes out without payload, and a link as a tombstone, so that the digest stays
// right and nothing wrong is served.
func encode(dst []byte, r *waypost.Record) []byte {
	if len(r.Payload) <= waypost.MaxPayload && len(r.Programme) <= waypost.MaxProgramme {
		return replication.AppendRecord(dst, r)
	}
	poison := *r
	poison.Payload, poison.Programme = nil, nil
	if poison.Kind.IsLink() && poison.State != waypost.Purged {
		poison.State = waypost.Deleted
	}
	return replication.AppendRecord(dst, &poison)
}

// selectRecords selects every replicated row as its record, for the slots $1 to $2.
const selectRecords = `
SELECT link_kind(custom, code), domain_id, code, link_state(active, deleted_at), redirect_status,
       link_flags(forward_query, forward_path, exhausted, aliases IS NOT NULL), expires_at,
       link_payload(location, original_url, deleted_at), rev_epoch, rev_seq, stamp, link_programme(programme, deleted_at)
FROM link WHERE slot BETWEEN $1 AND $2
UNION ALL SELECT 1, domain_id, code, 0, 302, 16, NULL, target, rev_epoch, rev_seq, stamp, NULL FROM link_alias
	WHERE slot BETWEEN $1 AND $2
UNION ALL SELECT 2, 0, id::text, 0, 0, 0, NULL, changelog_payload(to_jsonb(d)), rev_epoch, rev_seq, stamp, NULL FROM domain d
	WHERE slot BETWEEN $1 AND $2
UNION ALL SELECT 3, 0, id::text, 0, 0, 0, NULL, changelog_payload(to_jsonb(r)), rev_epoch, rev_seq, stamp, NULL FROM key_range r
	WHERE slot BETWEEN $1 AND $2
UNION ALL SELECT 4, 0, id::text, 0, 0, 0, NULL, changelog_payload(to_jsonb(l)), rev_epoch, rev_seq, stamp, NULL FROM key_lease l
	WHERE slot BETWEEN $1 AND $2
UNION ALL SELECT 5, 0, salt_name(day), 0, 0, 0, NULL, salt_payload(salt), rev_epoch, rev_seq, stamp, NULL FROM visitor_salt s
	WHERE slot BETWEEN $1 AND $2`

// rawRecords reads the rows of selectRecords as PostgreSQL sends them, in binary, which
// takes much less time than to scan them.
type rawRecords struct {
	visit  func(record []byte) error
	record waypost.Record
	buf    []byte
}

// postgresEpoch is the origin of PostgreSQL's times, in Unix microseconds.
const postgresEpoch = 946_684_800_000_000

// sendRow converts a row into a record and passes it to visit.
func (c *rawRecords) sendRow(row [][]byte) error {
	var ints [12]int64
	for i, field := range row {
		switch i {
		case 2, 7, 11: // name, payload and programme
			continue
		case 6:
			if field == nil {
				continue
			}
		}
		switch len(field) {
		case 2:
			ints[i] = int64(int16(binary.BigEndian.Uint16(field)))
		case 4:
			ints[i] = int64(int32(binary.BigEndian.Uint32(field)))
		case 8:
			ints[i] = int64(binary.BigEndian.Uint64(field))
		default:
			return fmt.Errorf("PostgreSQL has sent a number of %d bytes", len(field))
		}
	}
	r := &c.record
	*r = waypost.Record{
		Kind: waypost.Kind(ints[0]), Domain: waypost.DomainID(ints[1]), Name: row[2],
		State: waypost.State(ints[3]), Status: uint16(ints[4]), Flags: waypost.LinkFlags(ints[5]),
		Payload: row[7], Programme: row[11],
		Revision: waypost.Revision{Epoch: uint32(ints[8]), Seq: uint64(ints[9])}, Stamp: uint64(ints[10]),
	}
	if row[6] != nil {
		expires := time.UnixMicro(ints[6] + postgresEpoch)
		r.ExpiresAt = millis(&expires)
	}
	c.buf = encode(c.buf[:0], r)
	return c.visit(c.buf)
}
