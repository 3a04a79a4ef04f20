package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres/analytics"
	"waypost/controlplane/postgres/scoped"
)

func (db *LinkStore) History(ctx context.Context, ws waypost.WorkspaceID, domain waypost.DomainID, code waypost.Code,
	before waypost.Revision, limit int,
) (l waypost.Link, changes []controlplane.Change, err error) {
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws), `
		SELECT coalesce(l.typed_code, l.code), l.created_at, l.created_by, l.expires_at, l.deleted_at, l.rev_epoch, l.rev_seq,
		       c.rev_epoch, c.rev_seq, c.at, c.what, coalesce(c.actor, '{}'), c.before, c.after
		FROM link l LEFT JOIN LATERAL (
			SELECT * FROM link_change c WHERE c.link_id = l.id AND (c.rev_epoch, c.rev_seq) < ($4, $5)
			ORDER BY c.rev_epoch DESC, c.rev_seq DESC LIMIT $6) c ON true
		WHERE `+scoped.OfWorkspace("l.workspace_id", "$1")+` AND l.domain_id = $2 AND l.code = $3
		ORDER BY c.rev_epoch DESC, c.rev_seq DESC`,
		[]any{ws, domain, code, int64(before.Epoch), int64(before.Seq), limit}, func(rows pgx.Rows) error {
			var expires, deleted, at *time.Time
			var epoch *uint32
			var seq *uint64
			var what *string
			var by api.Changer
			var old, new map[string]json.RawMessage
			_, err := pgx.ForEachRow(rows, []any{
				&l.Code, &l.CreatedAt, &l.CreatedBy, &expires, &deleted, &l.Revision.Epoch, &l.Revision.Seq,
				&epoch, &seq, &at, &what, &by, &old, &new,
			}, func() error {
				l.CreatedAt, l.ExpiresAt, l.DeletedAt = l.CreatedAt.UTC(), scoped.UTC(expires), scoped.UTC(deleted)
				if epoch == nil {
					return nil
				}
				c := controlplane.Change{Revision: waypost.Revision{Epoch: *epoch, Seq: *seq}, At: scoped.UTC(at), What: scoped.Deref(what), By: by}
				for name, value := range old {
					c.Fields = append(c.Fields, controlplane.FieldChange{Name: name, Before: value, After: new[name]})
				}
				slices.SortFunc(c.Fields, func(a, b controlplane.FieldChange) int { return cmp.Compare(a.Name, b.Name) })
				changes = append(changes, c)
				old, new, by = nil, nil, api.Changer{}
				return nil
			})
			return err
		})
	if err == nil && l.Code == "" {
		return l, nil, waypost.ErrNoLink
	}
	return l, changes, scoped.Classify("read the history of a link", err)
}

// ChangesOf implements controlplane.LinkStore. A change has the names of its fields, and
// no values.
func (db *LinkStore) ChangesOf(
	ctx context.Context, ws waypost.WorkspaceID, link int64, s *controlplane.Span, fields []string, limit int,
) (changes []controlplane.Change, err error) {
	var c controlplane.Change
	var names []string
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws), `
		SELECT at, what, actor, ARRAY(SELECT jsonb_object_keys(before) ORDER BY 1) FROM link_change
		WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND link_id = $2 AND at >= $3 AND at < $4 AND (what <> 'changed' OR before ?| $5)
		ORDER BY rev_epoch DESC, rev_seq DESC LIMIT $6`, []any{ws, link, s.From(), s.To(), fields, limit},
		scoped.ForEach([]any{&c.At, &c.What, &c.By, &names}, func() error {
			c.Fields = nil
			for _, name := range names {
				c.Fields = append(c.Fields, controlplane.FieldChange{Name: name})
			}
			changes = append(changes, c)
			c.By, names = api.Changer{}, nil
			return nil
		}))
	return changes, scoped.Classify("read the changes of a link", err)
}

const (
	// changesAtOnce bounds the changes that one transaction of purgeChanges deletes. Each
	// may have the fields of a link twice.
	changesAtOnce = 1_000

	// historiesAtOnce bounds the links in which purgeChanges looks for changes, because
	// its search also passes the dead rows of changes deleted before.
	historiesAtOnce = 100
)

// purgeChanges deletes the changes of links that are tombstones to go.
func (db *ReaperStore) purgeChanges(ctx context.Context, links []int64, after time.Duration) error {
	for some := range slices.Chunk(links, historiesAtOnce) {
		for n := int64(changesAtOnce); n == changesAtOnce; {
			var err error
			n, err = db.pool.ExecIn(ctx, scoped.Reaper.LookingUp(), `
				DELETE FROM link_change WHERE (link_id, rev_epoch, rev_seq) IN (
					SELECT c.link_id, c.rev_epoch, c.rev_seq FROM link l JOIN link_change c ON c.link_id = l.id
					WHERE l.`+analytics.PurgeDue+` AND l.id = ANY ($2) LIMIT $3)`, after, some, changesAtOnce)
			if err != nil {
				return scoped.Classify("purge changes of links", err)
			}
		}
	}
	return nil
}
