package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

const workspaceColumns = `id, slug, name, settings::text,
	CASE WHEN closed_at IS NOT NULL THEN 'closed' WHEN deleted_at IS NOT NULL THEN 'closing' ELSE 'active' END, created_at, deleted_at`

func (db *AccessStore) scanWorkspace(row pgx.CollectableRow) (w api.Workspace, err error) {
	var settings string
	err = row.Scan(&w.ID, &w.Slug, &w.Name, &settings, &w.State, &w.CreatedAt, &w.DeletedAt)
	w.Settings = scoped.ReadSettings(settings, db.eventSample)
	return w, err
}

// oneWorkspace runs a query for the columns of one workspace.
func (db *AccessStore) oneWorkspace(ctx context.Context, tx pgx.Tx, sql string, args ...any) (api.Workspace, error) {
	rows, _ := tx.Query(ctx, sql, args...)
	w, err := pgx.CollectExactlyOneRow(rows, db.scanWorkspace)
	return w, scoped.IfNoRow(err, waypost.Errorf(waypost.ENotFound, "there is no such workspace"))
}

func (db *AccessStore) Workspace(ctx context.Context, ws waypost.WorkspaceID) (w api.Workspace, err error) {
	err = db.pool.Within(ctx, scoped.TenantOf(ws), "find a workspace", func(tx pgx.Tx) error {
		w, err = db.oneWorkspace(ctx, tx, `SELECT `+workspaceColumns+` FROM workspace WHERE `+
			scoped.OfWorkspace("id", "$1")+` AND deleted_at IS NULL`, ws)
		if err != nil {
			return err
		}
		w.Links = new(int)
		return tx.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM link WHERE workspace_id = $1 AND deleted_at IS NULL LIMIT $2) AS counted`,
			ws, controlplane.MaxCountedLinks).Scan(w.Links)
	})
	return w, err
}

func (db *AccessStore) ChangeWorkspace(
	ctx context.Context, by controlplane.Actor, ws waypost.WorkspaceID, c api.WorkspaceChange,
) (w api.Workspace, err error) {
	settings, err := json.Marshal(c.Settings)
	if err != nil {
		return w, err
	}
	const doing = "change a workspace"
	change := func(tx pgx.Tx) error {
		w, err = db.oneWorkspace(ctx, tx, `
			UPDATE workspace SET name = coalesce($2, name), settings = settings || $3::text::jsonb
			WHERE `+scoped.OfWorkspace("id", "$1")+` AND deleted_at IS NULL RETURNING `+workspaceColumns, ws, c.Name, string(settings))
		if err != nil {
			return err
		}
		return auditBoth(ctx, tx, by, ws, "workspaces.change", "workspace "+w.Slug, struct {
			Name *string `json:"name,omitzero"`
			*api.SettingsChange
		}{c.Name, c.Settings})
	}
	if c.Settings.UTM == nil {
		return w, db.pool.Within(ctx, scoped.TenantOf(ws), doing, change)
	}
	// Edges learn the settings with the domains.
	_, err = db.pool.changeIn(ctx, scoped.TenantOf(ws), doing, func(tx pgx.Tx, _ uint32) error {
		if err := change(tx); err != nil {
			return err
		}
		if err := scoped.Operator.Enter(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			UPDATE domain d SET count_utm = NOT count_utm
			WHERE (workspace_id = $1 OR workspace_id IS NULL) AND count_utm <> `+scoped.CountsUTM(`coalesce(d.workspace_id, w.id)`), ws)
		return err
	})
	return w, err
}

func (db *AccessStore) Workspaces(ctx context.Context, after waypost.WorkspaceID, limit int) (all []api.Workspace, err error) {
	err = db.pool.QueryIn(ctx, scoped.Operator, `SELECT `+workspaceColumns+` FROM workspace WHERE id > $1 ORDER BY id LIMIT $2`, []any{
		after,
		limit,
	}, scoped.CollectWith(&all, db.scanWorkspace))
	return all, scoped.Classify("list workspaces", err)
}

func (db *AccessStore) CreateWorkspace(
	ctx context.Context, by controlplane.Actor, n api.NewWorkspace,
) (w api.Workspace, err error) {
	err = db.pool.Within(ctx, scoped.Operator, "make a workspace", func(tx pgx.Tx) error {
		w, err = db.oneWorkspace(ctx, tx, `INSERT INTO workspace (slug, name) VALUES ($1, $2) RETURNING `+workspaceColumns, n.Slug, n.Name)
		if scoped.PgCode(err) == scoped.UniqueViolation {
			return waypost.Errorf(waypost.EConflict, "the slug %s is taken", n.Slug)
		}
		if err != nil {
			return err
		}
		return auditBoth(ctx, tx, by, waypost.WorkspaceID(w.ID), "workspaces.create", "workspace "+w.Slug, map[string]any{"name": w.Name})
	})
	return w, err
}

func (db *AccessStore) DeleteWorkspace(
	ctx context.Context, by controlplane.Actor, ws waypost.WorkspaceID,
) (w api.Workspace, err error) {
	err = db.pool.Within(ctx, scoped.Operator, "delete a workspace", func(tx pgx.Tx) error {
		if w, err = db.oneWorkspace(ctx, tx, `SELECT `+workspaceColumns+` FROM workspace WHERE id = $1 FOR NO KEY UPDATE`,
			ws); err != nil || w.DeletedAt != nil {
			return err
		}
		if w, err = db.oneWorkspace(ctx, tx, `UPDATE workspace SET deleted_at = now() WHERE id = $1
			RETURNING `+workspaceColumns, ws); err != nil {
			return err
		}
		for _, sql := range []string{
			`UPDATE api_key SET revoked_at = now() WHERE workspace_id = $1 AND revoked_at IS NULL`,
			`UPDATE app_user SET deleted_at = now(), password = NULL, invitation = NULL, invited_until = NULL, valid_from = clock_timestamp()
				WHERE home_id = $1 AND deleted_at IS NULL`,
		} {
			if _, err := tx.Exec(ctx, sql, ws); err != nil {
				return err
			}
		}
		return auditBoth(ctx, tx, by, ws, "workspaces.delete", "workspace "+w.Slug, map[string]any{"name": w.Name})
	})
	return w, err
}

// closeDelay is the time after its deletion in which a workspace may still get a link
// from a caller who was authenticated before.
const closeDelay = time.Minute

// CloseWorkspaces implements controlplane.WorkspaceStore. The turn at the head of the
// changelog is taken only when there is something to do.
func (db *AccessStore) CloseWorkspaces(ctx context.Context, limit int) (int, error) {
	type closing struct {
		ID    waypost.WorkspaceID
		Links bool
		Leads bool // a domain of it leads somewhere
	}
	var all []closing
	err := db.pool.QueryIn(ctx, scoped.Operator, `
		SELECT w.id, EXISTS (SELECT FROM link l WHERE l.workspace_id = w.id AND l.deleted_at IS NULL),
		       EXISTS (SELECT FROM domain d WHERE d.workspace_id = w.id AND coalesce(d.root_url, d.not_found_url, d.maintenance_url) IS NOT NULL)
		FROM workspace w WHERE w.deleted_at IS NOT NULL AND w.closed_at IS NULL ORDER BY w.id LIMIT 100`, nil,
		scoped.CollectWith(&all, pgx.RowToStructByPos[closing]))
	if err != nil {
		return 0, scoped.Classify("look for links of deleted workspaces", err)
	}
	for _, w := range all {
		if w.Links || w.Leads {
			return db.takeDown(ctx, w.ID, limit)
		}
		if _, err := db.pool.ExecIn(ctx, scoped.Operator, `
			UPDATE workspace SET closed_at = now() WHERE id = $1 AND deleted_at < now() - $2::interval AND closed_at IS NULL`,
			w.ID, closeDelay); err != nil {
			return 0, scoped.Classify("close a workspace", err)
		}
	}
	return 0, nil
}

// takeDown turns links of a workspace into tombstones, and lets its domains lead nowhere.
func (db *AccessStore) takeDown(ctx context.Context, ws waypost.WorkspaceID, limit int) (n int, err error) {
	err = db.pool.change(ctx, "take down a workspace", func(tx pgx.Tx, _ uint32) error {
		if err := scoped.Operator.Enter(ctx, tx); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE link SET deleted_at = now(), updated_at = now()
			WHERE id IN (SELECT id FROM link WHERE workspace_id = $1 AND deleted_at IS NULL ORDER BY id DESC LIMIT $2)`, ws, limit)
		if err != nil {
			return err
		}
		n = int(tag.RowsAffected())
		tag, err = tx.Exec(ctx, `
			UPDATE domain SET root_url = NULL, not_found_url = NULL, maintenance_url = NULL
			WHERE workspace_id = $1 AND coalesce(root_url, not_found_url, maintenance_url) IS NOT NULL`, ws)
		n += int(tag.RowsAffected())
		return err
	})
	return n, err
}
