package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
)

// change runs f in a transaction that holds the head of the changelog from its
// first statement on, and notes the new head when it has committed.
func (db *DB) change(ctx context.Context, doing string, f func(tx pgx.Tx, epoch uint32) error) error {
	var r waypost.Revision
	err := pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT epoch, seq FROM changelog_begin()`).Scan(&r.Epoch, &r.Seq); err != nil {
			return err
		}
		return f(tx, r.Epoch)
	})
	if err != nil {
		return classify(doing, err)
	}
	db.note(r)
	return nil
}

// TakeLease implements controlplane.LeaseStore.
func (db *DB) TakeLease(ctx context.Context, region waypost.Region, node string, size int64, finished []int64) (controlplane.Lease, error) {
	var l controlplane.Lease
	err := db.change(ctx, "lease keys", func(tx pgx.Tx, epoch uint32) error {
		l = controlplane.Lease{Epoch: epoch}
		if len(finished) > 0 {
			if _, err := tx.Exec(ctx, `UPDATE key_lease SET state = 'closed' WHERE id = ANY($1) AND node = $2 AND state = 'held'`, finished, node); err != nil {
				return err
			}
		}
		err := tx.QueryRow(ctx, `
			UPDATE key_lease SET state = 'held', node = $2, taken_at = now()
			WHERE id = (SELECT l.id FROM key_lease l JOIN key_range r ON r.id = l.range_id
			            WHERE l.region = $1 AND l.state = 'free' AND l.epoch = $3
			              AND r.state = 'live' AND r.region = $1 AND r.generation = l.generation
			            ORDER BY l.id LIMIT 1)
			RETURNING id, prefix, lo, hi, generation`, region, node, epoch).
			Scan(&l.ID, &l.Prefix, &l.Lo, &l.Hi, &l.Generation)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		err = leaseBlock(ctx, tx, region, node, size, &l)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if err := db.assignPrefix(ctx, tx, region); err != nil {
			return err
		}
		return leaseBlock(ctx, tx, region, node, size, &l)
	})
	return l, err
}

// leaseBlock takes the next counters of the region's oldest range that has any;
// pgx.ErrNoRows when none has.
func leaseBlock(ctx context.Context, tx pgx.Tx, region waypost.Region, node string, size int64, l *controlplane.Lease) error {
	var rangeID int64
	err := tx.QueryRow(ctx, `
		UPDATE key_range r SET next = least(r.hi, r.next + $2)
		FROM (SELECT id, next FROM key_range WHERE region = $1 AND state = 'live' AND next < hi ORDER BY id LIMIT 1) was
		WHERE r.id = was.id
		RETURNING r.id, r.prefix, was.next, r.next, r.generation`, region, size).
		Scan(&rangeID, &l.Prefix, &l.Lo, &l.Hi, &l.Generation)
	if err != nil {
		return err
	}
	return tx.QueryRow(ctx, `
		INSERT INTO key_lease (range_id, prefix, region, lo, hi, epoch, generation, node)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id`,
		rangeID, l.Prefix, region, l.Lo, l.Hi, l.Epoch, l.Generation, node).Scan(&l.ID)
}

// assignPrefix gives the region a prefix that no range has ever used, picked at
// random so that codes of different regions do not look like neighbours.
func (db *DB) assignPrefix(ctx context.Context, tx pgx.Tx, region waypost.Region) error {
	tag, err := tx.Exec(ctx, `
		INSERT INTO key_range (prefix, lo, hi, next, region)
		SELECT p, 0, (62::numeric ^ (c.code_length - c.prefix_length))::bigint, 0, $1
		FROM cluster c, generate_series(0, (62::numeric ^ c.prefix_length)::integer - 1) p
		WHERE NOT EXISTS (SELECT FROM key_range r WHERE r.prefix = p)
		ORDER BY random() LIMIT 1`, region)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return waypost.Errorf(waypost.EExhausted, "no keys are left in region %s, and no prefix is free", region)
	}
	db.log.Info("assigned a free prefix", "region", region)
	return nil
}

// EnsureRanges gives every region that has no live range a free prefix.
func (db *DB) EnsureRanges(ctx context.Context, regions []waypost.Region) error {
	for _, region := range regions {
		var has bool
		const live = `SELECT EXISTS (SELECT FROM key_range WHERE region = $1 AND state = 'live')`
		if err := db.pool.QueryRow(ctx, live, region).Scan(&has); err != nil {
			return classify("look for ranges", err)
		}
		if has {
			continue
		}
		err := db.change(ctx, "assign a prefix", func(tx pgx.Tx, _ uint32) error {
			if err := tx.QueryRow(ctx, live, region).Scan(&has); err != nil || has {
				return err
			}
			return db.assignPrefix(ctx, tx, region)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ReturnLease implements controlplane.LeaseStore.
func (db *DB) ReturnLease(ctx context.Context, l controlplane.Lease, next int64) error {
	return db.change(ctx, "return a lease", func(tx pgx.Tx, epoch uint32) error {
		if epoch != l.Epoch {
			return nil // burned with its epoch
		}
		var lo int64
		err := tx.QueryRow(ctx, `SELECT lo FROM key_lease WHERE id = $1 AND state = 'held' AND hi = $2 FOR UPDATE`, l.ID, l.Hi).Scan(&lo)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // burned meanwhile
		}
		if err != nil {
			return err
		}
		if next == lo {
			_, err = tx.Exec(ctx, `UPDATE key_lease SET state = 'free', node = '' WHERE id = $1`, l.ID)
			return err
		}
		if _, err = tx.Exec(ctx, `UPDATE key_lease SET state = 'closed', hi = $2 WHERE id = $1`, l.ID, next); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO key_lease (range_id, prefix, region, lo, hi, epoch, generation, node, state)
			SELECT range_id, prefix, region, $2::bigint, $3::bigint, epoch, generation, '', 'free' FROM key_lease WHERE id = $1 AND $2::bigint < $3::bigint`, l.ID, next, l.Hi)
		return err
	})
}

// BurnLeases ends the leases of earlier boots of a control plane, whose holder
// must be gone. Nodes are named "NAME/BOOT".
func (db *DB) BurnLeases(ctx context.Context, name string) error {
	const held = `SELECT EXISTS (SELECT FROM key_lease WHERE state = 'held' AND split_part(node, '/', 1) = $1)`
	var any bool
	if err := db.pool.QueryRow(ctx, held, name).Scan(&any); err != nil {
		return classify("look for leases", err)
	}
	if !any {
		return nil
	}
	return db.change(ctx, "burn leases", func(tx pgx.Tx, _ uint32) error {
		_, err := tx.Exec(ctx, `UPDATE key_lease SET state = 'burned' WHERE state = 'held' AND split_part(node, '/', 1) = $1`, name)
		return err
	})
}

// Unleased implements controlplane.LeaseStore.
func (db *DB) Unleased(ctx context.Context, region waypost.Region) (n int64, err error) {
	err = db.pool.QueryRow(ctx, `
		SELECT coalesce((SELECT sum(hi - next) FROM key_range WHERE region = $1 AND state = 'live'), 0)::bigint
		     + coalesce((SELECT sum(l.hi - l.lo) FROM key_lease l JOIN changelog_head h ON h.epoch = l.epoch
		                 WHERE l.region = $1 AND l.state = 'free'), 0)::bigint`, region).Scan(&n)
	return n, classify("count keys", err)
}
