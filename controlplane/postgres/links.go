package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/analytics"
	"waypost/controlplane/postgres/scoped"
)

// LinkStore keeps links: it inserts, reads, changes, lists and deletes them, and keeps
// the responses to requests with an Idempotency-Key. It implements
// controlplane.LinkLister and controlplane.LinkStore.
type LinkStore struct{ pool *pool }

// ofVersion is the condition that a link has the version in parameters $1 to $5: id,
// workspace, epoch, sequence and stamp.
var ofVersion = ofAnyVersion + ` AND deleted_at IS NULL`

// ofAnyVersion is ofVersion for a tombstone, too.
var ofAnyVersion = `id = $1 AND ` + scoped.OfWorkspace("workspace_id", "$2") +
	` AND coalesce(edited, ARRAY[rev_epoch, rev_seq, stamp]) = ARRAY[$3::bigint, $4::bigint, $5::bigint]`

var updateLink = updateSets(6)

// nameActor names the actor of a transaction for the history of links.
func nameActor(b *pgx.Batch, by controlplane.Actor) {
	b.Queue(`SELECT set_config('waypost.actor', jsonb_build_object('kind', $1::text, 'id', $2::bigint, 'name', $3::text)::text, true)`,
		by.Kind(), by.ID(), by.Title())
}

func (db *LinkStore) UpdateLink(
	ctx context.Context, by controlplane.Actor, at controlplane.Version, l *waypost.Link, dedupe *[32]byte,
) (waypost.Position, bool, error) {
	version := []any{l.ID, l.Workspace, at.Revision.Epoch, int64(at.Revision.Seq), int64(at.Stamp)}
	var head begun
	var b pgx.Batch
	as := scoped.TenantOf(l.Workspace)
	as.EnterBatch(&b)
	nameActor(&b, by)
	b.Queue(selectBegin, 0).QueryRow(head.scan)
	if dedupe != nil {
		// Another text may have the same Location, and the trigger would take it for a
		// leftover. So the old one is cleared first.
		b.Queue(`UPDATE link SET original_url = location, location = NULL WHERE location = $6 AND original_url <> $7
			AND `+ofVersion, append(version, l.Location, l.OriginalURL)...)
	}
	changed, stamp := false, int64(0)
	b.Queue(`
		UPDATE link SET `+updateLink+`, updated_at = now()
		WHERE `+ofVersion+` OR id = $1 AND `+scoped.OfWorkspace("workspace_id", "$2")+` AND deleted_at IS NULL
			AND rev_epoch = current_setting('waypost.epoch')::integer AND rev_seq = current_setting('waypost.seq')::bigint
		RETURNING updated_at, rev_epoch, rev_seq, stamp`,
		appendUpdate(version, l)...).Query(scoped.ForEach([]any{&l.UpdatedAt, &l.Revision.Epoch, &l.Revision.Seq, &stamp}, func() error {
		changed, l.Stamp, l.UpdatedAt = true, uint64(stamp), l.UpdatedAt.UTC()
		return nil
	}))
	if dedupe != nil {
		// Another link may be noted for the new target; then it stays noted.
		b.Queue(`
			WITH was AS (
				DELETE FROM link_dedupe d USING link l
				WHERE d.link_id = $1 AND `+scoped.OfWorkspace("d.workspace_id", "$2")+` AND l.id = d.link_id
				  AND l.rev_epoch = current_setting('waypost.epoch')::integer AND l.rev_seq = current_setting('waypost.seq')::bigint
				RETURNING d.workspace_id, d.domain_id)
			INSERT INTO link_dedupe (workspace_id, domain_id, target, link_id) SELECT workspace_id, domain_id, $3, $1 FROM was
			ON CONFLICT (workspace_id, domain_id, target) DO NOTHING`, l.ID, l.Workspace, dedupe[:])
	}
	if err := db.pool.Send(ctx, as, &b); err != nil {
		return waypost.Position{}, false, scoped.Classify("change a link", err)
	}
	db.pool.noteCommit(head.position())
	return head.position(), changed, nil
}

// scannedColumns are for scanLink. The host is read only for links outside the default
// domain, which are few.
var scannedColumns = `
SELECT l.id, l.workspace_id, l.domain_id, coalesce(l.typed_code, l.code),
       CASE WHEN l.typed_code IS NULL THEN '' ELSE l.code END, l.custom, l.original_url,
       coalesce(l.location, l.original_url), l.redirect_status,
       link_flags(l.forward_query, l.forward_path, l.exhausted, l.aliases IS NOT NULL), ` + readDetails + `l.created_by, l.active,
       ` + analytics.Counts + `,
       l.created_at, l.updated_at, l.expires_at, l.deleted_at, l.rules, l.programme,
       coalesce(l.edited[1]::integer, l.rev_epoch), coalesce(l.edited[2], l.rev_seq), coalesce(l.edited[3], l.stamp),
       CASE WHEN l.domain_id = 1 THEN '' ELSE (SELECT d.host FROM domain d WHERE d.id = l.domain_id) END,
       CASE WHEN l.aliases IS NOT NULL THEN (SELECT jsonb_agg(` + aliasObject + ` ORDER BY a.n)
           FROM link_alias a JOIN domain d ON d.id = a.domain_id WHERE a.link_id = l.id) END`

// selectLinks reads the links of a page of one workspace, $1, with all their clicks. The
// page is a query of their ids; more are further columns, perhaps of the page.
func selectLinks(page, more string) string {
	return `
WITH page AS MATERIALIZED (SELECT $1::bigint AS workspace_id, x.* FROM (` + page + `) x),
     parts AS MATERIALIZED (` + analytics.PartsOfPage + `)` +
		scannedColumns + more + `
FROM page
JOIN link l ON l.id = page.id AND ` + scoped.OfWorkspace("l.workspace_id", "$1") + `
LEFT JOIN link_click c ON c.link_id = l.id
LEFT JOIN parts p ON p.link_id = l.id`
}

// scanLink reads scannedColumns, and further columns of a query.
func scanLink(row pgx.Rows, more ...any) (l waypost.Link, err error) {
	var accessed, expires, deleted *time.Time
	var stamp int64
	var host *string
	columns := append(make([]any, 0, 32),
		&l.ID, &l.Workspace, &l.Domain, &l.Code, &l.Folded, &l.Custom, &l.OriginalURL, &l.Location, &l.RedirectStatus,
		&l.Flags)
	columns = append(appendDetails(columns, &l.Details),
		&l.CreatedBy, &l.Active,
		&l.Clicks, &l.BotClicks, &accessed,
		&l.CreatedAt, &l.UpdatedAt, &expires, &deleted, &l.Rules, &l.Programme, &l.Revision.Epoch, &l.Revision.Seq, &stamp, &host, &l.Aliases)
	err = row.Scan(append(columns, more...)...)
	l.Stamp = uint64(stamp)
	if host != nil {
		l.Host = *host
	}
	l.CreatedAt, l.UpdatedAt = l.CreatedAt.UTC(), l.UpdatedAt.UTC()
	l.LastAccessedAt, l.ExpiresAt, l.DeletedAt = scoped.UTC(accessed), scoped.UTC(expires), scoped.UTC(deleted)
	return l, err
}

func (db *LinkStore) Link(ctx context.Context, ws waypost.WorkspaceID, domain waypost.DomainID, code waypost.Code) (waypost.Link, error) {
	var l waypost.Link
	found := false
	err := db.pool.QueryIn(ctx, scoped.TenantOf(ws), selectLinks(`
		SELECT id FROM link
		WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND domain_id = $2 AND code = $3 AND deleted_at IS NULL
		UNION ALL
		SELECT l.id FROM link_alias a JOIN link l ON l.id = a.link_id AND l.deleted_at IS NULL
		WHERE `+scoped.OfWorkspace("a.workspace_id", "$1")+` AND a.domain_id = $2 AND a.code = $3`, ""),
		[]any{ws, domain, code}, scoped.Each(func(rows pgx.Rows) (err error) {
			found = true
			l, err = scanLink(rows)
			return err
		}))
	if err == nil && !found {
		return l, waypost.ErrNoLink
	}
	return l, scoped.Classify("read a link", err)
}

// DeleteLink implements controlplane.LinkStore. It reports a missing link without a turn
// at the head of the changelog.
func (db *LinkStore) DeleteLink(
	ctx context.Context, by controlplane.Actor, domain waypost.DomainID, code waypost.Code,
) (waypost.Position, error) {
	ws := by.Workspace
	switch l, err := db.Link(ctx, ws, domain, code); {
	case err != nil:
		return waypost.Position{}, err
	case l.Domain != domain || l.Key() != code:
		return waypost.Position{}, waypost.Errorf(waypost.EConflict,
			"the code %q is an alias of a link: remove the alias, or delete the link by its own code", code)
	}
	var at begun
	var deleted int
	var b pgx.Batch
	as := scoped.TenantOf(ws)
	as.EnterBatch(&b)
	nameActor(&b, by)
	b.Queue(selectBegin, 0).QueryRow(at.scan)
	b.Queue(`
		WITH gone AS (
			UPDATE link SET deleted_at = now(), updated_at = now()
			WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND domain_id = $2 AND code = $3 AND deleted_at IS NULL
			RETURNING id)
		SELECT count(*) FROM gone`, ws, domain, code).QueryRow(func(row pgx.Row) error {
		return row.Scan(&deleted)
	})
	if err := db.pool.Send(ctx, as, &b); err != nil {
		return waypost.Position{}, scoped.Classify("delete a link", err)
	}
	db.pool.noteCommit(at.position())
	if deleted == 0 {
		return waypost.Position{}, waypost.ErrNoLink
	}
	return at.position(), nil
}

func (db *LinkStore) DeletedLink(
	ctx context.Context, ws waypost.WorkspaceID, domain waypost.DomainID, code waypost.Code, most time.Duration,
) (l waypost.Link, late bool, err error) {
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws), selectLinks(
		`SELECT id FROM link WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND domain_id = $2 AND code = $3`,
		`, coalesce(l.deleted_at < now() - $4::interval, false)`), []any{ws, domain, code, most}, scoped.Each(func(rows pgx.Rows) (err error) {
		l, err = scanLink(rows, &late)
		return err
	}))
	switch {
	case err != nil:
		return l, late, scoped.Classify("read a deleted link", err)
	case l.ID == 0:
		return l, late, waypost.Errorf(waypost.ENotFound, "there is no such link, and no deleted one")
	case l.DeletedAt.IsZero():
		return l, late, waypost.Errorf(waypost.EConflict, "the link is there: it was not deleted")
	}
	return l, late, nil
}

// RestoreLink implements controlplane.LinkStore. To the triggers it is a change of the
// link like any other, so that edges get it with the stream.
func (db *LinkStore) RestoreLink(
	ctx context.Context, by controlplane.Actor, at controlplane.Version, l *waypost.Link,
) (waypost.Position, bool, error) {
	var head begun
	restored, stamp := false, int64(0)
	var b pgx.Batch
	as := scoped.TenantOf(l.Workspace)
	as.EnterBatch(&b)
	nameActor(&b, by)
	b.Queue(selectBegin, 0).QueryRow(head.scan)
	b.Queue(`UPDATE link SET deleted_at = NULL, updated_at = now() WHERE `+ofAnyVersion+` AND deleted_at IS NOT NULL
		RETURNING updated_at, rev_epoch, rev_seq, stamp`,
		l.ID, l.Workspace, at.Revision.Epoch, int64(at.Revision.Seq), int64(at.Stamp)).
		Query(scoped.ForEach([]any{&l.UpdatedAt, &l.Revision.Epoch, &l.Revision.Seq, &stamp}, func() error {
			restored, l.Stamp, l.UpdatedAt, l.DeletedAt = true, uint64(stamp), l.UpdatedAt.UTC(), time.Time{}
			return nil
		}))
	switch err := db.pool.Send(ctx, as, &b); {
	case scoped.PgCode(err) == scoped.UniqueViolation:
		return waypost.Position{}, false, waypost.Errorf(waypost.EConflict,
			"another pattern leads from the same addresses as %q: delete it first", l.Code)
	case err != nil:
		return waypost.Position{}, false, scoped.Classify("restore a link", err)
	}
	db.pool.noteCommit(head.position())
	return head.position(), restored, nil
}

func (db *LinkStore) Record(ctx context.Context, domain waypost.DomainID, code waypost.Code) (waypost.Record, bool, error) {
	rec := waypost.Record{Kind: waypost.KindOf(string(code))}
	found := false
	err := db.pool.QueryIn(ctx, scoped.Stream, `
		SELECT domain_id, code, link_state(active, deleted_at), redirect_status,
		       link_flags(forward_query, forward_path, exhausted, aliases IS NOT NULL), expires_at,
		       link_payload(location, original_url, deleted_at), link_programme(programme, deleted_at),
		       coalesce(edited[1]::integer, rev_epoch), coalesce(edited[2], rev_seq), coalesce(edited[3], stamp)
		FROM link WHERE id = (SELECT id FROM link WHERE domain_id = $1 AND code = $2
			UNION ALL SELECT link_id FROM link_alias WHERE domain_id = $1 AND code = $2)`,
		[]any{domain, code}, scoped.Each(func(rows pgx.Rows) error {
			var expires *time.Time
			var payload string
			var stamp int64
			err := rows.Scan(&rec.Domain, &rec.Name, &rec.State, &rec.Status, &rec.Flags, &expires, &payload, &rec.Programme,
				&rec.Revision.Epoch, &rec.Revision.Seq, &stamp)
			rec.Payload, rec.Stamp, rec.ExpiresAt = []byte(payload), uint64(stamp), millis(expires)
			found = true
			return err
		}))
	return rec, found, scoped.Classify("look up a code", err)
}

func (db *LinkStore) Patterns(ctx context.Context, domain waypost.DomainID) (codes []string, err error) {
	err = db.pool.QueryIn(ctx, scoped.Stream, `SELECT code FROM link WHERE domain_id = $1 AND link_is_pattern(custom, code) AND deleted_at IS NULL`,
		[]any{domain}, scoped.CollectInto(&codes))
	return codes, scoped.Classify("list the patterns of a domain", err)
}

// millis is a record's form of an expiry. A moment before 1970, which only a
// change by hand can write, has passed like any other.
func millis(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return max(1, t.UnixMilli())
}
