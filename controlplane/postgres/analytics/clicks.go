// Package analytics counts clicks in PostgreSQL: it takes batches in, folds their parts
// into counters and rollups, keeps single clicks by month, answers for statistics, and
// deletes the clicks of links that are purged or forgotten. Package rollup has the
// arithmetic. It changes no link; budgets that are used up are ended by the caller's
// Budgets.
package analytics

import (
	"bytes"
	"context"
	"math"
	"math/big"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
	"waypost/internal/failpoint"
	"waypost/internal/memlimit"
)

// Config selects the single clicks to keep, and has the functions of other stores that a
// Store calls.
type Config struct {
	// EventSample: one of that many clicks is kept as an event, in workspaces that want
	// a sample.
	EventSample int
	// EventMonths is the number of whole months for which single clicks are kept.
	EventMonths int
	// ExportEvents is a directory that gets the single clicks of a month before they
	// are dropped. Empty: they are dropped.
	ExportEvents string
	Budgets      Budgets
	Now          func() time.Time // by PostgreSQL's clock

	// Complete returns the time up to which clicks are counted.
	Complete func(context.Context) (controlplane.Completeness, error)
}

// Budgets ends budgets by the clicks that were counted.
type Budgets interface {
	// MarkExhausted marks each of these links that has used up its budget.
	MarkExhausted(ctx context.Context, links []int64) error
	// MarkAllExhausted marks every link that has used up its budget.
	MarkAllExhausted(ctx context.Context) error
}

// Store counts batches of clicks, folds them into statistics, and keeps single
// clicks of workspaces that want them.
type Store struct {
	pool  *scoped.Pool
	cfg   Config
	links linkCache    // has a lock of its own
	swept atomic.Int64 // the link after which SweepGone goes on
}

// New returns a store. Its cache of links takes a share of the available memory.
func New(pool *scoped.Pool, cfg Config) *Store {
	return &Store{pool: pool, cfg: cfg, links: linkCache{most: cacheSets(memlimit.Available())}}
}

const (
	// ingestTimeLimit, in milliseconds, is for the largest batch on a busy disk. The
	// usual limit would refuse such a batch at every try, and the edge's queue with it.
	ingestTimeLimit = "20000"
	moreTime        = `SELECT set_config('statement_timeout', $1, true)`

	// The first dead letters of a node are kept, because they show how the trouble began,
	// and the first of these are kept with their bodies. Later ones are only counted.
	maxDeadLetters  = 1_000
	maxLetterBodies = 100
	maxLetterBytes  = 64 << 20
)

// The row of a boot's watermark comes with its first batch, and is locked before
// anything else, so that two copies of a batch queue up.
const (
	createWatermark = `INSERT INTO click_watermark (node, boot) SELECT $1, $2 WHERE $3::bigint = 1 ON CONFLICT DO NOTHING`
	lockWatermark   = `SELECT FROM click_watermark WHERE node = $1 AND boot = $2 FOR UPDATE`
	isNextBatch     = `EXISTS (SELECT FROM click_watermark WHERE node = $1 AND boot = $2 AND seq = $3::bigint - 1)`
)

// addPack does nothing unless the batch is the next one. It changes no row, so that
// batches with the same links do not wait for each other.
const addPack = `
INSERT INTO click_pack (workspace_id, area, links, days, clicks, bot_clicks, newest, details)
SELECT $4::bigint, $5::bigint, $6::bigint[], $7::date[], $8::bigint[], $9::bigint[], $10::timestamptz[], $11::bytea[]
WHERE ` + isNextBatch

// addWorkspaceParts adds the sums of the workspaces, on the same condition.
const addWorkspaceParts = `
INSERT INTO click_workspace_part (workspace_id, day, clicks, bot_clicks, quarters, breakdown, visitors)
SELECT s.* FROM unnest($4::bigint[], $5::date[], $6::bigint[], $7::bigint[], $8::bytea[], $9::bytea[], $10::bytea[]) AS s
WHERE ` + isNextBatch

// moveWatermark runs after the statements that count the batch, and does nothing unless
// the batch is the next one.
const moveWatermark = `
WITH kept AS (
	INSERT INTO click_batch (node, boot, seq, hash, clicks)
	SELECT $1, $2, $3, $4, $5::bigint + $6::bigint WHERE ` + isNextBatch + `
)
UPDATE click_watermark
SET seq = $3, hash = $4, clicks = clicks + $5, unknown = unknown + $6, updated_at = now(),
    voided = voided + $7, dropped = least(dropped, 1::bigint << 61) + least($8::bigint, 1::bigint << 61)
WHERE node = $1 AND boot = $2 AND seq = $3::bigint - 1
RETURNING true`

// keepDeadLetter does nothing for a batch that lies beyond a gap. Batches of one boot
// wait for each other, so only a few concurrent batches, of other boots, can exceed the
// bounds.
const keepDeadLetter = `
WITH have AS MATERIALIZED (
	SELECT count(*) AS letters, count(body) AS bodies, coalesce(sum(octet_length(body)), 0) AS bytes FROM click_dead_letter WHERE node = $1
), letter AS (
	SELECT h.* FROM have h WHERE EXISTS (SELECT FROM click_watermark WHERE node = $1 AND boot = $2 AND seq >= $3)
	AND NOT EXISTS (SELECT FROM click_dead_letter WHERE node = $1 AND boot = $2 AND seq = $3 AND hash = $4)
), kept AS (
	INSERT INTO click_dead_letter (node, boot, seq, hash, clicks, reason, body)
	SELECT $1, $2, $3, $4, $5::numeric, $6, CASE WHEN bodies < $9 AND bytes + octet_length($7::bytea) <= $10 THEN $7 END
	FROM letter WHERE letters < $8
	ON CONFLICT DO NOTHING
)
INSERT INTO click_dead_letter_more AS m (node, letters, clicks, newest_at)
SELECT $1, 1, $5::numeric, now() FROM letter WHERE letters >= $8
ON CONFLICT (node) DO UPDATE SET letters = m.letters + 1, clicks = m.clicks + excluded.clicks, newest_at = now()`

// judgeBatch returns the watermark, the known hash for the batch's identity, and whether
// this very batch is among the dead letters.
const judgeBatch = `
SELECT coalesce((SELECT seq FROM click_watermark WHERE node = $1 AND boot = $2), 0),
       coalesce((SELECT hash FROM click_batch WHERE node = $1 AND boot = $2 AND seq = $3),
                (SELECT hash FROM click_watermark WHERE node = $1 AND boot = $2 AND seq = $3)),
       EXISTS (SELECT FROM click_dead_letter WHERE node = $1 AND boot = $2 AND seq = $3 AND hash = $4)`

// IngestClicks implements controlplane.ClickStore. It looks up the batch's links and the
// workspaces that want events, and then counts the batch in one round trip and one
// transaction. A dead letter takes another transaction.
func (db *Store) IngestClicks(
	ctx context.Context, b *waypost.ClickBatch, hash [32]byte, body []byte,
) (controlplane.ClickReceipt, error) {
	if b.Seq == 0 || b.Seq > math.MaxInt64 {
		return controlplane.ClickReceipt{}, waypost.Errorf(waypost.EInvalid, "the batch's sequence number is out of range")
	}
	r, err := db.countClicks(ctx, b, hash)
	// If another process makes the table of a month of single clicks at this moment,
	// countClicks fails once for that month.
	for tries := 0; scoped.PgCode(err) == scoped.CheckViolation && tries <= eventMonthsAhead; tries++ {
		r, err = db.countClicks(ctx, b, hash)
	}
	if waypost.CodeOf(err) == waypost.EInvalid {
		return db.buryClicks(ctx, b, hash, body, err)
	}
	if r.Unknown > 0 {
		db.pool.Log.Warn("counted clicks apart, because their codes name no link", "node", b.Node, "seq", b.Seq, "clicks", r.Unknown)
	}
	if r.Redated > 0 {
		db.pool.Log.Warn("counted clicks with impossible times at the time of receipt", "node", b.Node, "seq", b.Seq, "clicks", r.Redated)
	}
	if r.Voided || r.Dropped > 0 {
		db.pool.Log.Error("heard from an edge that it has lost clicks", "node", b.Node, "seq", b.Seq, "batch_lost", r.Voided, "clicks_dropped", r.Dropped)
	}
	return r, err
}

// countClicks counts a batch. It fails with EInvalid if the batch can never be counted.
func (db *Store) countClicks(ctx context.Context, b *waypost.ClickBatch, hash [32]byte) (controlplane.ClickReceipt, error) {
	targets, err := db.targetsOf(ctx, b)
	if err != nil {
		return controlplane.ClickReceipt{}, err
	}
	utm, err := db.utmOf(ctx, b, targets)
	if err != nil {
		return controlplane.ClickReceipt{}, err
	}
	now := db.cfg.Now() // this machine's clock may be wrong, and a redated click stays so
	parts, err := partsOf(b, targets, utm, now)
	if err != nil {
		return controlplane.ClickReceipt{}, err
	}
	events, err := db.eventsOf(ctx, b, hash, targets, now)
	if err != nil {
		return controlplane.ClickReceipt{}, err
	}
	return db.takeClicks(ctx, b, hash, parts, events, nil)
}

// buryClicks keeps a batch as a dead letter. The database would refuse the batch again,
// so the queue goes on without it.
func (db *Store) buryClicks(
	ctx context.Context, b *waypost.ClickBatch, hash [32]byte, body []byte, why error,
) (controlplane.ClickReceipt, error) {
	said := new(big.Int)
	for i := range b.Links {
		for _, r := range b.Links[i].Rows {
			said.Add(said, new(big.Int).SetUint64(r.Count))
		}
	}
	r, err := db.takeClicks(ctx, b, hash, &clickParts{}, nil, &deadLetter{clicks: said.String(), reason: waypost.MessageOf(why), body: body})
	if err != nil {
		return r, err
	}
	db.pool.Log.Error("cannot count a batch of clicks, kept it as a dead letter", "node", b.Node, "seq", b.Seq, "clicks",
		said.String(), "error", why)
	return controlplane.ClickReceipt{Watermark: r.Watermark, DeadLetter: true}, nil
}

// deadLetter describes a batch that is not counted.
type deadLetter struct {
	clicks string // a number of any size
	reason string
	body   []byte
}

// takeClicks moves the watermark past the batch, if it is the next one, and counts
// its parts. A batch that was taken before changes nothing; another one under its
// identity is EInvalid, unless it is to be kept as a dead letter.
func (db *Store) takeClicks(
	ctx context.Context, b *waypost.ClickBatch, hash [32]byte, parts *clickParts, events *clickEvents, letter *deadLetter,
) (controlplane.ClickReceipt, error) {
	var watermark int64
	var taken, buried bool
	var stored []byte
	node, boot, seq := b.Node, [16]byte(b.Boot), int64(b.Seq)
	r := controlplane.ClickReceipt{Watermark: b.Seq, Clicks: parts.known, Unknown: parts.unknown, Redated: parts.redated}
	if letter == nil {
		r.Voided, r.Dropped = len(b.Links) == 0 && b.Dropped == 0, b.Dropped
	}

	var q pgx.Batch
	scoped.Ingest.LookingUp().EnterBatch(&q)
	q.Queue(moreTime, ingestTimeLimit)
	q.Queue(createWatermark, node, boot, seq)
	q.Queue(lockWatermark, node, boot)
	parts.queue(&q, node, boot, seq)
	if events != nil {
		events.queue(&q, node, boot, seq)
	}
	q.Queue(moveWatermark, node, boot, seq, hash[:], int64(parts.known), int64(parts.unknown), boolToInt(r.Voided),
		int64(min(r.Dropped, math.MaxInt64))).Query(scoped.Each(func(pgx.Rows) error {
		taken = true
		return nil
	}))
	if letter != nil {
		q.Queue(keepDeadLetter, node, boot, seq, hash[:], letter.clicks, letter.reason, letter.body, maxDeadLetters, maxLetterBodies,
			maxLetterBytes)
	}
	q.Queue(judgeBatch, node, boot, seq, hash[:]).QueryRow(func(row pgx.Row) error {
		return row.Scan(&watermark, &stored, &buried)
	})
	failpoint.Hit("ingest clicks: begun")
	results := db.pool.SendBatch(ctx, &q)
	failpoint.Hit("ingest clicks: sent")
	if err := results.Close(); err != nil {
		return controlplane.ClickReceipt{}, scoped.Classify("count clicks", err)
	}
	failpoint.Hit("ingest clicks: committed")
	switch {
	case taken:
		return r, nil
	case seq > watermark:
		return controlplane.ClickReceipt{}, &controlplane.ClickGapError{Watermark: uint64(watermark)}
	case letter == nil && !buried && stored != nil && !bytes.Equal(stored, hash[:]):
		return controlplane.ClickReceipt{}, waypost.Errorf(waypost.EInvalid, "another batch was taken under this identity")
	}
	return controlplane.ClickReceipt{Watermark: uint64(watermark), DeadLetter: buried}, nil
}

func boolToInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
