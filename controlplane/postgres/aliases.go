package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// aliasObject is a row a of link_alias, and d of its domain, as a waypost.Alias.
const aliasObject = `jsonb_build_object('Domain', a.domain_id, 'Host', CASE WHEN a.domain_id = 1 THEN '' ELSE d.host END,
	'Code', a.code, 'N', a.n, 'Title', a.title, 'AddedAt', a.created_at)`

// AddAlias implements controlplane.LinkStore.
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
		if err := tx.QueryRow(ctx, `SELECT link_code_fate($1, $2, $3)`, by.Workspace, a.Domain, a.Code).Scan(&fate); err != nil {
			return err
		}
		switch fate {
		case "alias":
			return controlplane.PlacementError(a.Code, controlplane.Aliased)
		case "retired":
			return controlplane.PlacementError(a.Code, controlplane.Retired)
		}
		_, err := tx.Exec(ctx, `INSERT INTO link_alias (link_id, workspace_id, domain_id, code, title) VALUES ($1, $2, $3, $4, $5)`,
			link, by.Workspace, a.Domain, a.Code, a.Title)
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

// RemoveAlias implements controlplane.LinkStore.
func (db *LinkStore) RemoveAlias(
	ctx context.Context, by controlplane.Actor, link int64, domain waypost.DomainID, code waypost.Code,
) (waypost.Link, waypost.Position, error) {
	return db.changeAliases(ctx, by, link, "remove an alias", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM link_alias WHERE link_id = $1 AND domain_id = $2 AND code = $3`, link, domain, code)
		if err == nil && tag.RowsAffected() == 0 {
			err = controlplane.ErrNoAlias
		}
		return err
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
