package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
)

var _ controlplane.LinkStore = (*DB)(nil)

// ofVersion is the condition that a link has the version in parameters $1 to $5: id,
// workspace, epoch, sequence and stamp.
var ofVersion = `id = $1 AND ` + ofWorkspace("workspace_id", "$2") + ` AND rev_epoch = $3 AND rev_seq = $4 AND stamp = $5 AND deleted_at IS NULL`

// UpdateLink implements controlplane.LinkStore.
func (db *DB) UpdateLink(ctx context.Context, at controlplane.Version, l *waypost.Link, twin *[32]byte) (waypost.Position, bool, error) {
	tags, err := json.Marshal(l.Tags)
	if err != nil {
		return waypost.Position{}, false, waypost.WrapError(waypost.EInvalid, "tags cannot be encoded", err)
	}
	var location, metadata *string
	if l.Location != l.OriginalURL {
		location = &l.Location
	}
	if len(l.Metadata) > 0 {
		s := string(l.Metadata)
		metadata = &s
	}
	var expiry *time.Time
	if !l.ExpiresAt.IsZero() {
		expiry = &l.ExpiresAt
	}
	version := []any{l.ID, l.Workspace, at.Revision.Epoch, int64(at.Revision.Seq), int64(at.Stamp)}
	var head begun
	var b pgx.Batch
	tenantOf(l.Workspace).first(&b)
	b.Queue(selectBegin, 0).QueryRow(head.scan)
	if twin != nil {
		// Another text may have the same Location, which the trigger would take for one that
		// was left behind: so the old one goes first.
		b.Queue(`UPDATE link SET original_url = location, location = NULL WHERE location = $6 AND original_url <> $7 AND `+ofVersion, append(version, l.Location, l.OriginalURL)...)
	}
	changed := false
	b.Queue(`
		UPDATE link SET original_url = $6, location = $7, redirect_status = $8, title = $9, description = $10,
			tags = ARRAY(SELECT jsonb_array_elements_text(coalesce(nullif($11, 'null'), '[]')::jsonb)), metadata = $12::text::jsonb, active = $13,
			expires_at = $14, forward_query = $15, forward_path = $16, updated_at = now()
		WHERE `+ofVersion+` OR id = $1 AND `+ofWorkspace("workspace_id", "$2")+` AND deleted_at IS NULL
			AND rev_epoch = current_setting('waypost.epoch')::integer AND rev_seq = current_setting('waypost.seq')::bigint
		RETURNING updated_at, rev_epoch, rev_seq, stamp`,
		append(version, l.OriginalURL, location, l.RedirectStatus, l.Title, l.Description, string(tags), metadata, l.Active,
			expiry, l.Flags&waypost.ForwardQuery != 0, l.Flags&waypost.ForwardPath != 0)...).Query(func(rows pgx.Rows) error {
		var stamp int64
		_, err := pgx.ForEachRow(rows, []any{&l.UpdatedAt, &l.Revision.Epoch, &l.Revision.Seq, &stamp}, func() error {
			changed, l.Stamp, l.UpdatedAt = true, uint64(stamp), l.UpdatedAt.UTC()
			return nil
		})
		return err
	})
	if twin != nil {
		// Another link may be the one of the new target; then it stays that.
		b.Queue(`
			WITH was AS (
				DELETE FROM link_dedupe d USING link l
				WHERE d.link_id = $1 AND `+ofWorkspace("d.workspace_id", "$2")+` AND l.id = d.link_id
				  AND l.rev_epoch = current_setting('waypost.epoch')::integer AND l.rev_seq = current_setting('waypost.seq')::bigint
				RETURNING d.workspace_id, d.domain_id)
			INSERT INTO link_dedupe (workspace_id, domain_id, target, link_id) SELECT workspace_id, domain_id, $3, $1 FROM was
			ON CONFLICT (workspace_id, domain_id, target) DO NOTHING`, l.ID, l.Workspace, twin[:])
	}
	if err := db.pool.SendBatch(ctx, &b).Close(); err != nil {
		return waypost.Position{}, false, classify("change a link", err)
	}
	db.note(head.position())
	return head.position(), changed, nil
}
