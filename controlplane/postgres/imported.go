package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// codeList is a list of codes under domains, for unnest.
type codeList struct {
	domains []int32
	codes   []string
}

func (c *codeList) addCode(domain waypost.DomainID, code waypost.Code) {
	c.domains, c.codes = append(c.domains, int32(domain)), append(c.codes, string(code))
}

// undone is the condition that the undo of an import deleted a link l, and that nothing
// has happened to the link since.
const undone = `l.deleted_at IS NOT NULL AND coalesce((SELECT c.what = 'deleted' AND c.actor ? 'undo' FROM link_change c
	WHERE c.link_id = l.id ORDER BY c.rev_epoch DESC, c.rev_seq DESC LIMIT 1), false)`

// releaseCodes removes the tombstones and retired aliases of a workspace that undos of
// its imports have left, if they have one of the codes. It returns the codes that are
// free.
func releaseCodes(ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, c *codeList) (free map[linkKey]bool, err error) {
	if err := scoped.Operator.Enter(ctx, tx); err != nil {
		return nil, err
	}
	free = make(map[linkKey]bool)
	var k linkKey
	for _, statement := range []string{`
		WITH gone AS (
			DELETE FROM link l USING unnest($2::integer[], $3::text[]) n (domain, code)
			WHERE l.domain_id = n.domain AND l.code = n.code AND l.workspace_id = $1 AND ` + undone + ` RETURNING l.id, l.domain_id, l.code),
		     aliases AS (DELETE FROM retired_code WHERE link_id IN (SELECT id FROM gone))
		SELECT domain_id, code FROM gone`, `
		DELETE FROM retired_code r USING unnest($2::integer[], $3::text[]) n (domain, code), link l
		WHERE r.domain_id = n.domain AND r.code = n.code AND l.id = r.link_id AND l.workspace_id = $1 AND ` + undone + `
		RETURNING r.domain_id, r.code`,
	} {
		rows, err := tx.Query(ctx, statement, ws, c.domains, c.codes)
		if err != nil {
			return nil, err
		}
		if _, err := pgx.ForEachRow(rows, []any{&k.domain, &k.code}, func() error { free[k] = true; return nil }); err != nil {
			return nil, err
		}
	}
	return free, enterBatchTenant(ctx, tx, ws)
}

// placeReleased inserts the links of an import again that were refused because of an
// import that was undone.
func (in *inserting) placeReleased(ctx context.Context, tx pgx.Tx, at *begun) error {
	var c codeList
	for i, p := range in.placed {
		if x := &in.links[i]; x.Imported && x.Link.Custom &&
			(p == controlplane.Restorable || p == controlplane.Retired || p == controlplane.Issuable) {
			c.addCode(x.Link.Domain, x.Link.Key())
		}
	}
	if len(c.codes) == 0 {
		return nil
	}
	free, err := releaseCodes(ctx, tx, in.links[0].Link.Workspace, &c)
	if err != nil || len(free) == 0 {
		return err
	}
	var places []int
	var links []controlplane.Insertion
	for i, x := range in.links {
		if x.Imported && x.Link.Custom && free[linkKey{x.Link.Domain, x.Link.Key()}] {
			x.Claim = nil // the code was taken out of its range before
			places, links = append(places, i), append(links, x)
		}
	}
	again := newInserting(links)
	var b pgx.Batch
	b.Queue(`SELECT set_config('waypost.refused', '', true)`)
	again.queue(&b, at)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	for j, i := range places {
		in.placed[i] = again.placed[j]
	}
	return nil
}

// screenAliases refuses the links that cannot have all their aliases, because an alias
// is, or was, another link's, or an earlier link of the batch has it.
func (k *precheck) screenAliases(ctx context.Context, tx pgx.Tx) error {
	var all codeList
	for _, i := range k.rest {
		for _, a := range k.links[i].Link.Aliases {
			all.addCode(a.Domain, a.Code)
		}
	}
	if len(all.codes) == 0 {
		return nil
	}
	ws := k.links[k.rest[0]].Link.Workspace
	released, err := releaseCodes(ctx, tx, ws, &all)
	if err != nil {
		return err
	}
	taken, err := takenCodes(ctx, tx, ws, &all)
	if err != nil {
		return err
	}
	if err := k.claimAliases(ctx, tx, released, taken); err != nil {
		return err
	}
	var left []int
	for _, i := range k.rest {
		x := &k.links[i]
		if n := slices.IndexFunc(x.Link.Aliases, func(a waypost.Alias) bool { return taken[linkKey{a.Domain, a.Code}] }); n >= 0 {
			k.placed[i], *x.TakenBy = controlplane.AliasTaken, x.Link.Aliases[n].Code
			continue
		}
		taken[linkKey{x.Link.Domain, x.Link.Key()}] = true
		for _, a := range x.Link.Aliases {
			taken[linkKey{a.Domain, a.Code}] = true
		}
		left = append(left, i)
	}
	k.rest = left
	return nil
}

// takenCodes returns the codes that no alias can get.
func takenCodes(ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, c *codeList) (map[linkKey]bool, error) {
	if err := scoped.Operator.Enter(ctx, tx); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `
		SELECT n.domain, n.code FROM unnest($1::integer[], $2::text[]) n (domain, code)
		WHERE EXISTS (SELECT FROM link l WHERE l.domain_id = n.domain AND l.code = n.code)
		   OR EXISTS (SELECT FROM retired_code r WHERE r.domain_id = n.domain AND r.code = n.code)`, c.domains, c.codes)
	if err != nil {
		return nil, err
	}
	taken := make(map[linkKey]bool)
	var key linkKey
	if _, err := pgx.ForEachRow(rows, []any{&key.domain, &key.code}, func() error { taken[key] = true; return nil }); err != nil {
		return nil, err
	}
	return taken, enterBatchTenant(ctx, tx, ws)
}

// enterBatchTenant returns a transaction to the scope in which links are inserted.
func enterBatchTenant(ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID) error {
	return scoped.Tenant(scoped.WorkspaceList([]int64{int64(ws)})).Enter(ctx, tx)
}

// claimAliases burns the counters that aliases encode, and adds the codes that may be
// issued to the taken ones. Codes that were released were burned before.
func (k *precheck) claimAliases(ctx context.Context, tx pgx.Tx, released, taken map[linkKey]bool) error {
	var c claimColumns
	for _, i := range k.rest {
		x := &k.links[i]
		for n, claim := range x.AliasClaims {
			key := linkKey{x.Link.Aliases[n].Domain, x.Link.Aliases[n].Code}
			if claim == nil || released[key] || taken[key] {
				continue
			}
			c.codes, c.prefixes = append(c.codes, string(key.code)), append(c.prefixes, int32(claim.Prefix))
			c.counters, c.workspaces = append(c.counters, claim.N), append(c.workspaces, int64(x.Link.Workspace))
		}
	}
	if len(c.codes) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, `SELECT key_claim($1, $2, $3, $4)`, c.codes, c.prefixes, c.counters, c.workspaces)
	if err != nil {
		return err
	}
	refused, err := pgx.CollectRows(rows, pgx.RowTo[waypost.Code])
	for _, code := range refused {
		taken[linkKey{waypost.DefaultDomain, code}] = true
	}
	return err
}

// addAliases adds the aliases of the links that were placed.
func (in *inserting) addAliases(ctx context.Context, tx pgx.Tx) error {
	var links, workspaces []int64
	var titles []string
	var c codeList
	var by *controlplane.Actor
	for i := range in.links {
		l := in.links[i].Link
		if in.placed[i] != controlplane.Placed {
			continue
		}
		for _, a := range l.Aliases {
			links, workspaces, titles = append(links, l.ID), append(workspaces, int64(l.Workspace)), append(titles, a.Title)
			c.addCode(a.Domain, a.Code)
			by = &in.links[i].Idempotency.Import.By
		}
	}
	if by == nil {
		return nil
	}
	var b pgx.Batch
	nameActor(&b, *by)
	b.Queue(`INSERT INTO link_alias (link_id, workspace_id, domain_id, code, title)
		SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::integer[], $4::text[], $5::text[])`, links, workspaces, c.domains, c.codes, titles)
	return tx.SendBatch(ctx, &b).Close()
}
