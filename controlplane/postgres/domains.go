package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
)

var _ controlplane.DomainStore = (*DB)(nil)

const domainColumns = `id, coalesce(workspace_id, 0), host, coalesce(root_url, ''), coalesce(not_found_url, '')`

func scanDomain(row pgx.Row) (d waypost.Domain, err error) {
	var root, notFound string
	err = row.Scan(&d.ID, &d.Workspace, &d.Host, &root, &notFound)
	d.Root, d.NotFound = []byte(root), []byte(notFound)
	return d, err
}

// Domains implements controlplane.DomainStore.
func (db *DB) Domains(ctx context.Context, ws waypost.WorkspaceID) ([]waypost.Domain, error) {
	var all []waypost.Domain
	err := db.queryIn(ctx, tenantOf(ws), `
		SELECT `+domainColumns+` FROM domain WHERE NOT retired AND (`+ofWorkspace("workspace_id", "$1")+` OR workspace_id IS NULL) ORDER BY id`,
		[]any{ws}, func(rows pgx.Rows) error {
			for rows.Next() {
				d, err := scanDomain(rows)
				if err != nil {
					return err
				}
				all = append(all, d)
			}
			return rows.Err()
		})
	return all, classify("list domains", err)
}

// AllDomains implements controlplane.DomainStore.
func (db *DB) AllDomains(ctx context.Context) ([]waypost.Domain, error) {
	var all []waypost.Domain
	err := db.queryIn(ctx, system, `SELECT id, coalesce(workspace_id, 0), host FROM domain WHERE NOT retired`, nil, func(rows pgx.Rows) error {
		var d waypost.Domain
		_, err := pgx.ForEachRow(rows, []any{&d.ID, &d.Workspace, &d.Host}, func() error { all = append(all, d); return nil })
		return err
	})
	return all, classify("read the hosts", err)
}

// DomainOf implements controlplane.DomainStore.
func (db *DB) DomainOf(ctx context.Context, host string) (d waypost.Domain, found bool, err error) {
	err = db.queryIn(ctx, stream, `SELECT `+domainColumns+` FROM domain WHERE host = $1`, []any{host}, func(rows pgx.Rows) (err error) {
		for rows.Next() {
			if d, err = scanDomain(rows); err != nil {
				return err
			}
			found = true
		}
		return rows.Err()
	})
	return d, found, classify("look up a host", err)
}

// DefaultTargets implements controlplane.DomainStore.
func (db *DB) DefaultTargets(ctx context.Context) (t waypost.DomainTargets, err error) {
	err = db.queryIn(ctx, stream, `SELECT `+domainColumns+` FROM domain WHERE id = $1`, []any{waypost.DefaultDomain}, func(rows pgx.Rows) error {
		for rows.Next() {
			d, err := scanDomain(rows)
			if err != nil {
				return err
			}
			t = d.DomainTargets
		}
		return rows.Err()
	})
	return t, classify("read the default domain", err)
}

// SetDomain implements controlplane.DomainStore. Row-level security lets nobody but
// the system change a shared domain, so that the default workspace acts as that.
func (db *DB) SetDomain(ctx context.Context, by controlplane.Actor, id waypost.DomainID, c controlplane.DomainChange) (d waypost.Domain, p waypost.Position, err error) {
	detail, err := json.Marshal(c)
	if err != nil {
		return d, p, err
	}
	err = db.change(ctx, "change a domain", func(tx pgx.Tx, _ uint32) error {
		var at begun
		if err := at.scan(tx.QueryRow(ctx, selectBegin, 0)); err != nil { // which change has taken
			return err
		}
		p = at.position()
		whose := ofWorkspace("workspace_id", "$2")
		var shared bool
		if by.Workspace == waypost.DefaultWorkspace {
			if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM domain WHERE id = $1 AND workspace_id IS NULL)`, id).Scan(&shared); err != nil {
				return err
			}
		}
		if shared {
			whose = `workspace_id IS NULL AND $2::bigint IS NOT NULL`
		} else if err := setTenant(ctx, tx, by.Workspace); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			UPDATE domain SET
				root_url      = CASE WHEN $3::text IS NULL THEN root_url ELSE nullif($3, '') END,
				not_found_url = CASE WHEN $4::text IS NULL THEN not_found_url ELSE nullif($4, '') END
			WHERE id = $1 AND NOT retired AND `+whose+`
			RETURNING `+domainColumns, id, by.Workspace, c.Root, c.NotFound)
		if err != nil {
			return err
		}
		d, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (waypost.Domain, error) { return scanDomain(row) })
		if errors.Is(err, pgx.ErrNoRows) {
			return waypost.Errorf(waypost.ENotFound, "there is no such domain")
		}
		if err != nil {
			return err
		}
		return audit(ctx, tx, by, "domains.set", d.Host, detail)
	})
	if err != nil {
		return waypost.Domain{}, waypost.Position{}, err
	}
	return d, p, nil
}
