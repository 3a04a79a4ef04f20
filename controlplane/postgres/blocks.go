package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
	"waypost/internal/codes"
	"waypost/internal/patterns"
	"waypost/replication"
)

// BlockStore keeps the statements about blocked codes. It implements blocks.Store.
type BlockStore struct{ pool *pool }

const (
	selectBlocks = `
		SELECT host, code, version, blocked, policy, reason, at, place FROM link_block WHERE place > $1 ORDER BY place LIMIT $2`

	// A version is a time in microseconds, so that a database that was restored issues none
	// again.
	upsertBlock = `
		INSERT INTO link_block (host, code, version, blocked, policy, reason, at, stamp, place)
		SELECT $1::text, $2::text, $3::bigint, $4::boolean, $5::text, $6::text, $7::bigint, $8::bigint, coalesce(max(place), 0) + 1
		FROM link_block
		ON CONFLICT (host, code) DO UPDATE SET version = excluded.version, blocked = excluded.blocked, policy = excluded.policy,
			reason = excluded.reason, at = excluded.at, stamp = excluded.stamp, place = excluded.place
		WHERE link_block.version < excluded.version`

	selectNextBlock = `
		SELECT greatest(floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint, coalesce(max(version), 0) + 1),
		       floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
		       count(*), coalesce(bool_or(host = $1 AND code = $2), false)
		FROM link_block`

	// selectBlocked reads the workspace and the id of the link that has, or had, an address.
	selectBlocked = `
		SELECT l.workspace_id, l.id FROM domain d CROSS JOIN LATERAL (
			SELECT workspace_id, id FROM link WHERE domain_id = d.id AND (code = $2 OR code = $3 AND typed_code = $2)
			UNION ALL
			SELECT k.workspace_id, k.id FROM retired_code r JOIN link k ON k.id = r.link_id WHERE r.domain_id = d.id AND r.code IN ($2, $3)) l
		WHERE d.host = $1 AND d.id <> 1 OR $1 = '' AND d.id = 1`

	// selectAddresses reads the addresses of links, $1, as blocks name them.
	selectAddresses = `
		SELECT a.host, a.code FROM (
			SELECT CASE WHEN d.id = 1 THEN '' ELSE d.host END AS host, x.code
			FROM (SELECT domain_id, coalesce(typed_code, code) AS code FROM link WHERE id = ANY ($1)
				UNION ALL SELECT domain_id, coalesce(typed_code, code) FROM link_alias WHERE link_id = ANY ($1)) x
			JOIN domain d ON d.id = x.domain_id) a`

	// selectOthers reads the addresses of links, $1, except the one of $2 and $3, with the
	// policies of those that are blocked.
	selectOthers = `
		SELECT a.host, a.code, coalesce(b.policy, '') FROM (` + selectAddresses + `) a
		LEFT JOIN link_block b ON b.host = a.host AND b.code = a.code AND b.blocked
		WHERE (a.host, a.code) <> ($2, $3)`

	// selectPatternOwners reads the workspaces of the patterns of a host.
	selectPatternOwners = `
		SELECT l.workspace_id, l.code FROM link l JOIN domain d ON d.id = l.domain_id
		WHERE link_is_pattern(l.custom, l.code) AND l.deleted_at IS NULL AND (d.host = $1 AND d.id <> 1 OR $1 = '' AND d.id = 1)`
)

// changeBlocks runs f in a transaction, while no other transaction changes blocks. It
// does not lock the head of the changelog, which a statement about very many links can
// hold for minutes, because a takedown must not wait for it.
func (db *BlockStore) changeBlocks(ctx context.Context, doing string, f func(tx pgx.Tx) error) error {
	return db.pool.Within(ctx, scoped.Operator, doing, func(tx pgx.Tx) error {
		seen := db.pool.highWater.current()
		var at begun
		if err := at.scan(tx.QueryRow(ctx, selectPosition)); err != nil {
			return err
		}
		if seen.revision().Newer(at.position().Revision()) {
			return errWentBack
		}
		if _, err := tx.Exec(ctx, `LOCK TABLE link_block IN SHARE ROW EXCLUSIVE MODE`); err != nil {
			return err
		}
		return f(tx)
	})
}

func (db *BlockStore) SetBlock(ctx context.Context, by controlplane.Actor, all bool, b waypost.Block) (stated []waypost.Block, err error) {
	err = db.changeBlocks(ctx, "block a code", func(tx pgx.Tx) error {
		stated = stated[:0]
		if b.Blocked || b.Policy != 0 {
			stated = append(stated, b)
		}
		if all {
			others, err := othersOf(ctx, tx, &b)
			if err != nil {
				return err
			}
			stated = append(stated, others...)
		}
		if len(stated) == 0 {
			return waypost.Errorf(waypost.EConflict, "no address of the link is blocked")
		}
		for i := range stated {
			if err := setBlock(ctx, tx, by, &stated[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return stated, err
}

// othersOf returns the statement about an address for the other addresses of its link,
// and the end of a block only for those that are blocked.
func othersOf(ctx context.Context, tx pgx.Tx, b *waypost.Block) (others []waypost.Block, err error) {
	rows, _ := tx.Query(ctx, selectBlocked, b.Host, b.Code, codes.Fold(b.Code))
	var ws waypost.WorkspaceID
	var link int64
	var links []int64
	if _, err := pgx.ForEachRow(rows, []any{&ws, &link}, func() error { links = append(links, link); return nil }); err != nil {
		return nil, err
	}
	rows, _ = tx.Query(ctx, selectOthers, links, b.Host, b.Code)
	other, policy := *b, ""
	_, err = pgx.ForEachRow(rows, []any{&other.Host, &other.Code, &policy}, func() (err error) {
		if !b.Blocked && policy == "" {
			return nil
		}
		if !b.Blocked {
			other.Policy, err = waypost.ParseBlockPolicy(policy)
		}
		others = append(others, other)
		return err
	})
	return others, err
}

// setBlock makes a statement, and notes it in the audit log.
func setBlock(ctx context.Context, tx pgx.Tx, by controlplane.Actor, b *waypost.Block) error {
	if err := scoped.Operator.Enter(ctx, tx); err != nil { // the audit of the statement before has left it
		return err
	}
	var count int
	var stated bool
	if err := tx.QueryRow(ctx, selectNextBlock, b.Host, b.Code).Scan(&b.Version, &b.At, &count, &stated); err != nil {
		return err
	}
	rows, _ := tx.Query(ctx, selectBlocked, b.Host, b.Code, codes.Fold(b.Code))
	var owners []waypost.WorkspaceID
	var owner waypost.WorkspaceID
	_, err := pgx.ForEachRow(rows, []any{&owner, nil}, func() error { owners = append(owners, owner); return nil })
	if err == nil && len(owners) == 0 {
		owners, err = patternOwners(ctx, tx, b)
	}
	switch {
	case err != nil:
		return err
	case len(owners) == 0 && !stated:
		return waypost.Errorf(waypost.ENotFound, "there is no such link in any workspace, and no deleted one")
	case count >= waypost.MaxBlocks && !stated:
		return waypost.Errorf(waypost.EConflict, "there are blocks of %d codes, which is the limit: delete the link instead", waypost.MaxBlocks)
	}
	if _, err := putBlock(ctx, tx, b); err != nil {
		return err
	}
	action := "links.block"
	if owner = by.Workspace; len(owners) > 0 {
		owner = owners[0]
	}
	if !b.Blocked {
		action = "links.unblock"
	}
	return auditBoth(ctx, tx, by, owner, action, subjectBlock(b), detailOfBlock(b))
}

// patternOwners returns the workspace of the pattern that leads from a blocked address,
// and nothing without such a pattern.
func patternOwners(ctx context.Context, tx pgx.Tx, b *waypost.Block) (owners []waypost.WorkspaceID, err error) {
	rows, err := tx.Query(ctx, selectPatternOwners, b.Host)
	if err != nil {
		return nil, err
	}
	var x patterns.Index
	of := map[string]waypost.WorkspaceID{}
	var owner waypost.WorkspaceID
	var code string
	if _, err := pgx.ForEachRow(rows, []any{&owner, &code}, func() error {
		x.Add(code)
		of[code] = owner
		return nil
	}); err != nil {
		return nil, err
	}
	visit := waypost.ParseVisit(waypost.AppendEncoded([]byte("/"), string(b.Code)))
	var m patterns.Match
	if m.Find(&x, &visit, codes.AppendSegment) {
		m.Lead(&visit)
		owners = append(owners, of[string(visit.Code)])
	}
	return owners, nil
}

func subjectBlock(b *waypost.Block) string {
	subject := string(b.Code)
	if b.Host != "" {
		subject = b.Host + "/" + subject
	}
	return "link " + subject[max(0, len(subject)-240):]
}

func detailOfBlock(b *waypost.Block) map[string]any {
	return map[string]any{"policy": b.Policy.String(), "reason": b.Reason}
}

// putBlock writes a statement, and reports whether it was news.
func putBlock(ctx context.Context, tx pgx.Tx, b *waypost.Block) (bool, error) {
	tag, err := tx.Exec(ctx, upsertBlock, b.Host, b.Code, int64(b.Version), b.Blocked, b.Policy.String(), b.Reason, b.At,
		int64(replication.BlockStamp(b)))
	return tag.RowsAffected() > 0, err
}

func (db *BlockStore) Blocks(ctx context.Context, place int64, limit int) (all []waypost.Block, last int64, err error) {
	last = place
	var b waypost.Block
	var policy string
	into := []any{&b.Host, &b.Code, &b.Version, &b.Blocked, &policy, &b.Reason, &b.At, &last}
	err = db.pool.QueryIn(ctx, scoped.Operator, selectBlocks, []any{place, limit}, scoped.ForEach(into, func() (err error) {
		if b.Policy, err = waypost.ParseBlockPolicy(policy); err == nil {
			all = append(all, b)
		}
		return err
	}))
	return all, last, scoped.Classify("read blocks", err)
}

func (db *BlockStore) BlockDigest(ctx context.Context) (uint64, error) {
	var digest int64
	err := db.pool.QueryRowIn(ctx, scoped.Operator, `SELECT coalesce(bit_xor(stamp), 0) FROM link_block`, nil, &digest)
	return uint64(digest), scoped.Classify("compare blocks", err)
}

func (db *BlockStore) RecoverBlocks(ctx context.Context, all []waypost.Block) (taken int, err error) {
	err = db.changeBlocks(ctx, "take blocks back", func(tx pgx.Tx) error {
		taken = 0
		for i := range all {
			b := &all[i]
			news, err := putBlock(ctx, tx, b)
			if err != nil {
				return err
			}
			if !news {
				continue
			}
			taken++
			by := controlplane.Actor{Workspace: waypost.DefaultWorkspace, Name: "control plane"}
			if err := scoped.NoteAct(ctx, tx, by, "links.block_recovered", subjectBlock(b), detailOfBlock(b)); err != nil {
				return err
			}
		}
		return nil
	})
	return taken, err
}
