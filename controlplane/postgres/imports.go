package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/imports"
	"waypost/controlplane/postgres/scoped"
)

// ImportStore keeps imports, the parts of their files, and their rows.
type ImportStore struct{ pool *pool }

var errNoImport = waypost.Errorf(waypost.ENotFound, "there is no such import, or it was a week old")

// errNotLeased says that a worker has to leave an import.
var errNotLeased = waypost.Errorf(waypost.EStale, "the import is stopped, or another control plane works on it")

// importLease is the time for which a worker has an import after its last step.
const importLease = "interval '15 seconds'"

const (
	selectImport = `
		SELECT i.id, i.workspace_id, i.state, i.next_row, i.stored, i.document, i.created_at, i.updated_at, i.parts, i.sent, i.sent_bytes
		FROM import i`

	// ofLease is the condition that a worker, $2, has the lease of an import, $1, in the
	// state $3.
	ofLease = `id = $1 AND worker = $2 AND state = $3`

	extendLease = `UPDATE import SET worker_until = clock_timestamp() + ` + importLease + ` WHERE ` + ofLease
)

func scanImport(row pgx.CollectableRow) (i imports.Import, err error) {
	var document []byte
	var sent int64
	err = row.Scan(&i.ID, &i.Workspace, &i.State, &i.Next, &i.Stored, &document, &i.CreatedAt, &i.UpdatedAt, &i.Parts, &i.Sent, &sent)
	if err != nil {
		return i, err
	}
	err = json.Unmarshal(document, &i)
	i.CreatedAt, i.UpdatedAt = i.CreatedAt.UTC(), i.UpdatedAt.UTC()
	if i.State == api.ImportUploading {
		i.Bytes = sent
	}
	return i, err
}

var selectOne = selectImport + ` WHERE i.id = $2 AND ` + scoped.OfWorkspace("i.workspace_id", "$1")

// readImport reads the one row of selectOne.
func readImport(into *imports.Import) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectExactlyOneRow(rows, scanImport)
		return scoped.IfNoRow(err, errNoImport)
	}
}

// lockImport finds an import in a transaction, and locks it.
func lockImport(ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, id string) (i imports.Import, err error) {
	rows, err := tx.Query(ctx, selectOne+` FOR UPDATE`, ws, id)
	if err == nil {
		err = readImport(&i)(rows)
	}
	return i, err
}

// within runs f in a transaction of a workspace.
func (db *ImportStore) within(ctx context.Context, ws waypost.WorkspaceID, doing string, f func(tx pgx.Tx) error) error {
	return db.pool.Within(ctx, scoped.TenantOf(ws), doing, f)
}

// importLock is the advisory lock under which the room for imports is counted.
const importLock = 7311

// checkRoom sends a batch, and returns ETooLarge if imports have more than their room in
// its transaction. No other transaction counts until this one ends.
func checkRoom(ctx context.Context, tx pgx.Tx, b *pgx.Batch, ws waypost.WorkspaceID) error {
	var all, own int64
	scoped.Operator.EnterBatch(b)
	b.Queue(`SELECT pg_advisory_xact_lock($1, 1)`, importLock)
	b.Queue(`SELECT coalesce(sum(stored), 0)::bigint, coalesce(sum(stored) FILTER (WHERE workspace_id = $1), 0)::bigint FROM import`, ws).
		QueryRow(func(row pgx.Row) error { return row.Scan(&all, &own) })
	scoped.TenantOf(ws).EnterBatch(b)
	err := tx.SendBatch(ctx, b).Close()
	switch {
	case err != nil:
		return err
	case own > imports.MaxStoredOfOne:
		return waypost.Errorf(waypost.ETooLarge, "the imports of the workspace have more than %d GiB of rows: delete imports that are done",
			imports.MaxStoredOfOne>>30)
	case all > imports.MaxStored:
		return waypost.Errorf(waypost.ETooLarge, "all imports of the installation have more than %d GiB of rows: wait until others are done",
			imports.MaxStored>>30)
	}
	return nil
}

// BeginImport implements imports.Store.
func (db *ImportStore) BeginImport(ctx context.Context, i *imports.Import) error {
	document, err := json.Marshal(i)
	if err != nil {
		return err
	}
	return db.within(ctx, i.Workspace, "begin an import", func(tx pgx.Tx) error {
		if err := checkRoom(ctx, tx, &pgx.Batch{}, i.Workspace); err != nil {
			return err
		}
		var count int
		err := tx.QueryRow(ctx, `SELECT count(*) FROM import WHERE `+scoped.OfWorkspace("workspace_id", "$1"), i.Workspace).Scan(&count)
		if err != nil {
			return err
		}
		if count >= imports.MaxImports {
			// The oldest one without links goes, such as a dry run or a file that cannot be read.
			tag, err := tx.Exec(ctx, `DELETE FROM import WHERE id = (SELECT id FROM import WHERE `+scoped.OfWorkspace("workspace_id", "$1")+`
				AND (state IN ('failed', 'undone') OR state = 'ready' AND next_row = 0) ORDER BY updated_at LIMIT 1)`, i.Workspace)
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				return waypost.Errorf(waypost.EConflict, "the workspace has %d imports: delete one first", count)
			}
		}
		_, err = tx.Exec(ctx, `INSERT INTO import (id, workspace_id, state, document) VALUES ($1, $2, $3, $4)`, i.ID, i.Workspace, i.State, document)
		return err
	})
}

// Import implements imports.Store.
func (db *ImportStore) Import(ctx context.Context, ws waypost.WorkspaceID, id string) (i imports.Import, err error) {
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws), selectOne, []any{ws, id}, readImport(&i))
	return i, scoped.Classify("read an import", err)
}

// Imports implements imports.Store.
func (db *ImportStore) Imports(ctx context.Context, ws waypost.WorkspaceID) (all []imports.Import, err error) {
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws),
		selectImport+` WHERE `+scoped.OfWorkspace("i.workspace_id", "$1")+` ORDER BY i.created_at DESC, i.id`, []any{ws},
		scoped.CollectWith(&all, scanImport))
	return all, scoped.Classify("list imports", err)
}

// ChangeImport implements imports.Store.
func (db *ImportStore) ChangeImport(
	ctx context.Context, by controlplane.Actor, id, act string, change func(*imports.Import) error,
) (i imports.Import, err error) {
	err = db.within(ctx, by.Workspace, "change an import", func(tx pgx.Tx) error {
		if i, err = lockImport(ctx, tx, by.Workspace, id); err != nil {
			return err
		}
		before := i
		had, err1 := json.Marshal(&before)
		if err := change(&i); err != nil {
			return err
		}
		document, err := json.Marshal(&i)
		if err := errors.Join(err1, err); err != nil {
			return err
		}
		if i.State == before.State && i.Next == before.Next && bytes.Equal(had, document) {
			return nil // and it is kept no longer
		}
		if err := tx.QueryRow(ctx, `UPDATE import SET state = $2, next_row = $3, document = $4, updated_at = now(),
			worker = CASE WHEN state = $2 THEN worker END WHERE id = $1 RETURNING updated_at`,
			id, i.State, i.Next, document).Scan(&i.UpdatedAt); err != nil {
			return err
		}
		if act == "" || i.State == before.State {
			return nil
		}
		return auditBoth(ctx, tx, by, by.Workspace, act, "import "+id, map[string]any{"name": i.Name, "rows": i.Rows})
	})
	return i, err
}

// DeleteImport implements imports.Store.
func (db *ImportStore) DeleteImport(ctx context.Context, ws waypost.WorkspaceID, id string) error {
	return db.within(ctx, ws, "delete an import", func(tx pgx.Tx) error {
		i, err := lockImport(ctx, tx, ws, id)
		if err != nil {
			return err
		}
		if i.State == api.ImportRunning || i.State == api.ImportUndoing {
			return waypost.Errorf(waypost.EConflict, "the import is %s: stop it, or wait", i.State)
		}
		_, err = tx.Exec(ctx, `DELETE FROM import WHERE id = $1`, id)
		return err
	})
}

// PutPart implements imports.Store.
func (db *ImportStore) PutPart(ctx context.Context, ws waypost.WorkspaceID, id string, n int, content []byte) error {
	sum, packed := sha256.Sum256(content), imports.Pack(content)
	return db.within(ctx, ws, "keep a part of a file", func(tx pgx.Tx) error {
		var i imports.Import
		var had []byte
		var b pgx.Batch
		b.Queue(selectOne+` FOR UPDATE`, ws, id).Query(readImport(&i))
		b.Queue(`SELECT sum FROM import_part WHERE import_id = $1 AND n = $2`, id, n).Query(scoped.RowInto(&had))
		// A part that fills the first hole counts with all behind it up to the next hole.
		b.Queue(`
			WITH kept AS (INSERT INTO import_part (import_id, n, workspace_id, size, sum, content) VALUES ($1, $2, $3, $4, $5, $6)
				ON CONFLICT DO NOTHING RETURNING n)
			UPDATE import SET stored = stored + octet_length($6), sent = sent + 1, sent_bytes = sent_bytes + $4, updated_at = now(),
				parts = CASE WHEN parts + 1 <> $2 THEN parts ELSE (
					SELECT g FROM generate_series($2, sent + 1) g
					WHERE (SELECT true FROM import_part WHERE import_id = $1 AND n = g + 1) IS NULL ORDER BY g LIMIT 1) END
			WHERE id = $1 AND EXISTS (SELECT FROM kept)`, id, n, ws, len(content), sum[:], packed)
		err := checkRoom(ctx, tx, &b, ws)
		switch {
		case err != nil && waypost.CodeOf(err) != waypost.ETooLarge:
			return err
		case bytes.Equal(had, sum[:]):
			return nil
		case had != nil:
			return waypost.Errorf(waypost.EConflict, "the part %d is there already, with another content", n)
		case i.State != api.ImportUploading:
			return waypost.Errorf(waypost.EConflict, "the import is %s, and takes no parts", i.State)
		case i.Bytes+int64(len(content)) > api.MaxImportFile:
			return waypost.Errorf(waypost.ETooLarge, "a file has at most %d GiB: split it", api.MaxImportFile>>30)
		}
		return err
	})
}

// MissingParts implements imports.Store.
func (db *ImportStore) MissingParts(ctx context.Context, ws waypost.WorkspaceID, id string, n int) (missing []int, err error) {
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws), `SELECT n FROM generate_series(1, $2::integer) n
		WHERE NOT EXISTS (SELECT FROM import_part p WHERE p.import_id = $1 AND p.n = n.n) ORDER BY 1 LIMIT 20`,
		[]any{id, n}, scoped.CollectInto(&missing))
	return missing, scoped.Classify("look for the parts of a file", err)
}

// ClaimImport implements imports.Store.
func (db *ImportStore) ClaimImport(ctx context.Context, worker string, states []string) (i imports.Import, found bool, err error) {
	err = db.pool.Within(ctx, scoped.Operator, "look for work on imports", func(tx pgx.Tx) error {
		var id string
		err := tx.QueryRow(ctx, `
			UPDATE import SET worker = $1, worker_until = clock_timestamp() + `+importLease+` WHERE id = (
				SELECT i.id FROM import i JOIN workspace w ON w.id = i.workspace_id AND w.deleted_at IS NULL
				WHERE i.state = ANY ($2) AND (i.worker_until IS NULL OR i.worker IS NULL OR i.worker_until < clock_timestamp())
				AND NOT EXISTS (SELECT FROM import o WHERE o.workspace_id = i.workspace_id AND o.state = ANY ($2)
					AND o.worker IS NOT NULL AND o.worker_until >= clock_timestamp())
				ORDER BY i.worker_until NULLS FIRST LIMIT 1 FOR UPDATE OF i SKIP LOCKED)
			RETURNING id, workspace_id`, worker, states).Scan(&id, &i.Workspace)
		if err = scoped.IfNoRow(err, errNoImport); err == errNoImport { //nolint:errorlint // it is returned as it is
			return nil
		}
		if err == nil {
			i, err = lockImport(ctx, tx, i.Workspace, id)
			found = err == nil
		}
		return err
	})
	return i, found, err
}

// MayStill implements imports.Store.
func (db *ImportStore) MayStill(ctx context.Context, by controlplane.Actor) (may bool, err error) {
	err = db.pool.QueryIn(ctx, scoped.Operator, `
		SELECT ($1::bigint = 0 OR EXISTS (SELECT FROM api_key k WHERE k.id = $1 AND `+scoped.OfWorkspace("k.workspace_id", "$3")+`
				AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())))
			AND ($2::bigint = 0 OR EXISTS (SELECT FROM membership m
				JOIN app_user u ON u.id = m.user_id AND u.disabled_at IS NULL AND u.deleted_at IS NULL
				WHERE m.user_id = $2 AND `+scoped.OfWorkspace("m.workspace_id", "$3")+` AND m.role IN ('admin', 'member')))`,
		[]any{by.KeyID, by.UserID, by.Workspace}, scoped.RowInto(&may))
	return may, scoped.Classify("look for the rights of the owner of an import", err)
}

// ReleaseImport implements imports.Store. The end of the lease orders the turns.
func (db *ImportStore) ReleaseImport(ctx context.Context, i *imports.Import, worker string) error {
	_, err := db.pool.ExecIn(ctx, scoped.TenantOf(i.Workspace),
		`UPDATE import SET worker = NULL, worker_until = clock_timestamp() WHERE id = $1 AND worker = $2`, i.ID, worker)
	return scoped.Classify("leave an import", err)
}

// leased runs f in a transaction that extends the lease of a worker.
func (db *ImportStore) leased(ctx context.Context, i *imports.Import, worker, doing string, f func(tx pgx.Tx) error) error {
	return db.within(ctx, i.Workspace, doing, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, extendLease, i.ID, worker, i.State)
		if err == nil && tag.RowsAffected() == 0 {
			err = errNotLeased
		}
		if err != nil {
			return err
		}
		return f(tx)
	})
}

// SaveImport implements imports.Store.
func (db *ImportStore) SaveImport(ctx context.Context, i *imports.Import, worker, state string) error {
	document, err := json.Marshal(i)
	if err != nil {
		return err
	}
	err = db.leased(ctx, i, worker, "keep an import", func(tx pgx.Tx) error {
		if i.State == api.ImportReading && state != api.ImportReading {
			if err := removePieces(ctx, tx, i, `DELETE FROM import_part WHERE import_id = $1 RETURNING octet_length(content)`); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `UPDATE import SET state = $2, next_row = $3, document = $4, updated_at = now(), parts = 0, sent = 0,
			worker = CASE WHEN state = $2 THEN worker END WHERE id = $1`, i.ID, state, i.Next, document)
		return err
	})
	if err == nil {
		i.State = state
	}
	return err
}

// removePieces deletes pieces, and subtracts the lengths that the statement returns.
func removePieces(ctx context.Context, tx pgx.Tx, i *imports.Import, statement string) error {
	_, err := tx.Exec(ctx, `WITH gone (n) AS (`+statement+`)
		UPDATE import SET stored = greatest(0, stored - (SELECT coalesce(sum(n), 0) FROM gone)) WHERE id = $1`, i.ID)
	return err
}

// Part implements imports.Store.
func (db *ImportStore) Part(ctx context.Context, i *imports.Import, worker string, n int) (content []byte, err error) {
	// Many small parts cost few writes.
	err = db.pool.QueryRowIn(ctx, scoped.TenantOf(i.Workspace), `
		WITH later AS (`+extendLease+` AND worker_until < clock_timestamp() + interval '10 seconds')
		SELECT p.content FROM import JOIN import_part p ON p.import_id = id AND p.n = $4 WHERE `+ofLease,
		[]any{i.ID, worker, i.State, n}, &content)
	if err = scoped.IfNoRow(err, errNotLeased); err != nil {
		return nil, scoped.Classify("read a part of a file", err)
	}
	return imports.Unpack(content)
}

// ClearRows implements imports.Store.
func (db *ImportStore) ClearRows(ctx context.Context, i *imports.Import, worker string) error {
	return db.leased(ctx, i, worker, "begin to read rows", func(tx pgx.Tx) error {
		return removePieces(ctx, tx, i, `DELETE FROM import_rows WHERE import_id = $1 RETURNING octet_length(content)`)
	})
}

// AddRows implements imports.Store.
func (db *ImportStore) AddRows(ctx context.Context, i *imports.Import, worker string, p imports.Piece) error {
	document, err := json.Marshal(i)
	if err != nil {
		return err
	}
	return db.leased(ctx, i, worker, "keep rows", func(tx pgx.Tx) error {
		var b pgx.Batch
		b.Queue(`UPDATE import SET document = $2, updated_at = now() WHERE id = $1`, i.ID, document)
		queuePiece(&b, i.ID, i.Workspace, false, &p)
		return checkRoom(ctx, tx, &b, i.Workspace)
	})
}

// queuePiece keeps rows or outcomes.
func queuePiece(b *pgx.Batch, id string, ws waypost.WorkspaceID, outcome bool, p *imports.Piece) {
	b.Queue(`
		WITH kept AS (INSERT INTO import_rows (import_id, outcome, first_row, workspace_id, content) VALUES ($1, $2, $3, $4, $5))
		UPDATE import SET stored = stored + octet_length($5) WHERE id = $1`, id, outcome, p.First, ws, p.Content)
}

// RowsAt implements imports.Store.
func (db *ImportStore) RowsAt(
	ctx context.Context, ws waypost.WorkspaceID, id string, outcomes bool, row int64,
) (p imports.Piece, found bool, err error) {
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws), `SELECT first_row, content FROM import_rows
		WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND import_id = $2 AND outcome = $3 AND first_row <= $4
		ORDER BY first_row DESC LIMIT 1`,
		[]any{ws, id, outcomes, row}, scoped.Each(func(rows pgx.Rows) error {
			found = true
			return rows.Scan(&p.First, &p.Content)
		}))
	return p, found, scoped.Classify("read the rows of an import", err)
}

// beginStep locks an import for a step of a worker.
func beginStep(ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, state string, step *controlplane.ImportStep) error {
	var there bool
	err := tx.QueryRow(ctx, `SELECT true FROM import WHERE `+ofLease+` AND next_row = $4 AND `+scoped.OfWorkspace("workspace_id", "$5")+` FOR UPDATE`,
		step.ID, step.Worker, state, step.From, ws).Scan(&there)
	return scoped.IfNoRow(err, errNotLeased)
}

// moveImport moves an import on, and extends the lease of its worker.
const moveImport = `UPDATE import SET next_row = $2, document = $3, updated_at = now(), worker_until = clock_timestamp() + ` + importLease + `
	WHERE id = $1`

// storeStep moves an import on, in the transaction that beginStep is in.
func storeStep(ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, step *controlplane.ImportStep, outcome []byte) error {
	var b pgx.Batch
	b.Queue(moveImport, step.ID, step.To, step.Document)
	queuePiece(&b, step.ID, ws, true, &imports.Piece{First: step.From, Content: outcome})
	return tx.SendBatch(ctx, &b).Close()
}

// beginSteps locks the imports whose links are inserted.
func (k *precheck) beginSteps(ctx context.Context, tx pgx.Tx) error {
	for _, r := range k.records {
		if r.Import != nil {
			if err := beginStep(ctx, tx, r.ID.Workspace, api.ImportRunning, r.Import); err != nil {
				return err
			}
		}
	}
	return nil
}

// StepImport implements imports.Store.
func (db *ImportStore) StepImport(ctx context.Context, ws waypost.WorkspaceID, step *controlplane.ImportStep, outcome []byte) error {
	return db.within(ctx, ws, "go on with an import", func(tx pgx.Tx) error {
		if err := beginStep(ctx, tx, ws, api.ImportRunning, step); err != nil {
			return err
		}
		return storeStep(ctx, tx, ws, step, outcome)
	})
}

// UndoImport implements imports.Store. Edges get each link as disabled before it is
// deleted, see changelog_after_link. The history of the links is written here, because
// link_changed, which finds out what has changed, takes longer than all else.
func (db *ImportStore) UndoImport(
	ctx context.Context, i *imports.Import, worker string, step *imports.UndoStep, removed func(n int) ([]byte, error),
) (waypost.Position, error) {
	return db.pool.changeIn(ctx, scoped.TenantOf(i.Workspace), "undo an import", func(tx pgx.Tx, _ uint32) error {
		if err := beginStep(ctx, tx, i.Workspace, i.State, &controlplane.ImportStep{ID: i.ID, Worker: worker, From: i.Next}); err != nil {
			return err
		}
		// Links are looked up one by one, and found again by their place, which stays while
		// the head is held: before ANALYZE has seen the import, PostgreSQL would read all links
		// of the workspace for a list of ids.
		var gone []string
		var aliased []int64
		var id int64
		var place string
		var aliases bool
		rows, err := tx.Query(ctx, `SELECT l.* FROM unnest($2::bigint[]) n (id) CROSS JOIN LATERAL (
				SELECT id, ctid::text, aliases IS NOT NULL FROM link WHERE id = n.id AND `+scoped.OfWorkspace("workspace_id", "$1")+`
				AND deleted_at IS NULL AND coalesce(edited[1], rev_epoch) = $3 AND coalesce(edited[2], rev_seq) = $4 OFFSET 0) l`,
			i.Workspace, step.Links, int64(step.Epoch), int64(step.Seq))
		if err == nil {
			_, err = pgx.ForEachRow(rows, []any{&id, &place, &aliases}, func() error {
				if gone = append(gone, place); aliases {
					aliased = append(aliased, id)
				}
				return nil
			})
		}
		if err != nil {
			return err
		}
		document, err := removed(len(gone))
		if err != nil {
			return err
		}
		var b pgx.Batch
		b.Queue(`SELECT set_config('waypost.undoing', 'on', true)`)
		if len(gone) > 0 {
			b.Queue(`
				WITH was AS (SELECT id, jsonb_build_object('aliases', link_fields(l) -> 'aliases') AS fields FROM link l WHERE id = ANY ($3)),
				     gone AS (UPDATE link SET deleted_at = now(), updated_at = now(), aliases = NULL
				              WHERE ctid = ANY ($2::text[]::tid[]) AND `+scoped.OfWorkspace("workspace_id", "$1")+` RETURNING id, rev_epoch, rev_seq, workspace_id)
				INSERT INTO link_change (link_id, rev_epoch, rev_seq, workspace_id, what, actor, before, after)
				SELECT g.*, 'deleted', jsonb_build_object('kind', $4::text, 'id', $5::bigint, 'name', $6::text, 'undo', $7::text),
				       coalesce(w.fields, '{}'), CASE WHEN w.fields IS NULL THEN '{}' ELSE '{"aliases": null}'::jsonb END
				FROM gone g LEFT JOIN was w USING (id)`, i.Workspace, gone, aliased, i.By.Kind(), i.By.ID(), i.By.Title(), i.ID)
		}
		if len(aliased) > 0 {
			b.Queue(`DELETE FROM link_alias WHERE link_id = ANY ($2) AND `+scoped.OfWorkspace("workspace_id", "$1"), i.Workspace, aliased)
		}
		b.Queue(moveImport, i.ID, step.To, document)
		return tx.SendBatch(ctx, &b).Close()
	})
}

// forgetImports removes imports that have not changed for long enough.
func (db *ImportStore) forgetImports(ctx context.Context) error {
	_, err := db.pool.ExecIn(ctx, scoped.Operator, `DELETE FROM import WHERE id IN (
		SELECT id FROM import WHERE updated_at < now() - $1::interval ORDER BY updated_at LIMIT 10 FOR UPDATE SKIP LOCKED)`,
		imports.KeptFor)
	return scoped.Classify("forget imports", err)
}
