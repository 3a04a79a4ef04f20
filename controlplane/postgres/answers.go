package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/zstd"

	"waypost"
	"waypost/controlplane"
)

var _ controlplane.LinkStore = (*DB)(nil)

// maxAnswer bounds an answer that was kept, in bytes: a thousand links with all that
// they may hold.
const maxAnswer = 64 << 20

// packer compresses answers; both halves may be used by many goroutines at once.
var packer = sync.OnceValues(func() (*zstd.Encoder, *zstd.Decoder) {
	e, err1 := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	d, err2 := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxAnswer))
	if err := errors.Join(err1, err2); err != nil {
		panic("postgres: zstd: " + err.Error()) // the options above are wrong
	}
	return e, d
})

func packed(body []byte) []byte {
	e, _ := packer()
	return e.EncodeAll(body, nil)
}

func unpacked(body []byte) ([]byte, error) {
	_, d := packer()
	b, err := d.DecodeAll(body, nil)
	if err != nil {
		return nil, fmt.Errorf("a kept answer cannot be read: %w", err)
	}
	return b, nil
}

// Response implements controlplane.LinkStore.
func (db *DB) Response(ctx context.Context, id controlplane.RequestID) (a controlplane.Response, request [32]byte, found bool, err error) {
	err = db.queryIn(ctx, tenantOf(id.Workspace), `
		SELECT request, status, header, body FROM idempotency WHERE `+ofWorkspace("workspace_id", "$1")+` AND route = $2 AND key = $3`,
		[]any{id.Workspace, id.Route, id.Key}, func(rows pgx.Rows) error {
			for rows.Next() {
				var hash, body []byte
				if err := rows.Scan(&hash, &a.Status, &a.Header, &body); err != nil {
					return err
				}
				if a.Body, err = unpacked(body); err != nil {
					return err
				}
				request, found = [32]byte(hash), true
			}
			return rows.Err()
		})
	return a, request, found, classify("look for an answer", err)
}

// forgetAnswers removes the answers that were kept for long enough.
func (db *DB) forgetAnswers(ctx context.Context) error {
	for {
		var gone int64
		var b pgx.Batch
		system.first(&b)
		b.Queue(`
			WITH gone AS (DELETE FROM idempotency WHERE (workspace_id, route, key) IN (
				SELECT workspace_id, route, key FROM idempotency WHERE created_at < now() - $1::interval
				ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING 1)
			SELECT count(*) FROM gone`, db.cfg.KeepAnswers, forgottenAtOnce).QueryRow(func(row pgx.Row) error { return row.Scan(&gone) })
		if err := db.pool.SendBatch(ctx, &b).Close(); err != nil {
			return classify("forget answers", err)
		}
		if gone < forgottenAtOnce {
			return nil
		}
	}
}

var _ controlplane.LinkStore = (*DB)(nil)

// Duplicates implements controlplane.LinkStore. The position is read after the links.
func (db *DB) Duplicates(ctx context.Context, ws waypost.WorkspaceID, twins []controlplane.DedupeKey) (map[controlplane.DedupeKey]waypost.Link, waypost.Position, error) {
	wanted := make([]twinKey, len(twins))
	for i, t := range twins {
		wanted[i] = twinKey{ws, t.Domain, t.Target}
	}
	found := make(map[twinKey]waypost.Link)
	var at begun
	var b pgx.Batch
	tenantOf(ws).first(&b)
	queueTwins(&b, wanted, found)
	b.Queue(`SELECT h.epoch, e.id, h.seq, h.stamp FROM changelog_head h JOIN changelog_epoch e ON e.ordinal = h.epoch`).QueryRow(at.scan)
	if err := db.pool.SendBatch(ctx, &b).Close(); err != nil {
		return nil, waypost.Position{}, classify("look for links of targets", err)
	}
	links := make(map[controlplane.DedupeKey]waypost.Link, len(found))
	for k, l := range found {
		links[controlplane.DedupeKey{Domain: k.domain, Target: k.target}] = l
	}
	return links, at.position(), nil
}

// DedupeByDefault implements controlplane.LinkStore.
func (db *DB) DedupeByDefault(ctx context.Context, ws waypost.WorkspaceID) (dedupe bool, err error) {
	err = db.queryIn(ctx, tenantOf(ws), `SELECT coalesce(settings -> 'dedupe' = 'true', false) FROM workspace WHERE `+ofWorkspace("id", "$1"),
		[]any{ws}, func(rows pgx.Rows) error {
			for rows.Next() {
				if err := rows.Scan(&dedupe); err != nil {
					return err
				}
			}
			return rows.Err()
		})
	return dedupe, classify("read a workspace's settings", err)
}
