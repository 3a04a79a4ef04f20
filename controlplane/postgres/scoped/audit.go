package scoped

import (
	"context"

	"github.com/jackc/pgx/v5"

	"waypost/controlplane"
)

// NoteAct notes an act in the transaction that it is part of. The scope of the
// transaction is operator or the actor's own workspace.
func NoteAct(ctx context.Context, tx pgx.Tx, by controlplane.Actor, action, subject string, detail []byte) error {
	_, err := tx.Exec(ctx, `INSERT INTO audit (workspace_id, actor, action, subject, detail) VALUES ($1, $2, $3, $4, $5::text::jsonb)`,
		by.Workspace, by.Label(), action, subject, string(detail))
	return err
}
