package postgres

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// ViewStore implements controlplane.ViewStore.
type ViewStore struct{ pool *pool }

// selectViews lists views with the addresses of the links of public ones.
const selectViews = `
	SELECT v.id, v.workspace_id, v.name, v.query, v.created_at, coalesce(v.link_id, 0), coalesce(v.tag, ''),
	       CASE WHEN l.domain_id = 1 THEN '' ELSE coalesce(d.host, '') END, coalesce(l.typed_code, l.code, '')
	FROM stats_view v LEFT JOIN (link l JOIN domain d ON d.id = l.domain_id) ON l.id = v.link_id `

func scanViews(all *[]controlplane.View, ws *waypost.WorkspaceID) func(pgx.Rows) error {
	var v controlplane.View
	return scoped.ForEach([]any{&v.ID, ws, &v.Name, &v.Query, &v.CreatedAt, &v.Link, &v.Tag, &v.Host, &v.Code}, func() error {
		*all = append(*all, v)
		return nil
	})
}

func (db *ViewStore) Views(ctx context.Context, ws waypost.WorkspaceID) (all []controlplane.View, err error) {
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws), selectViews+`WHERE `+scoped.OfWorkspace("v.workspace_id", "$1")+` ORDER BY v.name`,
		[]any{ws}, scanViews(&all, new(waypost.WorkspaceID)))
	return all, scoped.Classify("list views", err)
}

func (db *ViewStore) PublicView(ctx context.Context, hash []byte) (v controlplane.View, ws waypost.WorkspaceID, err error) {
	var all []controlplane.View
	err = db.pool.QueryIn(ctx, scoped.Operator, selectViews+`
		JOIN workspace w ON w.id = v.workspace_id AND w.deleted_at IS NULL WHERE v.secret = $1`, []any{hash}, scanViews(&all, &ws))
	if err == nil && len(all) == 0 {
		return v, 0, controlplane.ErrNoView
	}
	if err == nil {
		v = all[0]
	}
	return v, ws, scoped.Classify("read a public view", err)
}

func (db *ViewStore) AddView(ctx context.Context, by controlplane.Actor, v *controlplane.View, hash []byte, most int) error {
	return db.changeViews(ctx, by, "save a view", func(tx pgx.Tx) error {
		var count int
		// The workspace's row is locked, so that no other view of it is added.
		err := tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM stats_view WHERE workspace_id = w.id) FROM workspace w WHERE w.id = $1 FOR UPDATE`,
			by.Workspace).Scan(&count)
		if err == nil && count >= most {
			return waypost.Errorf(waypost.EConflict, "the workspace has %d views: delete one first", most)
		}
		if err == nil {
			err = tx.QueryRow(ctx, `INSERT INTO stats_view (workspace_id, name, query, link_id, tag, secret)
				VALUES ($1, $2, $3, nullif($4, 0), nullif($5, ''), $6) RETURNING id, created_at`,
				by.Workspace, v.Name, v.Query, v.Link, v.Tag, hash).Scan(&v.ID, &v.CreatedAt)
		}
		if err != nil || hash == nil {
			return err
		}
		detail, err := json.Marshal(map[string]string{"domain": v.Host, "short_code": string(v.Code), "tag": v.Tag})
		if err != nil {
			return err
		}
		return scoped.NoteAct(ctx, tx, by, "views.publish", v.Name, detail)
	})
}

func (db *ViewStore) RenameView(ctx context.Context, by controlplane.Actor, id int64, name string) error {
	return db.changeViews(ctx, by, "rename a view", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE stats_view SET name = $3 WHERE workspace_id = $1 AND id = $2`, by.Workspace, id, name)
		if err == nil && tag.RowsAffected() == 0 {
			return controlplane.ErrNoView
		}
		return err
	})
}

func (db *ViewStore) DeleteView(ctx context.Context, by controlplane.Actor, id int64) error {
	return db.changeViews(ctx, by, "delete a view", func(tx pgx.Tx) error {
		var name string
		var public bool
		err := tx.QueryRow(ctx, `DELETE FROM stats_view WHERE workspace_id = $1 AND id = $2 RETURNING name, secret IS NOT NULL`,
			by.Workspace, id).Scan(&name, &public)
		if err = scoped.IfNoRow(err, controlplane.ErrNoView); err != nil || !public {
			return err
		}
		return scoped.NoteAct(ctx, tx, by, "views.withdraw", name, []byte(`{}`))
	})
}

func (db *ViewStore) changeViews(ctx context.Context, by controlplane.Actor, doing string, change func(tx pgx.Tx) error) error {
	return db.pool.Within(ctx, scoped.TenantOf(by.Workspace), doing, func(tx pgx.Tx) error {
		err := change(tx)
		switch scoped.PgCode(err) {
		case scoped.UniqueViolation:
			return waypost.Errorf(waypost.EConflict, "another view has this name")
		case scoped.ForeignKeyViolation:
			return waypost.ErrNoLink
		}
		return err
	})
}
