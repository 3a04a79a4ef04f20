package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
	"waypost/internal/codes"
	"waypost/internal/patterns"
	"waypost/replication"
)

// BlockStore keeps the statements about blocked codes.
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

	// selectBlocked reads the workspace of the link that has, or had, an address.
	selectBlocked = `
		SELECT l.workspace_id FROM domain d CROSS JOIN LATERAL (
			SELECT workspace_id FROM link WHERE domain_id = d.id AND (code = $2 OR code = $3 AND typed_code = $2)
			UNION ALL
			SELECT k.workspace_id FROM retired_code r JOIN link k ON k.id = r.link_id WHERE r.domain_id = d.id AND r.code IN ($2, $3)) l
		WHERE d.host = $1 AND d.id <> 1 OR $1 = '' AND d.id = 1`

	// selectAddresses reads the addresses of links, $1, as blocks name them.
	selectAddresses = `
		SELECT a.host, a.code FROM (
			SELECT CASE WHEN d.id = 1 THEN '' ELSE d.host END AS host, x.code
			FROM (SELECT domain_id, coalesce(typed_code, code) AS code FROM link WHERE id = ANY ($1)
				UNION ALL SELECT domain_id, code FROM link_alias WHERE link_id = ANY ($1)) x
			JOIN domain d ON d.id = x.domain_id) a`

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

// SetBlock implements blocks.Store.
func (db *BlockStore) SetBlock(ctx context.Context, by controlplane.Actor, b waypost.Block) (waypost.Block, error) {
	err := db.changeBlocks(ctx, "block a code", func(tx pgx.Tx) error {
		var count int
		var stated bool
		if err := tx.QueryRow(ctx, selectNextBlock, b.Host, b.Code).Scan(&b.Version, &b.At, &count, &stated); err != nil {
			return err
		}
		rows, _ := tx.Query(ctx, selectBlocked, b.Host, b.Code, codes.Fold(b.Code))
		owners, err := pgx.CollectRows(rows, pgx.RowTo[waypost.WorkspaceID])
		if err == nil && len(owners) == 0 {
			owners, err = patternOwners(ctx, tx, &b)
		}
		switch {
		case err != nil:
			return err
		case len(owners) == 0 && !stated:
			return waypost.Errorf(waypost.ENotFound, "there is no such link in any workspace, and no deleted one")
		case count >= waypost.MaxBlocks && !stated:
			return waypost.Errorf(waypost.EConflict, "there are blocks of %d codes, which is the limit: delete the link instead", waypost.MaxBlocks)
		}
		if _, err := putBlock(ctx, tx, &b); err != nil {
			return err
		}
		owner, action := by.Workspace, "links.block"
		if len(owners) > 0 {
			owner = owners[0]
		}
		if !b.Blocked {
			action = "links.unblock"
		}
		return auditBoth(ctx, tx, by, owner, action, subjectBlock(&b), detailOfBlock(&b))
	})
	return b, err
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

// Blocks implements blocks.Store.
func (db *BlockStore) Blocks(ctx context.Context, place int64, limit int) (all []waypost.Block, last int64, err error) {
	last = place
	err = db.pool.QueryIn(ctx, scoped.Operator, selectBlocks, []any{place, limit}, func(rows pgx.Rows) error {
		var b waypost.Block
		var policy string
		_, err := pgx.ForEachRow(rows, []any{&b.Host, &b.Code, &b.Version, &b.Blocked, &policy, &b.Reason, &b.At, &last}, func() (err error) {
			if b.Policy, err = waypost.ParseBlockPolicy(policy); err == nil {
				all = append(all, b)
			}
			return err
		})
		return err
	})
	return all, last, scoped.Classify("read blocks", err)
}

// BlockDigest implements blocks.Store.
func (db *BlockStore) BlockDigest(ctx context.Context) (uint64, error) {
	var digest int64
	err := db.pool.QueryRowIn(ctx, scoped.Operator, `SELECT coalesce(bit_xor(stamp), 0) FROM link_block`, nil, &digest)
	return uint64(digest), scoped.Classify("compare blocks", err)
}

// RecoverBlocks implements blocks.Store.
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
			text, err := json.Marshal(detailOfBlock(b))
			if err != nil {
				return fmt.Errorf("encode the detail of a block: %w", err)
			}
			by := controlplane.Actor{Workspace: waypost.DefaultWorkspace, Name: "control plane"}
			if err := scoped.NoteAct(ctx, tx, by, "links.block_recovered", subjectBlock(b), text); err != nil {
				return err
			}
		}
		return nil
	})
	return taken, err
}
