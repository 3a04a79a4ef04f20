package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// ownedColumns lists the columns for scanOwned, of domain d, its proof p and its
// workspace w. A domain that is not served has a placeholder host, which no visitor asks
// for; its proof has the real host.
const (
	ownedColumns = `d.id, coalesce(d.workspace_id, 0), coalesce(p.host, d.host), coalesce(d.root_url, ''), coalesce(d.not_found_url, ''),
		coalesce(d.maintenance_url, ''), d.exact_paths, d.ignores_case, d.case_switching,
		CASE WHEN p.host IS NULL THEN 'approved' WHEN p.host = d.host THEN 'proved' WHEN p.proved_at IS NULL THEN 'pending' ELSE 'suspended' END,
		CASE WHEN p.host IS NULL THEN '' ELSE coalesce(w.proof, '') END, p.checked_at, p.denied_since`
	ownedDomains = ` FROM domain d LEFT JOIN domain_proof p ON p.domain_id = d.id LEFT JOIN workspace w ON w.id = d.workspace_id
		WHERE NOT d.retired `
)

func scanOwned(row pgx.CollectableRow) (d controlplane.OwnedDomain, err error) {
	var root, notFound, maintenance string
	var exact, ignores, switching bool
	var checked, denied *time.Time
	err = row.Scan(&d.ID, &d.Workspace, &d.Host, &root, &notFound, &maintenance, &exact, &ignores, &switching,
		&d.State, &d.Proof, &checked, &denied)
	d.Root, d.NotFound, d.Maintenance = []byte(root), []byte(notFound), []byte(maintenance)
	d.Traits = traitsOf(exact, ignores, switching)
	if checked != nil {
		d.CheckedAt = checked.UTC()
	}
	if denied != nil {
		d.UnprovedSince = denied.UTC()
	}
	return d, err
}

// owned reads one domain in a transaction. It fails with ENotFound if there is no such
// domain.
func owned(ctx context.Context, tx pgx.Tx, id waypost.DomainID) (controlplane.OwnedDomain, error) {
	rows, _ := tx.Query(ctx, `SELECT `+ownedColumns+ownedDomains+`AND d.id = $1`, id)
	d, err := pgx.CollectExactlyOneRow(rows, scanOwned)
	return d, scoped.IfNoRow(err, waypost.Errorf(waypost.ENotFound, "there is no such domain"))
}

func (db *DomainStore) DueProofs(ctx context.Context, age time.Duration, limit int) (due []controlplane.OwnedDomain, err error) {
	err = db.pool.Within(ctx, scoped.Operator, "find domains to verify", func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, `
			WITH due AS (
				UPDATE domain_proof SET checked_at = clock_timestamp() WHERE domain_id IN (
					SELECT p.domain_id FROM domain_proof p JOIN workspace w ON w.id = p.workspace_id
					WHERE w.deleted_at IS NULL AND coalesce(p.checked_at, p.created_at) < clock_timestamp() - $1::interval
					ORDER BY coalesce(p.checked_at, p.created_at) LIMIT $2 FOR UPDATE OF p SKIP LOCKED)
				RETURNING domain_id)
			SELECT `+ownedColumns+ownedDomains+`AND d.id IN (SELECT domain_id FROM due)`, age, limit)
		due, err = pgx.CollectRows(rows, scanOwned)
		return err
	})
	return due, err
}

// NoteProof implements controlplane.DomainStore. It takes the scope operator, because DNS
// decides, and a domain of another workspace may change as well.
func (db *DomainStore) NoteProof(
	ctx context.Context, by controlplane.Actor, id waypost.DomainID, found []string,
) (d controlplane.OwnedDomain, p waypost.Position, err error) {
	serve := false
	err = db.pool.Within(ctx, scoped.Operator, "note the proof of a domain", func(tx pgx.Tx) (err error) {
		if d, err = owned(ctx, tx, id); err != nil {
			return err
		}
		proved := slices.Contains(found, d.Proof)
		_, err = tx.Exec(ctx, `UPDATE domain_proof SET checked_at = clock_timestamp(),
			denied_since = CASE WHEN $2 THEN NULL ELSE coalesce(denied_since, clock_timestamp()) END WHERE domain_id = $1`, id, proved)
		if err != nil {
			return err
		}
		if d, err = owned(ctx, tx, id); err != nil {
			return err
		}
		serve = proved && d.State != controlplane.DomainProved
		if d.SuspendedAt().IsZero() {
			return nil
		}
		return auditDomain(ctx, tx, by, &d.Domain, "domains.unproved", map[string]any{"since": d.UnprovedSince, "suspended_at": d.SuspendedAt()})
	})
	overdue := !d.SuspendedAt().IsZero() && time.Now().After(d.SuspendedAt())
	if err != nil || !serve && !overdue {
		return d, p, err
	}
	p, err = db.changeAs(ctx, "serve a domain, or not", scoped.Operator, func(tx pgx.Tx) (err error) {
		if serve {
			err = db.serve(ctx, tx, by, &d, found)
		} else {
			err = suspend(ctx, tx, by, &d, "its record has been missing for too long")
		}
		if err != nil {
			return err
		}
		d, err = owned(ctx, tx, id)
		return err
	})
	return d, p, err
}

// serve sets the host of a domain. A domain of another workspace that has the host loses
// it if its own record is not among the found ones; found is nil when DNS was not asked.
func (db *DomainStore) serve(ctx context.Context, tx pgx.Tx, by controlplane.Actor, d *controlplane.OwnedDomain, found []string) error {
	rows, _ := tx.Query(ctx, `SELECT `+ownedColumns+ownedDomains+`AND d.host = $1 AND d.id <> $2`, d.Host, d.ID)
	holders, err := pgx.CollectRows(rows, scanOwned)
	if err != nil {
		return err
	}
	for i := range holders {
		if h := &holders[i]; found == nil || h.State != controlplane.DomainProved || slices.Contains(found, h.Proof) {
			return waypost.Errorf(waypost.EConflict, "the host %s is in use", d.Host)
		}
		if err := suspend(ctx, tx, by, &holders[i], "another workspace has proved the host, and its own record is gone"); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, `UPDATE domain SET host = $2 WHERE id = $1`, d.ID, d.Host); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE domain_proof SET proved_at = clock_timestamp() WHERE domain_id = $1`, d.ID); err != nil {
		return err
	}
	return auditDomain(ctx, tx, by, &d.Domain, "domains.prove", map[string]any{})
}

// suspend takes the host from a domain, which keeps its links and its claim.
func suspend(ctx context.Context, tx pgx.Tx, by controlplane.Actor, d *controlplane.OwnedDomain, why string) error {
	if _, err := tx.Exec(ctx, `UPDATE domain SET host = $2 WHERE id = $1`, d.ID, fmt.Sprintf("suspended-%d.invalid", d.ID)); err != nil {
		return err
	}
	if by.Workspace != d.Workspace {
		by = controlplane.Actor{Name: "DNS"} // its owner does not learn who has the host now
	}
	return auditDomain(ctx, tx, by, &d.Domain, "domains.suspend", map[string]any{"reason": why})
}

// auditDomain notes an act of the system in the log of a domain's workspace.
func auditDomain(ctx context.Context, tx pgx.Tx, by controlplane.Actor, d *waypost.Domain, action string, detail map[string]any) error {
	by.Workspace = d.Workspace
	return scoped.NoteAct(ctx, tx, by, action, d.Host, detail)
}

func (db *DomainStore) ApproveDomain(
	ctx context.Context, by controlplane.Actor, id waypost.DomainID,
) (d controlplane.OwnedDomain, p waypost.Position, err error) {
	p, err = db.changeAs(ctx, "approve a domain", scoped.Operator, func(tx pgx.Tx) error {
		if d, err = owned(ctx, tx, id); err != nil {
			return err
		}
		if d.State == controlplane.DomainApproved {
			return nil
		}
		if d.State != controlplane.DomainProved {
			if err := db.serve(ctx, tx, by, &d, nil); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `DELETE FROM domain_proof WHERE domain_id = $1`, id); err != nil {
			return err
		}
		host := d.Host
		if d, err = owned(ctx, tx, id); err != nil {
			return err
		}
		return auditBoth(ctx, tx, by, d.Workspace, "domains.approve", host, map[string]any{})
	})
	return d, p, err
}

func collectOwned(into *[]controlplane.OwnedDomain) func(pgx.Rows) error {
	return scoped.CollectWith(into, scanOwned)
}
