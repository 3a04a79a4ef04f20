package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

func (db *AccessStore) Audit(ctx context.Context, ws waypost.WorkspaceID, before int64, limit int) ([]api.AuditEntry, error) {
	var entries []api.AuditEntry
	as, of := scoped.TenantOf(ws), scoped.OfWorkspace("a.workspace_id", "$1")
	if ws == 0 {
		as, of = scoped.Operator, "$1::bigint = 0"
	}
	err := db.pool.QueryIn(ctx, as, `
		SELECT a.id, a.at, a.actor, a.action, a.subject, a.detail, w.slug AS workspace FROM audit a
			JOIN workspace w ON w.id = a.workspace_id
		WHERE `+of+` AND ($2 = 0 OR a.id < $2) ORDER BY a.id DESC LIMIT $3`, []any{ws, before, limit},
		scoped.CollectWith(&entries, pgx.RowToStructByName[api.AuditEntry]))
	return entries, scoped.Classify("read the audit log", err)
}

func (db *AccessStore) NoteRefusals(ctx context.Context, by controlplane.Actor, r controlplane.RefusedRequests) error {
	detail := map[string]any{"status": r.Status, "at_least": r.AtLeast, "credential": r.Credential, "network": r.Network}
	return db.pool.Within(ctx, scoped.TenantOf(by.Workspace), "note refused requests", func(tx pgx.Tx) error {
		return scoped.NoteAct(ctx, tx, by, "requests.refused", r.Route, detail)
	})
}

// auditAccount notes an act on an account, in the workspace that manages the account.
// Without a name the actor is the account's user. The transaction has the scope operator.
func auditAccount(ctx context.Context, tx pgx.Tx, by controlplane.Actor, user int64, action string, detail map[string]any) error {
	var name, email string
	if err := tx.QueryRow(ctx, `SELECT `+keeper+`, u.name, u.email FROM app_user u WHERE u.id = $1`, user).Scan(&by.Workspace, &name, &email); err != nil {
		return err
	}
	if by.Name == "" {
		by = controlplane.Actor{Workspace: by.Workspace, UserID: user, Name: name}
	}
	if detail == nil {
		detail = map[string]any{}
	}
	detail["email"] = email
	return scoped.NoteAct(ctx, tx, by, action, subjectUser(user), detail)
}

// auditBoth notes an act in the actor's workspace, and in the workspace that it was done
// to, if they differ. Each entry is written in the scope of its own workspace, and the
// transaction remains in the scope of the last one. So a transaction calls auditBoth
// last.
func auditBoth(ctx context.Context, tx pgx.Tx, by controlplane.Actor, ws waypost.WorkspaceID, action, subject string, detail any) error {
	if by.Workspace != ws && by.Workspace != 0 {
		if err := scoped.TenantOf(by.Workspace).Enter(ctx, tx); err != nil {
			return err
		}
		if err := scoped.NoteAct(ctx, tx, by, action, subject, detail); err != nil {
			return err
		}
		if err := scoped.TenantOf(ws).Enter(ctx, tx); err != nil {
			return err
		}
	}
	by.Workspace = ws
	return scoped.NoteAct(ctx, tx, by, action, subject, detail)
}
