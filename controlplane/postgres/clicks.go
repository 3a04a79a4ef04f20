package postgres

import (
	"bytes"
	"context"
	"math"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
)

var _ controlplane.ClickStore = (*DB)(nil)

const (
	// A click's own time is believed within these bounds around its receipt.
	maxClickAhead = 5 * time.Minute
	maxClickAge   = 30 * 24 * time.Hour

	// ingestTimeLimit, in milliseconds, is for the largest batch on a busy disk. The
	// usual limit would refuse such a batch at every try, and the edge's queue with it.
	ingestTimeLimit = "20000"

	// keptDeadLetters is how many dead letters of a node keep their body.
	keptDeadLetters = 100
)

// The row of a boot's watermark comes with its first batch, and is locked before
// anything else, so that two copies of a batch queue up.
const (
	createWatermark = `INSERT INTO click_watermark (node, boot) SELECT $1, $2 WHERE $3::bigint = 1 ON CONFLICT DO NOTHING`
	lockWatermark   = `SELECT FROM click_watermark WHERE node = $1 AND boot = $2 FOR UPDATE`
)

// countClicks does nothing unless the batch is the next one. Links that were
// deleted count too: their edges did redirect. The counters are taken in the order of
// their keys, so that batches with the same links wait for each other and never in
// a circle.
const countClicks = `
WITH next AS (
	SELECT FROM click_watermark WHERE node = $1 AND boot = $2 AND seq = $3::bigint - 1
), sent AS MATERIALIZED (
	SELECT l.id, l.workspace_id, sum(s.clicks)::bigint AS clicks, sum(s.bots)::bigint AS bots, max(s.at) AS at
	FROM next
	CROSS JOIN unnest($5::bigint[], $6::text[], $7::bigint[], $8::bigint[], $9::timestamptz[]) AS s (domain_id, code, clicks, bots, at)
	LEFT JOIN link l ON l.domain_id = s.domain_id AND l.code = s.code
	GROUP BY l.id, l.workspace_id
), counted AS (
	INSERT INTO link_click AS c (link_id, workspace_id, clicks, bot_clicks, last_accessed_at)
	SELECT id, workspace_id, clicks, bots, at FROM sent WHERE id IS NOT NULL ORDER BY id
	ON CONFLICT (link_id) DO UPDATE
	SET clicks = least(c.clicks::numeric + excluded.clicks, 9223372036854775807)::bigint,
	    bot_clicks = least(c.bot_clicks::numeric + excluded.bot_clicks, 9223372036854775807)::bigint,
	    last_accessed_at = greatest(c.last_accessed_at, excluded.last_accessed_at)
), size AS (
	SELECT coalesce(sum(clicks) FILTER (WHERE id IS NOT NULL), 0)::bigint AS known,
	       coalesce(sum(clicks) FILTER (WHERE id IS NULL), 0)::bigint AS unknown
	FROM sent
), kept AS (
	INSERT INTO click_batch (node, boot, seq, hash, clicks)
	SELECT $1, $2, $3, $4, size.known + size.unknown FROM next, size
)
UPDATE click_watermark w
SET seq = $3, hash = $4, clicks = w.clicks + size.known, unknown = w.unknown + size.unknown, updated_at = now()
FROM next, size WHERE w.node = $1 AND w.boot = $2
RETURNING size.known, size.unknown`

// keepDeadLetter does nothing for a batch that lies beyond a gap.
const keepDeadLetter = `
INSERT INTO click_dead_letter (node, boot, seq, hash, clicks, reason, body)
SELECT $1, $2, $3, $4, $5::numeric, $6,
       CASE WHEN (SELECT count(*) FROM click_dead_letter WHERE node = $1) < $8 THEN $7::bytea END
FROM click_watermark WHERE node = $1 AND boot = $2 AND seq >= $3
ON CONFLICT DO NOTHING`

// judgeBatch gives the watermark, the hash that is known for the batch's identity,
// and whether this very batch is among the dead letters.
const judgeBatch = `
SELECT coalesce((SELECT seq FROM click_watermark WHERE node = $1 AND boot = $2), 0),
       coalesce((SELECT hash FROM click_batch WHERE node = $1 AND boot = $2 AND seq = $3),
                (SELECT hash FROM click_watermark WHERE node = $1 AND boot = $2 AND seq = $3)),
       EXISTS (SELECT FROM click_dead_letter WHERE node = $1 AND boot = $2 AND seq = $3 AND hash = $4)`

// IngestClicks implements controlplane.ClickStore: one round trip, one transaction;
// another for a dead letter.
func (db *DB) IngestClicks(ctx context.Context, b *waypost.ClickBatch, hash [32]byte, body []byte) (controlplane.ClickReceipt, error) {
	if b.Seq == 0 || b.Seq > math.MaxInt64 {
		return controlplane.ClickReceipt{}, waypost.Errorf(waypost.EInvalid, "the batch's sequence number is out of range")
	}
	var r controlplane.ClickReceipt
	totals, err := clickColumnsOf(b, time.Now())
	if err == nil {
		r, err = db.takeClicks(ctx, b, hash, totals, nil)
	}
	if waypost.CodeOf(err) == waypost.EInvalid {
		return db.buryClicks(ctx, b, hash, body, err)
	}
	if r.Unknown > 0 {
		db.log.Warn("clicks of codes that name no link were counted apart", "node", b.Node, "seq", b.Seq, "clicks", r.Unknown)
	}
	if r.Redated > 0 {
		db.log.Warn("clicks with impossible times were counted at the time of receipt", "node", b.Node, "seq", b.Seq, "clicks", r.Redated)
	}
	return r, err
}

// buryClicks keeps a batch as a dead letter. What the database refuses now it
// would refuse again, so the queue goes on without it.
func (db *DB) buryClicks(ctx context.Context, b *waypost.ClickBatch, hash [32]byte, body []byte, why error) (controlplane.ClickReceipt, error) {
	said := new(big.Int)
	for i := range b.Totals {
		said.Add(said, new(big.Int).SetUint64(b.Totals[i].Count))
	}
	r, err := db.takeClicks(ctx, b, hash, &clickColumns{}, &deadLetter{clicks: said.String(), reason: waypost.MessageOf(why), body: body})
	if err != nil {
		return r, err
	}
	db.log.Error("a batch of clicks was not counted and is kept as a dead letter", "node", b.Node, "seq", b.Seq, "clicks", said.String(), "error", why)
	return controlplane.ClickReceipt{Watermark: r.Watermark, DeadLetter: true}, nil
}

// deadLetter is what is kept of a batch that is not counted.
type deadLetter struct {
	clicks string // a number of any size
	reason string
	body   []byte
}

// takeClicks moves the watermark past the batch, if it is the next one, and counts
// the totals. A batch that was taken before changes nothing; another one under its
// identity is EInvalid, unless it is to be kept as a dead letter.
func (db *DB) takeClicks(ctx context.Context, b *waypost.ClickBatch, hash [32]byte, totals *clickColumns, letter *deadLetter) (controlplane.ClickReceipt, error) {
	var known, unknown, watermark int64
	var taken, buried bool
	var stored []byte
	node, boot, seq := b.Node, [16]byte(b.Boot), int64(b.Seq)

	var q pgx.Batch
	q.Queue(`SELECT set_config('waypost.system', 'on', true), set_config('statement_timeout', $1, true)`, ingestTimeLimit)
	q.Queue(createWatermark, node, boot, seq)
	q.Queue(lockWatermark, node, boot)
	q.Queue(countClicks, node, boot, seq, hash[:], totals.domains, totals.codes, totals.clicks, totals.bots, totals.times).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			taken = true
			if err := rows.Scan(&known, &unknown); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if letter != nil {
		q.Queue(keepDeadLetter, node, boot, seq, hash[:], letter.clicks, letter.reason, letter.body, keptDeadLetters)
	}
	q.Queue(judgeBatch, node, boot, seq, hash[:]).QueryRow(func(row pgx.Row) error {
		return row.Scan(&watermark, &stored, &buried)
	})
	err := db.pool.SendBatch(ctx, &q).Close()
	switch {
	case pgCode(err) == "23503": // foreign_key_violation
		return controlplane.ClickReceipt{}, waypost.WrapError(waypost.EUnavailable, "a link was removed while its clicks were counted", err)
	case err != nil:
		return controlplane.ClickReceipt{}, classify("count clicks", err)
	case taken:
		return controlplane.ClickReceipt{Watermark: b.Seq, Clicks: uint64(known), Unknown: uint64(unknown), Redated: totals.redated}, nil
	case seq > watermark:
		return controlplane.ClickReceipt{}, &controlplane.ClickGapError{Watermark: uint64(watermark)}
	case letter == nil && !buried && stored != nil && !bytes.Equal(stored, hash[:]):
		return controlplane.ClickReceipt{}, waypost.Errorf(waypost.EInvalid, "another batch was taken under this identity")
	}
	return controlplane.ClickReceipt{Watermark: uint64(watermark), DeadLetter: buried}, nil
}

// clickColumns are the parallel arrays of countClicks.
type clickColumns struct {
	domains []int64
	codes   []string
	clicks  []int64
	bots    []int64 // of the clicks
	times   []time.Time
	redated uint64 // clicks whose time was replaced
}

// maxClicksOfLink bounds what one batch may say of one link: nobody clicks that
// often, and a wrong number must not poison the counter.
const maxClicksOfLink = 1 << 32

// clickColumnsOf judges the totals of a batch. EInvalid: they cannot be counted.
func clickColumnsOf(b *waypost.ClickBatch, now time.Time) (*clickColumns, error) {
	n := len(b.Totals)
	c := &clickColumns{
		domains: make([]int64, n), codes: make([]string, n), clicks: make([]int64, n), bots: make([]int64, n), times: make([]time.Time, n),
	}
	left := uint64(math.MaxInt64)
	for i := range b.Totals {
		t := &b.Totals[i]
		if t.Count == 0 || t.Count > maxClicksOfLink || t.Count > left {
			return nil, waypost.Errorf(waypost.EInvalid, "the batch has a count that is zero or beyond all bounds")
		}
		left -= t.Count
		at := time.UnixMilli(t.Last)
		if at.After(now.Add(maxClickAhead)) || at.Before(now.Add(-maxClickAge)) {
			at = now
			c.redated += t.Count
		}
		c.domains[i], c.codes[i], c.times[i] = int64(t.Domain), string(t.Code), at
		c.clicks[i], c.bots[i] = int64(t.Count), int64(min(t.Bots, t.Count))
	}
	return c, nil
}
