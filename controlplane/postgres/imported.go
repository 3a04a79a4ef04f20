package postgres

import (
	"context"

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
func releaseCodes(ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, c *codeList) (free map[controlplane.LinkName]bool, err error) {
	if err := scoped.Operator.Enter(ctx, tx); err != nil {
		return nil, err
	}
	free = make(map[controlplane.LinkName]bool)
	var k controlplane.LinkName
	for _, statement := range []string{
		`
		WITH gone AS (
			DELETE FROM link l USING unnest($2::integer[], $3::text[]) n (domain, code)
			WHERE l.domain_id = n.domain AND l.code = n.code AND l.workspace_id = $1 AND ` + undone + ` RETURNING l.id, l.domain_id, l.code),
		     aliases AS (DELETE FROM retired_code WHERE link_id IN (SELECT id FROM gone))
		SELECT domain_id, code FROM gone`, `
		WITH gone AS (SELECT r.link_id, r.n FROM unnest($2::integer[], $3::text[]) n (domain, code)
			JOIN retired_code r ON r.domain_id = n.domain AND r.code = n.code
			JOIN link l ON l.id = r.link_id AND l.workspace_id = $1 AND ` + undone + `)
		DELETE FROM retired_code r USING gone WHERE r.link_id = gone.link_id AND r.n = gone.n
		RETURNING r.domain_id, r.code`,
	} {
		rows, err := tx.Query(ctx, statement, ws, c.domains, c.codes)
		if err != nil {
			return nil, err
		}
		if _, err := pgx.ForEachRow(rows, []any{&k.Domain, &k.Code}, func() error { free[k] = true; return nil }); err != nil {
			return nil, err
		}
	}
	return free, enterBatchTenant(ctx, tx, ws)
}

// refusedCodes returns the codes of links of an import that an undo may have left.
func (in *inserting) refusedCodes() (c codeList) {
	for i, p := range in.placed {
		if x := &in.links[i]; x.Imported && x.Link.Custom &&
			(p == controlplane.Restorable || p == controlplane.Retired || p == controlplane.Issuable) {
			c.addCode(x.Link.Domain, x.Link.Key())
		}
	}
	return c
}

// tryReleased sets the placements that placeReleased would reach.
func (in *inserting) tryReleased(ctx context.Context, tx pgx.Tx) error {
	c := in.refusedCodes()
	if len(c.codes) == 0 {
		return nil
	}
	if err := scoped.Operator.Enter(ctx, tx); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, `
		SELECT n.domain, n.code FROM unnest($2::integer[], $3::text[]) n (domain, code)
		JOIN link l ON l.id = coalesce((SELECT o.id FROM link o WHERE o.domain_id = n.domain AND o.code = n.code),
			(SELECT r.link_id FROM retired_code r WHERE r.domain_id = n.domain AND r.code = n.code))
		WHERE l.workspace_id = $1 AND `+undone, in.links[0].Link.Workspace, c.domains, c.codes)
	if err != nil {
		return err
	}
	var key controlplane.LinkName
	_, err = pgx.ForEachRow(rows, []any{&key.Domain, &key.Code}, func() error {
		in.placed[in.index[key]] = controlplane.Placed
		return nil
	})
	return err
}

// placeReleased inserts the links of an import again that were refused because of an
// import that was undone.
func (in *inserting) placeReleased(ctx context.Context, tx pgx.Tx, at *begun) error {
	c := in.refusedCodes()
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
		if x.Imported && x.Link.Custom && free[controlplane.LinkName{Domain: x.Link.Domain, Code: x.Link.Key()}] {
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

// enterBatchTenant returns a transaction to the scope in which links are inserted.
func enterBatchTenant(ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID) error {
	return scoped.Tenant(scoped.WorkspaceList([]int64{int64(ws)})).Enter(ctx, tx)
}

// releaseAliases removes what undos of the workspace's imports have left of the aliases
// that links of an import ask for, and returns the aliases that are free.
func (k *precheck) releaseAliases(ctx context.Context, tx pgx.Tx) (free map[controlplane.LinkName]bool, err error) {
	var c codeList
	var ws waypost.WorkspaceID
	for _, i := range k.rest {
		if x := &k.links[i]; x.Imported {
			ws = x.Link.Workspace
			for _, a := range x.Link.Aliases {
				c.addCode(a.Domain, a.Key())
			}
		}
	}
	if len(c.codes) == 0 {
		return nil, nil
	}
	return releaseCodes(ctx, tx, ws, &c)
}
