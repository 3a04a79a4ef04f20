package scoped

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"waypost/controlplane"
)

// NoteAct notes an act in the transaction that it is part of. The scope of the
// transaction is operator or the actor's own workspace. The detail is stored as JSON;
// bytes are JSON already.
func NoteAct(ctx context.Context, tx pgx.Tx, by controlplane.Actor, action, subject string, detail any) error {
	// A connection that describes no statement cannot encode a map.
	text, encoded := detail.([]byte)
	if !encoded {
		var err error
		if text, err = json.Marshal(detail); err != nil {
			return err
		}
	}
	return Exec(ctx, tx, `INSERT INTO audit (workspace_id, actor, action, subject, detail) VALUES ($1, $2, $3, $4, $5::text::jsonb)`,
		by.Workspace, by.Label(), action, subject, string(text))
}
