package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// ScheduledLinks implements controlplane.ScheduleStore. Of each link it reads the rules
// and the version.
func (db *LinkStore) ScheduledLinks(ctx context.Context, after int64, limit int) (links []waypost.Link, err error) {
	var l waypost.Link
	var stamp int64
	err = db.pool.QueryIn(ctx, scoped.Reaper, `
		SELECT id, redirect_status, rules, programme, rev_epoch, rev_seq, stamp FROM link
		WHERE id > $1 AND deleted_at IS NULL AND programme IS NOT NULL AND get_bit(programme, 15) = 1
		ORDER BY id LIMIT $2`, []any{after, limit}, scoped.ForEach([]any{
		&l.ID, &l.RedirectStatus, &l.Rules, &l.Programme, &l.Revision.Epoch, &l.Revision.Seq, &stamp,
	}, func() error {
		l.Stamp = uint64(stamp)
		links = append(links, l)
		l.Rules, l.Programme = nil, nil // rows share no memory
		return nil
	}))
	return links, scoped.Classify("read the links with schedules", err)
}

// ReplaceProgramme implements controlplane.ScheduleStore. The trigger
// changelog_stamp_link keeps the version that the owner knows.
func (db *LinkStore) ReplaceProgramme(ctx context.Context, at controlplane.Version, l *waypost.Link) (changed bool, err error) {
	var head begun
	var b pgx.Batch
	scoped.Reaper.EnterBatch(&b)
	b.Queue(selectBegin, 0).QueryRow(head.scan)
	b.Queue(`SELECT set_config('waypost.recompiling', 'on', true)`)
	b.Queue(`
		WITH changed AS (
			UPDATE link SET programme = $2
			WHERE id = $1 AND deleted_at IS NULL AND rev_epoch = $3 AND rev_seq = $4 AND stamp = $5 RETURNING id)
		SELECT count(*) > 0 FROM changed`,
		l.ID, l.Programme, at.Revision.Epoch, int64(at.Revision.Seq), int64(at.Stamp)).QueryRow(func(row pgx.Row) error {
		return row.Scan(&changed)
	})
	if err := db.pool.SendBatch(ctx, &b).Close(); err != nil {
		return false, scoped.Classify("replace the programme of a link", err)
	}
	db.pool.noteCommit(head.position())
	return changed, nil
}
