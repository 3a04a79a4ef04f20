package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// aliasObject is a row a of link_alias, and d of its domain, as a waypost.Alias.
const aliasObject = `jsonb_build_object('Domain', a.domain_id, 'Host', CASE WHEN a.domain_id = 1 THEN '' ELSE d.host END,
	'Code', coalesce(a.typed_code, a.code), 'Folded', CASE WHEN a.typed_code IS NULL THEN '' ELSE a.code END,
	'N', a.n, 'Title', a.title, 'PrintedOn', coalesce(a.printed_on::text, ''),
	'Batch', a.batch, 'AddedAt', a.created_at)`

func (db *LinkStore) AddAlias(
	ctx context.Context, by controlplane.Actor, link int64, a waypost.Alias, claim *controlplane.Counter,
) (waypost.Link, waypost.Position, error) {
	return db.changeAliases(ctx, by, link, "add an alias", func(tx pgx.Tx) error {
		var count int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM link_alias WHERE link_id = $1`, link).Scan(&count); err != nil {
			return err
		}
		if count >= waypost.MaxAliases {
			return waypost.Errorf(waypost.EConflict, "a link has at most %d aliases: remove one first", waypost.MaxAliases)
		}
		if claim != nil {
			var refused []string
			rows, err := tx.Query(ctx, `SELECT key_claim($1, $2, $3, $4)`, []string{string(a.Code)}, []int32{int32(claim.Prefix)},
				[]int64{claim.N}, []int64{int64(by.Workspace)})
			if err == nil {
				err = scoped.CollectInto(&refused)(rows)
			}
			if err != nil {
				return err
			}
			if len(refused) > 0 {
				return controlplane.PlacementError(a.Code, controlplane.Issuable)
			}
		}
		var fate string
		if err := tx.QueryRow(ctx, `SELECT link_code_fate($1, $2, $3)`, by.Workspace, a.Domain, a.Key()).Scan(&fate); err != nil {
			return err
		}
		switch fate {
		case "alias":
			return controlplane.PlacementError(a.Code, controlplane.Aliased)
		case "retired":
			return controlplane.PlacementError(a.Code, controlplane.Retired)
		}
		_, err := tx.Exec(ctx, `INSERT INTO link_alias (link_id, workspace_id, domain_id, code, typed_code, title, printed_on, batch)
			VALUES ($1, $2, $3, $4, nullif($5, $4), $6, nullif($7, '')::date, $8)`,
			link, by.Workspace, a.Domain, a.Key(), a.Code, a.Title, a.PrintedOn, a.Batch)
		switch scoped.PgCode(err) {
		case scoped.UniqueViolation:
			return controlplane.PlacementError(a.Code, controlplane.Taken)
		case scoped.ForeignKeyViolation:
			return waypost.ErrNoLink
		case scoped.CheckViolation:
			return waypost.Errorf(waypost.EConflict, "the link has had %d aliases, and can get no other", waypost.MaxAlias)
		}
		if err == nil {
			err = refuseBlocked(ctx, tx, by.Workspace, link)
		}
		return err
	})
}

// refuseBlocked returns EConflict while an operator blocks an address of a link. No block
// begins until the transaction ends.
func refuseBlocked(ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID, link int64) error {
	if err := scoped.Operator.Enter(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `LOCK TABLE link_block IN ROW EXCLUSIVE MODE`); err != nil {
		return err
	}
	var blocked bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (`+selectAddresses+` JOIN link_block b USING (host, code) WHERE b.blocked)`,
		[]int64{link}).Scan(&blocked); err != nil {
		return err
	}
	if blocked {
		return waypost.Errorf(waypost.EConflict, "an operator blocks an address of the link, which gets no alias until that ends")
	}
	return scoped.EnterTenant(ctx, tx, ws)
}

func (db *LinkStore) RemoveAlias(
	ctx context.Context, by controlplane.Actor, link int64, domain waypost.DomainID, code waypost.Code,
) (waypost.Link, waypost.Position, error) {
	return db.changeAliases(ctx, by, link, "remove an alias", func(tx pgx.Tx) error {
		return scoped.ExecOr(ctx, tx, controlplane.ErrNoAlias,
			`DELETE FROM link_alias WHERE link_id = $1 AND domain_id = $2 AND code = $3`, link, domain, code)
	})
}

// changeAliases changes the aliases of a link that lives, and returns the link.
func (db *LinkStore) changeAliases(
	ctx context.Context, by controlplane.Actor, link int64, doing string, change func(tx pgx.Tx) error,
) (l waypost.Link, at waypost.Position, err error) {
	at, err = db.pool.changeIn(ctx, scoped.TenantOf(by.Workspace), doing, func(tx pgx.Tx, _ uint32) error {
		var b pgx.Batch
		nameActor(&b, by)
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		if err := change(tx); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, selectLinks(`SELECT id FROM link WHERE id = $2 AND deleted_at IS NULL`, ""), by.Workspace, link)
		if err != nil {
			return err
		}
		l, err = pgx.CollectExactlyOneRow(rows, func(pgx.CollectableRow) (waypost.Link, error) { return scanLink(rows) })
		if errors.Is(err, pgx.ErrNoRows) {
			err = waypost.ErrNoLink
		}
		return err
	})
	return l, at, err
}

// screenAliases refuses the links that cannot have all their aliases, because an alias
// is, or was, another link's, because an earlier link of the batch has it, or because an
// operator blocks an address of the link, and the links with a code that an earlier link
// of the batch has as an alias. It sets the links aside that ask for the code of an
// earlier one. The transaction holds the head of the changelog, so that this holds until
// the commit.
func (k *precheck) screenAliases(ctx context.Context, tx pgx.Tx) error {
	x, err := k.lookUpAliases(ctx, tx)
	if err != nil {
		return err
	}
	firsts, aliased := make(map[controlplane.LinkName]int), make(map[controlplane.LinkName]waypost.WorkspaceID)
	var claims claimColumns
	var left []int
	for _, i := range k.rest {
		l := k.links[i].Link
		own := controlplane.LinkName{Domain: l.Domain, Code: l.Key()}
		if first, there := firsts[own]; there {
			k.repeated[i] = first
			continue
		}
		if ws := aliased[own]; ws != 0 {
			if k.placed[i] = controlplane.Taken; ws == l.Workspace {
				k.placed[i] = controlplane.Aliased
			}
			continue
		}
		blocked := x.blocked[controlplane.LinkName{Domain: l.Domain, Code: l.Code}]
		n := slices.IndexFunc(l.Aliases, func(a waypost.Alias) bool {
			key := controlplane.LinkName{Domain: a.Domain, Code: a.Key()}
			typed := controlplane.LinkName{Domain: a.Domain, Code: a.Code}
			return blocked || x.taken[key] || x.blocked[key] || x.issuable[l.Workspace][typed] && !x.released[key] || key == own
		})
		if n >= 0 {
			k.placed[i] = controlplane.AliasTaken
			if to := k.links[i].TakenBy; to != nil {
				*to = l.Aliases[n].Code
			}
			continue
		}
		firsts[own], x.taken[own] = i, true
		for n, a := range l.Aliases {
			key := controlplane.LinkName{Domain: a.Domain, Code: a.Key()}
			x.taken[key], aliased[key] = true, l.Workspace
			if claim := k.links[i].AliasClaims[n]; claim != nil && !x.released[key] {
				claims.add(a.Code, claim, l.Workspace)
			}
		}
		left = append(left, i)
	}
	if k.rest = left; len(claims.codes) == 0 {
		return nil
	}
	// It refuses none, because each was tried for its workspace.
	rows, _ := tx.Query(ctx, `SELECT key_claim($1, $2, $3, $4)`, claims.codes, claims.prefixes, claims.counters, claims.workspaces)
	refused, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(refused) > 0 {
		err = fmt.Errorf("the code %s of an alias may be issued, and was tried before", refused[0])
	}
	return err
}

// aliasLookup has the codes of aliases, and of links with aliases.
type aliasLookup struct {
	taken, blocked map[controlplane.LinkName]bool
	released       map[controlplane.LinkName]bool // burned before

	// issuable has the codes that a workspace may not claim. The service of a workspace
	// may have reserved them.
	issuable map[waypost.WorkspaceID]map[controlplane.LinkName]bool
}

// lookUpAliases looks for the aliases of the links that are to be written.
func (k *precheck) lookUpAliases(ctx context.Context, tx pgx.Tx) (x aliasLookup, err error) {
	var domains []int32
	var codes []string
	type claimed struct {
		workspace waypost.WorkspaceID
		code      waypost.Code
	}
	tried, claims := make(map[claimed]bool), make(map[waypost.WorkspaceID]*claimColumns)
	x.taken, x.blocked = make(map[controlplane.LinkName]bool), make(map[controlplane.LinkName]bool)
	x.issuable = make(map[waypost.WorkspaceID]map[controlplane.LinkName]bool)
	for _, i := range k.rest {
		l := k.links[i].Link
		for n, a := range l.Aliases {
			domains, codes = append(domains, int32(a.Domain)), append(codes, string(a.Key()))
			if claim := k.links[i].AliasClaims[n]; claim != nil {
				if claims[l.Workspace] == nil {
					claims[l.Workspace], x.issuable[l.Workspace] = &claimColumns{}, make(map[controlplane.LinkName]bool)
				}
				if once := (claimed{l.Workspace, a.Code}); !tried[once] {
					tried[once] = true
					claims[l.Workspace].add(a.Code, claim, l.Workspace)
				}
			}
		}
		if len(l.Aliases) > 0 {
			domains, codes = append(domains, int32(l.Domain)), append(codes, string(l.Code))
		}
	}
	if len(codes) == 0 {
		return x, nil
	}
	if x.released, err = k.releaseAliases(ctx, tx); err != nil {
		return x, err
	}
	mark := func(in map[controlplane.LinkName]bool) func(rows pgx.Rows) error {
		var key controlplane.LinkName
		return scoped.ForEach([]any{&key.Domain, &key.Code}, func() error { in[key] = true; return nil })
	}
	var b pgx.Batch
	scoped.Operator.EnterBatch(&b)
	b.Queue(`LOCK TABLE link_block IN ROW EXCLUSIVE MODE`) // no block begins until the commit
	b.Queue(`
		SELECT n.domain, n.code FROM unnest($1::integer[], $2::text[]) n (domain, code)
		WHERE EXISTS (SELECT FROM link l WHERE l.domain_id = n.domain AND l.code = n.code)
		   OR EXISTS (SELECT FROM retired_code r WHERE r.domain_id = n.domain AND r.code = n.code)`, domains, codes).Query(mark(x.taken))
	b.Queue(`
		SELECT n.domain, n.code FROM unnest($1::integer[], $2::text[]) n (domain, code) JOIN domain d ON d.id = n.domain
		JOIN link_block b ON b.blocked AND b.code = n.code AND b.host = CASE WHEN d.id = 1 THEN '' ELSE d.host END`,
		domains, codes).Query(mark(x.blocked))
	scoped.Tenant(workspaceList(k.links)).EnterBatch(&b)
	for ws, of := range claims { // a refused link burns none
		b.Queue(`SAVEPOINT tried`)
		b.Queue(`SELECT 1, key_claim($1, $2, $3, $4)`, of.codes, of.prefixes, of.counters, of.workspaces).Query(mark(x.issuable[ws]))
		b.Queue(`ROLLBACK TO SAVEPOINT tried`)
	}
	return x, tx.SendBatch(ctx, &b).Close()
}

// addAliases adds the aliases of the links that were placed, and reads these links again,
// because they have a new version.
func (in *inserting) addAliases(ctx context.Context, tx pgx.Tx) error {
	var links, workspaces []int64
	var domains []int32
	var codes, typed, titles, printed, batches []string
	placed := make(map[int64]*waypost.Link)
	for i := range in.links {
		l := in.links[i].Link
		if in.placed[i] != controlplane.Placed {
			continue
		}
		for _, a := range l.Aliases {
			links, workspaces, domains = append(links, l.ID), append(workspaces, int64(l.Workspace)), append(domains, int32(a.Domain))
			codes, typed = append(codes, string(a.Key())), append(typed, string(a.Code))
			titles, printed, batches = append(titles, a.Title), append(printed, a.PrintedOn), append(batches, a.Batch)
			placed[l.ID] = l
		}
	}
	if len(links) == 0 {
		return nil
	}
	var b pgx.Batch
	b.Queue(`INSERT INTO link_alias (link_id, workspace_id, domain_id, code, typed_code, title, printed_on, batch)
		SELECT link, workspace, domain, code, nullif(typed, code), title, nullif(printed, '')::date, batch
		FROM unnest($1::bigint[], $2::bigint[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
			n (link, workspace, domain, code, typed, title, printed, batch)`, links, workspaces, domains, codes, typed, titles, printed, batches)
	b.Queue(selectUnfolded+` WHERE l.id = ANY ($1)`, links).Query(scoped.Each(func(rows pgx.Rows) error {
		l, err := scanLink(rows)
		*placed[l.ID] = l
		return err
	}))
	return tx.SendBatch(ctx, &b).Close()
}
