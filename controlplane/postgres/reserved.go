package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres/scoped"
	"waypost/internal/failpoint"
)

// freeKeys selects the returned keys of a workspace.
func freeKeys() string {
	return `SELECT code FROM reserved_key WHERE ` + scoped.OfWorkspace("workspace_id", "$1") + ` AND state = 'free'`
}

// reuseKeys reserves returned keys: any $3 of them, so that LIMIT ends the scan of the
// index.
func reuseKeys() string {
	return `UPDATE reserved_key SET state = 'reserved', service = $2, reserved_at = now()
		WHERE code = ANY (ARRAY(` + freeKeys() + ` LIMIT $3)) RETURNING code`
}

func (db *KeyRangeStore) ReuseKeys(ctx context.Context, ws waypost.WorkspaceID, service string, n int) ([]waypost.Code, error) {
	as := scoped.TenantOf(ws).LookingUp()
	var some []waypost.Code
	err := db.pool.QueryIn(ctx, as, freeKeys()+` LIMIT 1`, []any{ws}, scoped.CollectInto(&some))
	if err != nil || len(some) == 0 {
		return nil, scoped.Classify("look for keys that were given back", err)
	}
	// Under the head, because a new epoch burns free keys.
	var codes []waypost.Code
	_, err = db.pool.changeIn(ctx, scoped.Operator.SharedBy(ws), "reuse keys", func(tx pgx.Tx, _ uint32) error {
		if err := as.Enter(ctx, tx); err != nil {
			return err
		}
		rows, _ := tx.Query(ctx, reuseKeys(), ws, service, n)
		return scoped.CollectInto(&codes)(rows)
	})
	return codes, err
}

// ReserveKeys implements keys.ReservedStore: one round trip.
func (db *KeyRangeStore) ReserveKeys(
	ctx context.Context, ws waypost.WorkspaceID, service string, epoch uint32, minted []controlplane.Key,
) (noted []waypost.Code, err error) {
	codes, leases := make([]string, len(minted)), make([]int64, len(minted))
	for i, k := range minted {
		codes[i], leases[i] = string(k.Code), k.Lease
	}
	var at begun
	var b pgx.Batch
	as := scoped.Operator.SharedBy(ws) // a link of any workspace counts
	as.EnterBatch(&b)
	b.Queue(selectBegin, int32(epoch)).QueryRow(at.scan)
	b.Queue(`SELECT key_check_leases((SELECT array_agg(DISTINCT l) FROM unnest($1::bigint[]) l))`, leases)
	b.Queue(`
		INSERT INTO reserved_key (code, workspace_id, service, lease_id)
		SELECT c, $3, $4, l FROM unnest($1::text[], $2::bigint[]) n (c, l)
		WHERE NOT EXISTS (SELECT FROM link WHERE domain_id = $5 AND code IN (c, lower(c))) RETURNING code`,
		codes, leases, ws, service, waypost.DefaultDomain).Query(scoped.CollectInto(&noted))
	failpoint.Hit("reserve keys: begun")
	if err := db.pool.Send(ctx, as, &b); err != nil {
		return nil, scoped.Classify("reserve keys", err)
	}
	failpoint.Hit("reserve keys: committed")
	db.pool.noteCommit(at.position())
	return noted, nil
}

func (db *KeyRangeStore) ReturnKeys(
	ctx context.Context, ws waypost.WorkspaceID, service string, codes []waypost.Code,
) ([]keys.Returned, error) {
	var published, back []waypost.Code
	_, err := db.pool.changeIn(ctx, scoped.Operator.SharedBy(ws), "return keys", func(tx pgx.Tx, _ uint32) error {
		// A link of any workspace counts, but of other keys than its own the service learns
		// nothing.
		rows, err := tx.Query(ctx, `
			SELECT k.code FROM reserved_key k
			WHERE k.workspace_id = $1 AND k.service = $2 AND k.code = ANY ($3)
			  AND EXISTS (SELECT FROM link l WHERE l.domain_id = $4
			              AND (l.code = k.code OR l.code = lower(k.code) AND l.typed_code = k.code))`, ws, service, codes, waypost.DefaultDomain)
		if err == nil {
			err = scoped.CollectInto(&published)(rows)
		}
		if err == nil {
			err = scoped.EnterTenant(ctx, tx, ws)
		}
		if err != nil {
			return err
		}
		rows, _ = tx.Query(ctx, `
			UPDATE reserved_key SET state = 'free'
			WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND service = $2 AND code = ANY($3) AND NOT code = ANY($4) AND state = 'reserved' RETURNING code`,
			ws, service, codes, append([]waypost.Code{}, published...))
		return scoped.CollectInto(&back)(rows)
	})
	if err != nil {
		return nil, err
	}
	return outcomes(codes, setOf(back), setOf(published)), nil
}

func outcomes(codes []waypost.Code, back, published map[waypost.Code]bool) []keys.Returned {
	results := make([]keys.Returned, len(codes))
	for i, code := range codes {
		results[i].Code = code
		switch {
		case published[code]:
			results[i].Err = waypost.Errorf(waypost.EConflict, "the key is a link's: it was published")
		case !back[code]:
			results[i].Err = waypost.Errorf(waypost.ENotFound, "the service does not hold this key")
		}
		delete(back, code) // named twice, it comes back once
	}
	return results
}

func setOf(codes []waypost.Code) map[waypost.Code]bool {
	set := make(map[waypost.Code]bool, len(codes))
	for _, c := range codes {
		set[c] = true
	}
	return set
}

func (db *KeyRangeStore) CountReserved(ctx context.Context, ws waypost.WorkspaceID) (map[string]int64, error) {
	counts := make(map[string]int64)
	var service string
	var n int64
	err := db.pool.QueryIn(ctx, scoped.TenantOf(ws), `
		SELECT service, count(*) FROM reserved_key WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND state = 'reserved' GROUP BY service`,
		[]any{ws}, scoped.ForEach([]any{&service, &n}, func() error { counts[service] = n; return nil }))
	return counts, scoped.Classify("count reserved keys", err)
}

func (db *KeyRangeStore) CountHeld(ctx context.Context, ws waypost.WorkspaceID) (n int64, err error) {
	of := ` FROM reserved_key WHERE ` + scoped.OfWorkspace("workspace_id", "$1")
	err = db.pool.QueryRowIn(ctx, scoped.TenantOf(ws).LookingUp(), `
		SELECT (SELECT count(*)`+of+` AND state = 'reserved') + (SELECT count(*)`+of+` AND state = 'free')`, []any{ws}, &n)
	return n, scoped.Classify("count the keys of a workspace", err)
}
