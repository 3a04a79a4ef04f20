package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// DomainStore keeps the hosts under which links live, and where their roots lead. It
// implements controlplane.DomainStore.
type DomainStore struct{ pool *pool }

const domainColumns = `id, coalesce(workspace_id, 0), host, coalesce(root_url, ''), coalesce(not_found_url, ''),
	coalesce(maintenance_url, ''), exact_paths, ignores_case, case_switching`

func scanDomain(row pgx.Row) (d waypost.Domain, err error) {
	var root, notFound, maintenance string
	var exact, ignores, switching bool
	err = row.Scan(&d.ID, &d.Workspace, &d.Host, &root, &notFound, &maintenance, &exact, &ignores, &switching)
	d.Root, d.NotFound, d.Maintenance = []byte(root), []byte(notFound), []byte(maintenance)
	d.Traits = traitsOf(exact, ignores, switching)
	return d, err
}

func traitsOf(exact, ignores, switching bool) waypost.DomainTraits {
	return waypost.DomainTraits(0).With(waypost.ExactPaths, exact).With(waypost.IgnoresCase, ignores).With(waypost.CaseSwitching, switching)
}

func (db *DomainStore) Domains(ctx context.Context, ws waypost.WorkspaceID) (all []controlplane.OwnedDomain, err error) {
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws), `SELECT `+ownedColumns+ownedDomains+
		`AND (`+scoped.OfWorkspace("d.workspace_id", "$1")+` OR d.workspace_id IS NULL) ORDER BY d.id`, []any{ws}, collectOwned(&all))
	return all, scoped.Classify("list domains", err)
}

func (db *DomainStore) EveryDomain(ctx context.Context) (all []controlplane.OwnedDomain, err error) {
	err = db.pool.QueryIn(ctx, scoped.Operator, `SELECT `+ownedColumns+ownedDomains+`ORDER BY d.id`, nil, collectOwned(&all))
	return all, scoped.Classify("list the domains of all workspaces", err)
}

func (db *DomainStore) Hosts(ctx context.Context) ([]waypost.Domain, error) {
	var all []waypost.Domain
	var d waypost.Domain
	var ignores, switching bool
	err := db.pool.QueryIn(ctx, scoped.Operator, `SELECT id, coalesce(workspace_id, 0), host, ignores_case, case_switching FROM domain
		WHERE NOT retired`, nil, scoped.ForEach([]any{&d.ID, &d.Workspace, &d.Host, &ignores, &switching}, func() error {
		d.Traits = traitsOf(false, ignores, switching)
		all = append(all, d)
		return nil
	}))
	return all, scoped.Classify("read the hosts", err)
}

func (db *DomainStore) DomainOf(ctx context.Context, host string, strict bool) (d waypost.Domain, found bool, err error) {
	const byHost = `SELECT ` + domainColumns + ` FROM domain
		WHERE id = coalesce((SELECT id FROM domain WHERE host = $1), CASE WHEN $2 THEN 0 ELSE 1 END)`
	err = db.pool.QueryIn(ctx, scoped.Stream, byHost, []any{host, strict}, scoped.Each(func(rows pgx.Rows) (err error) {
		found = true
		d, err = scanDomain(rows)
		return err
	}))
	return d, found, scoped.Classify("look up a host", err)
}

func (db *DomainStore) HeldKey(ctx context.Context, id waypost.DomainID, keys ...waypost.Code) (key, code waypost.Code, err error) {
	err = db.pool.QueryIn(ctx, scoped.Stream, `SELECT code, coalesce(typed_code, code)
		FROM (SELECT domain_id, code, typed_code FROM link UNION ALL SELECT domain_id, code, typed_code FROM link_alias) k
		WHERE domain_id = $1 AND code = ANY ($2) ORDER BY array_position($2, code) LIMIT 1`, []any{id, keys}, scoped.RowInto(&key, &code))
	return key, code, scoped.Classify("look up a key", err)
}

// SetDomain implements controlplane.DomainStore. Row-level security lets only the role
// waypost_operator change a shared domain, so the default workspace has that scope.
func (db *DomainStore) SetDomain(
	ctx context.Context, by controlplane.Actor, id waypost.DomainID, c api.DomainChange,
) (d controlplane.OwnedDomain, p waypost.Position, err error) {
	p, err = db.pool.changeIn(ctx, scoped.Operator.SharedBy(by.Workspace), "change a domain", func(tx pgx.Tx, _ uint32) error {
		whose := scoped.OfWorkspace("workspace_id", "$2")
		var shared bool
		if by.Workspace == waypost.DefaultWorkspace {
			if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM domain WHERE id = $1 AND workspace_id IS NULL)`, id).Scan(&shared); err != nil {
				return err
			}
		}
		if shared {
			whose = `workspace_id IS NULL AND $2::bigint IS NOT NULL`
		} else if err := scoped.EnterTenant(ctx, tx, by.Workspace); err != nil {
			return err
		}
		if err := scoped.ExecOr(ctx, tx, waypost.Errorf(waypost.ENotFound, "there is no such domain"), `
			UPDATE domain SET
				root_url        = CASE WHEN $3::text IS NULL THEN root_url ELSE nullif($3, '') END,
				not_found_url   = CASE WHEN $4::text IS NULL THEN not_found_url ELSE nullif($4, '') END,
				maintenance_url = CASE WHEN $5::text IS NULL THEN maintenance_url ELSE nullif($5, '') END,
				exact_paths     = coalesce($6, exact_paths),
				ignores_case    = coalesce($7 = 'insensitive', ignores_case),
				case_switching  = case_switching OR coalesce(($7 = 'insensitive') <> ignores_case, false)
			WHERE id = $1 AND NOT retired AND `+whose,
			id, by.Workspace, c.RootURL, c.NotFoundURL, c.MaintenanceURL, c.ExactPaths, c.Case); err != nil {
			return err
		}
		if d, err = owned(ctx, tx, id); err != nil {
			return err
		}
		return scoped.NoteAct(ctx, tx, by, "domains.set", d.Host, c)
	})
	return d, p, err
}

// scopeOf returns the scope of a change of domains: operator for the default workspace,
// because row-level security lets no other role change shared domains.
func scopeOf(by controlplane.Actor) scoped.Scope {
	if by.Workspace == waypost.DefaultWorkspace {
		return scoped.Operator.SharedBy(by.Workspace)
	}
	return scoped.TenantOf(by.Workspace)
}

func (db *DomainStore) CreateDomain(
	ctx context.Context, by controlplane.Actor, d waypost.Domain, pending bool,
) (o controlplane.OwnedDomain, p waypost.Position, err error) {
	host := d.Host
	if pending {
		host = "pending-" + strings.ToLower(rand.Text()) + ".invalid"
	}
	detail := map[string]any{
		"host": d.Host, "shared": d.Workspace == 0, "pending": pending, "root_url": string(d.Root),
		"not_found_url": string(d.NotFound), "exact_paths": d.Traits&waypost.ExactPaths != 0,
		"ignores_case": d.Traits&waypost.IgnoresCase != 0,
	}
	p, err = db.changeAs(ctx, "add a domain", scopeOf(by), func(tx pgx.Tx) error {
		var have int
		var taken bool
		if err := tx.QueryRow(ctx, `SELECT count(*) FILTER (WHERE `+scoped.OfWorkspace("workspace_id", "$1")+`),
			count(*) FILTER (WHERE host = $2) > 0 FROM domain WHERE NOT retired`, int64(d.Workspace), d.Host).Scan(&have, &taken); err != nil {
			return err
		}
		if have >= controlplane.MaxDomains {
			return waypost.Errorf(waypost.EConflict, "a workspace has at most %d domains", controlplane.MaxDomains)
		}
		inUse := waypost.Errorf(waypost.EConflict, "the host is in use")
		if taken { // the scope shows all domains, or the workspace's own and the shared ones
			return inUse
		}
		err := tx.QueryRow(ctx, `
			INSERT INTO domain (workspace_id, host, root_url, not_found_url, exact_paths, ignores_case, count_utm)
			VALUES (nullif($1, 0), $2, nullif($3, ''), nullif($4, ''), $5, $6,
			        `+scoped.CountsUTM(`coalesce(nullif($1, 0), w.id)`)+`)
			ON CONFLICT (host) DO NOTHING RETURNING id`,
			int64(d.Workspace), host, string(d.Root), string(d.NotFound), d.Traits&waypost.ExactPaths != 0,
			d.Traits&waypost.IgnoresCase != 0).Scan(&d.ID)
		if err = scoped.IfNoRow(err, inUse); err != nil {
			return err
		}
		if pending {
			err := scoped.ExecOr(ctx, tx, waypost.Errorf(waypost.EConflict, "the workspace has this domain already"),
				`INSERT INTO domain_proof (domain_id, workspace_id, host) VALUES ($1, $2, $3) ON CONFLICT (workspace_id, host) DO NOTHING`,
				d.ID, int64(d.Workspace), d.Host)
			if err != nil {
				return err
			}
		}
		if o, err = owned(ctx, tx, d.ID); err != nil {
			return err
		}
		return scoped.NoteAct(ctx, tx, by, "domains.add", d.Host, detail)
	})
	return o, p, err
}

func (db *DomainStore) RetireDomain(
	ctx context.Context, by controlplane.Actor, of waypost.WorkspaceID, id waypost.DomainID, force bool,
) (waypost.Position, error) {
	r := retirement{by: by, of: of, domain: id, force: force}
	for {
		done := false
		p, err := db.changeAs(ctx, "remove a domain", scopeOf(by), func(tx pgx.Tx) (err error) {
			done, err = r.step(ctx, tx)
			return err
		})
		if err != nil && r.after != "" && waypost.CodeOf(err) == waypost.EUnavailable {
			err = waypost.WrapError(waypost.EUnavailable, "the domain has more links than one request deletes, and a part of them is deleted: "+
				"repeat the request until none is left", err)
		}
		if err != nil || done {
			return p, err
		}
	}
}

// retirement takes the host from a domain that has no live links, in steps that each read
// and change a bounded number of links.
type retirement struct {
	by     controlplane.Actor
	of     waypost.WorkspaceID // 0: shared
	domain waypost.DomainID
	force  bool

	after string // the code up to which links have been deleted
	swept bool   // all links have been deleted
}

// step does the work of one transaction. With force it deletes the next links, and
// returns false while there may be more.
func (r *retirement) step(ctx context.Context, tx pgx.Tx) (done bool, err error) {
	d, err := owned(ctx, tx, r.domain)
	if err == nil && d.Workspace != r.of {
		err = waypost.Errorf(waypost.ENotFound, "there is no such domain")
	}
	if err != nil {
		return false, err
	}
	if r.force && !r.swept {
		return false, r.sweep(ctx, tx)
	}
	// An index covers the live links of a workspace's own domains.
	used, args := `SELECT EXISTS (SELECT FROM link WHERE domain_id = $1 AND deleted_at IS NULL)`+orAliases, []any{r.domain}
	if r.of != 0 {
		used, args = `SELECT EXISTS (SELECT FROM link WHERE workspace_id = $2 AND domain_id = $1 AND domain_id <> 1
			AND deleted_at IS NULL)`+orAliases, append(args, r.of)
	}
	var is bool
	if err := tx.QueryRow(ctx, used, args...).Scan(&is); err != nil {
		return false, err
	}
	if is && r.force { // some links came since
		r.after, r.swept = "", false
		return false, nil
	}
	if is {
		return false, waypost.Errorf(waypost.EConflict, "the domain has links: delete them first, or use force, which deletes them with it")
	}
	if _, err := tx.Exec(ctx, `DELETE FROM domain_proof WHERE domain_id = $1`, r.domain); err != nil {
		return false, err
	}
	whose := r.of
	if whose == 0 {
		whose = r.by.Workspace
	}
	if err := auditBoth(ctx, tx, r.by, whose, "domains.remove", d.Host, map[string]any{}); err != nil {
		return false, err
	}
	return true, r.retire(ctx, tx)
}

// retire deletes a domain that has no links, because it never had one or all have been
// purged. From another domain it takes the host only, because tombstones need the
// domain's row.
func (r *retirement) retire(ctx context.Context, tx pgx.Tx) error {
	var used bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM link WHERE domain_id = $1)`, r.domain).Scan(&used); err != nil {
		return err
	}
	if used {
		return scoped.Exec(ctx, tx, `UPDATE domain SET host = $2, retired = true, root_url = NULL, not_found_url = NULL, maintenance_url = NULL
			WHERE id = $1`, r.domain, fmt.Sprintf("domain-%d.invalid", r.domain))
	}
	if err := scoped.Operator.Enter(ctx, tx); err != nil { // no tenant may delete domains
		return err
	}
	return scoped.Exec(ctx, tx, `DELETE FROM domain WHERE id = $1`, r.domain)
}

// sweep deletes the live links among the next codes, and at last the aliases. It counts
// the tombstones too, because a search for live links from the beginning would pass more
// and more tombstones.
func (r *retirement) sweep(ctx context.Context, tx pgx.Tx) error {
	var last *string
	var seen int
	err := tx.QueryRow(ctx, `
		WITH next AS (SELECT id, code, deleted_at FROM link WHERE domain_id = $1 AND code > $2 ORDER BY code LIMIT $3),
		     gone AS (UPDATE link SET deleted_at = now(), updated_at = now() WHERE id IN (SELECT id FROM next WHERE deleted_at IS NULL))
		SELECT max(code), count(*) FROM next`, r.domain, r.after, waypost.MaxBulk).Scan(&last, &seen)
	if err != nil {
		return err
	}
	if r.swept = seen < waypost.MaxBulk; !r.swept {
		r.after = *last
		return nil
	}
	tag, err := tx.Exec(ctx, `DELETE FROM link_alias WHERE domain_id = $1 AND code IN (SELECT code FROM link_alias WHERE domain_id = $1 LIMIT $2)`,
		r.domain, waypost.MaxBulk)
	r.swept = tag.RowsAffected() < waypost.MaxBulk
	return err
}

const orAliases = ` OR EXISTS (SELECT FROM link_alias WHERE domain_id = $1)`

// changeAs changes domains in a scope.
func (db *DomainStore) changeAs(ctx context.Context, doing string, s scoped.Scope, f func(tx pgx.Tx) error) (waypost.Position, error) {
	return db.pool.changeIn(ctx, s, doing, func(tx pgx.Tx, _ uint32) error { return f(tx) })
}

// ensureDefaultHost sets the host of the shared domain.
func (db *DomainStore) ensureDefaultHost(ctx context.Context, host string) error {
	var have string
	err := db.pool.QueryIn(ctx, scoped.Operator, `SELECT host FROM domain WHERE id = $1`, []any{waypost.DefaultDomain}, scoped.RowInto(&have))
	if err != nil {
		return scoped.Classify("read the default domain", err)
	}
	if have == host {
		return nil
	}
	err = db.pool.change(ctx, "set the default domain", func(tx pgx.Tx, _ uint32) error {
		return scoped.Exec(ctx, tx, `UPDATE domain SET host = $1 WHERE id = $2`, host, waypost.DefaultDomain)
	})
	if waypost.CodeOf(err) == waypost.EInvalid {
		return fmt.Errorf("the base URL's host %q belongs to another domain of this cluster", host)
	}
	return err
}
