package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// listBudget bounds the links that a list looks at for one page, and so the cost of a
// filter that matches almost none. The function link_list raises it by half for words,
// and lowers it by a third for typed text.
const listBudget = 16_000

// selectPage reads the links that link_list has found, under the workspace's own
// policies. The clicks of a link include clicks that link_click does not have yet, so
// they may differ from the clicks that the list is sorted by.
var selectPage = selectLinks(`
SELECT * FROM link_list($1, $2, $3, $4, $5, CASE WHEN $6::text IS NOT NULL THEN coalesce((SELECT id FROM domain WHERE host = $6), -1) END,
                        $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`, `, page.clicks, page.found`) + `
ORDER BY page.n`

var stageNames = map[controlplane.ListStage]string{
	controlplane.StageAll: "all", controlplane.StageClicked: "clicked", controlplane.StageNever: "never",
}

func (db *LinkStore) ListLinks(ctx context.Context, ws waypost.WorkspaceID, f controlplane.LinkFilter, now time.Time,
	o controlplane.Order, from controlplane.ListPlace, limit int,
) (controlplane.LinkPage, error) {
	if from.Stage == controlplane.StageDeleted {
		return db.listDeleted(ctx, ws, now, from, limit)
	}
	ascending := o == controlplane.OldestFirst || o == controlplane.LeastClicked
	var domain *string
	if f.Domain != "" {
		host := waypost.HostName(f.Domain)
		domain = &host
	}
	var created *time.Time
	var clicks, id *int64
	if from.ID != 0 {
		created, clicks, id = &from.Created, &from.Clicks, &from.ID
	}
	tags := f.Tags
	if tags == nil {
		tags = []string{}
	}
	var page controlplane.LinkPage
	var last controlplane.ListPlace // of the last link that fits
	err := db.pool.QueryIn(ctx, scoped.TenantOf(ws), selectPage, []any{
		ws, stageNames[from.Stage], ascending, f.Words, tags, domain, f.Active, f.Expired,
		now, orNull(f.CreatedAfter), orNull(f.CreatedBefore), created, clicks, id, limit + 1, listBudget, f.Typed, orNull(f.ExpiresBefore),
	}, scoped.Each(func(rows pgx.Rows) error {
		var by int64
		var found bool
		l, err := scanLink(rows, &by, &found)
		place := controlplane.ListPlace{Stage: from.Stage, Created: l.CreatedAt, Clicks: by, ID: l.ID}
		switch {
		case !found:
			page.Next = &place
		case len(page.Links) == limit:
			page.Next = &last
		default:
			page.Links, last = append(page.Links, l), place
		}
		return err
	}))
	return page, scoped.Classify("list links", err)
}

// listDeleted lists the deleted links that can be restored, newest deletion first. It
// looks at a limited number of links, because many may have expired since.
func (db *LinkStore) listDeleted(
	ctx context.Context, ws waypost.WorkspaceID, now time.Time, from controlplane.ListPlace, limit int,
) (page controlplane.LinkPage, err error) {
	var last controlplane.ListPlace // of the last link that fits
	var at *time.Time
	if from.ID != 0 {
		at = &from.Created
	}
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws), selectLinks(`
		WITH walk AS MATERIALIZED (
			SELECT id, deleted_at, expires_at, link_outlives_expiry(programme) AS outlives FROM link
			WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND deleted_at >= $2::timestamptz - $3::interval AND deleted_at IS NOT NULL
			  AND (expires_at IS NULL OR expires_at > deleted_at OR link_outlives_expiry(programme))
			  AND ($4::timestamptz IS NULL OR (deleted_at, id) < ($4, $5))
			ORDER BY deleted_at DESC, id DESC LIMIT $7
		), found AS (
			SELECT id, true AS found FROM (
				SELECT * FROM walk WHERE expires_at IS NULL OR expires_at > $2 OR outlives ORDER BY deleted_at DESC, id DESC LIMIT $6) w
		), last AS (
			SELECT id, false FROM walk WHERE (SELECT count(*) FROM walk) = $7 AND (SELECT count(*) FROM found) < $6
			ORDER BY deleted_at, id LIMIT 1
		)
		SELECT * FROM found UNION ALL SELECT * FROM last`, `, page.found`)+`
		ORDER BY page.found DESC, l.deleted_at DESC, l.id DESC`,
		[]any{ws, now, controlplane.RestorableFor, at, from.ID, limit + 1, listBudget}, scoped.Each(func(rows pgx.Rows) error {
			var found bool
			l, err := scanLink(rows, &found)
			place := controlplane.ListPlace{Stage: controlplane.StageDeleted, Created: l.DeletedAt, ID: l.ID}
			switch {
			case !found:
				page.Next = &place
			case len(page.Links) == limit:
				page.Next = &last
			default:
				page.Links, last = append(page.Links, l), place
			}
			return err
		}))
	return page, scoped.Classify("list deleted links", err)
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (db *LinkStore) ListTags(
	ctx context.Context, ws waypost.WorkspaceID, prefix, after string, limit int,
) (tags []api.TagCount, err error) {
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws), `
		SELECT tag, links FROM link_tag
		WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND tag > $2 AND tag >= $3 AND tag < $3 || repeat(chr(1114111), 2) ORDER BY tag LIMIT $4`,
		[]any{ws, after, prefix, limit}, scoped.CollectWith(&tags, pgx.RowToStructByPos[api.TagCount]))
	return tags, scoped.Classify("list tags", err)
}
