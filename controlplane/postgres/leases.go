package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres/scoped"
)

// KeyRangeStore keeps the key ranges of regions, the leases and reserved keys made of
// them, and the heartbeats of control planes on which leases depend. It implements
// keys.LeaseStore, keys.RangeStore and keys.ReservedStore.
type KeyRangeStore struct {
	pool    *pool
	history *DatabaseHistory
}

// TakeLease implements keys.LeaseStore. The lease is also remembered on
// this machine before it is returned, see highWaterMark.
func (db *KeyRangeStore) TakeLease(
	ctx context.Context, region waypost.Region, node string, size int64, finished []int64,
) (keys.Lease, error) {
	var l keys.Lease
	err := db.pool.change(ctx, "lease keys", func(tx pgx.Tx, epoch uint32) (err error) {
		if len(finished) > 0 {
			if _, err := tx.Exec(ctx, `UPDATE key_lease SET state = 'closed' WHERE id = ANY($1) AND node = $2
				AND state = 'held'`, finished, node); err != nil {
				return err
			}
		}
		l, err = db.leaseKeys(ctx, tx, region, node, size, epoch)
		return err
	})
	if err != nil {
		return l, err
	}
	if seen := db.pool.highWater.current(); seen.foreign(l.Epoch) {
		if err := db.history.WatchOnce(ctx); err != nil { // the new epoch must learn of the old epoch's keys first
			if err := db.ReturnLease(ctx, l, l.Lo); err != nil { // or every attempt would cost a lease
				db.pool.Log.Warn("cannot return a lease that cannot be used yet", "error", err)
			}
			return keys.Lease{}, err
		}
	}
	db.pool.highWater.leased(rememberedRange{Prefix: l.Prefix, Region: string(region), Lo: l.Lo, Hi: l.Hi, Next: l.Hi}, l.Epoch)
	return l, nil
}

// leaseKeys finds a block for a node, and replenishes the region if it is low.
func (db *KeyRangeStore) leaseKeys(
	ctx context.Context, tx pgx.Tx, region waypost.Region, node string, size int64, epoch uint32,
) (l keys.Lease, err error) {
	var held string
	var most int64
	if err := tx.QueryRow(ctx, `SELECT held, greatest(1, least(1000000, key_prefix_size() / 1000))
		FROM key_state`).Scan(&held, &most); err != nil {
		return l, err
	}
	if held != "" {
		return l, waypost.Errorf(waypost.EUnavailable, "no key is issued until an operator runs 'waypost ranges resume': %s", held)
	}
	err = scanLease(&l, tx.QueryRow(ctx, `
		UPDATE key_lease SET state = 'held', node = $2, taken_at = now()
		WHERE id = (SELECT l.id FROM key_lease l JOIN key_range r ON r.id = l.range_id
		            WHERE l.region = $1 AND l.state = 'free' AND l.epoch = $3
		              AND r.state = 'live' AND r.region = $1 AND r.generation = l.generation
		            ORDER BY l.id LIMIT 1)
		RETURNING `+leaseColumns, region, node, int32(epoch)))
	if !errors.Is(err, pgx.ErrNoRows) {
		return l, err
	}
	const block = `SELECT ` + leaseColumns + ` FROM key_lease_block($1, $2, $3)`
	err = scanLease(&l, tx.QueryRow(ctx, block, region, min(size, most), node))
	if errors.Is(err, pgx.ErrNoRows) {
		if err := db.grow(ctx, tx, region); err != nil {
			return l, err
		}
		return l, scanLease(&l, tx.QueryRow(ctx, block, region, min(size, most), node))
	}
	if err != nil {
		return l, err
	}
	return l, db.replenish(ctx, tx, region, most)
}

// leasesAhead is the number of full-size leases that a region has at least before its
// low-water mark.
const leasesAhead = 20

const leaseColumns = `id, range_id, prefix, lo, hi, epoch, generation`

func scanLease(l *keys.Lease, row pgx.Row) error {
	return row.Scan(&l.ID, &l.Range, &l.Prefix, &l.Lo, &l.Hi, &l.Epoch, &l.Generation)
}

// replenish assigns a region below its low-water mark a free prefix, as long as there is
// one. The low-water mark is a tenth of a prefix, or less where that would last for a
// month, because a plan may leave a region that issues little with little.
func (db *KeyRangeStore) replenish(ctx context.Context, tx pgx.Tx, region waypost.Region, most int64) error {
	var low bool
	err := tx.QueryRow(ctx, `
		SELECT coalesce(sum(hi - next), 0) < least(key_prefix_size() / 10, greatest($2, 30 * 24 * (
			SELECT coalesce(sum(issued), 0) FROM key_issue WHERE region = $1 AND minute > clock_timestamp() - interval '1 hour')))
		FROM key_range WHERE region = $1 AND state = 'live'`, region, leasesAhead*most).Scan(&low)
	if err != nil || !low {
		return err
	}
	err = db.grow(ctx, tx, region)
	if waypost.CodeOf(err) == waypost.EExhausted {
		return nil // the remaining keys can still be used; the metrics show it
	}
	return err
}

// grow assigns the region a free prefix and logs it.
func (db *KeyRangeStore) grow(ctx context.Context, tx pgx.Tx, region waypost.Region) error {
	id, err := assignPrefix(ctx, tx, region, nil)
	if err == nil {
		db.pool.Log.Info("assigned a free prefix", "region", region, "range", id)
	}
	return err
}

// assignPrefix assigns the region the wanted prefix, or any, that no range was ever made
// of. It returns the id of the range.
func assignPrefix(ctx context.Context, tx pgx.Tx, region waypost.Region, wanted *int32) (int64, error) {
	var id *int64
	if err := tx.QueryRow(ctx, `SELECT key_assign_prefix($1, $2)`, region, wanted).Scan(&id); err != nil {
		return 0, err
	}
	if id == nil {
		return 0, waypost.Errorf(waypost.EExhausted, "no keys are left in region %s, and no prefix is free", region)
	}
	return *id, nil
}

// EnsureRanges assigns a free prefix to every region that has no live range.
func (db *KeyRangeStore) EnsureRanges(ctx context.Context, regions []waypost.Region) error {
	for _, region := range regions {
		var has bool
		const live = `SELECT EXISTS (SELECT FROM key_range WHERE region = $1 AND state = 'live')`
		if err := db.pool.QueryRowIn(ctx, scoped.Operator, live, []any{region}, &has); err != nil {
			return scoped.Classify("look for ranges", err)
		}
		if has {
			continue
		}
		err := db.pool.change(ctx, "assign a prefix", func(tx pgx.Tx, _ uint32) error {
			if err := tx.QueryRow(ctx, live, region).Scan(&has); err != nil || has {
				return err
			}
			return db.grow(ctx, tx, region)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (db *KeyRangeStore) ReturnLease(ctx context.Context, l keys.Lease, next int64) error {
	return db.pool.change(ctx, "return a lease", func(tx pgx.Tx, epoch uint32) error {
		if epoch != l.Epoch {
			return nil // burned with its epoch
		}
		var lo int64
		err := tx.QueryRow(ctx, `SELECT lo FROM key_lease WHERE id = $1 AND state = 'held' AND hi = $2 FOR UPDATE`, l.ID, l.Hi).Scan(&lo)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // burned since
		}
		if err != nil {
			return err
		}
		if next == lo {
			return scoped.Exec(ctx, tx, `UPDATE key_lease SET state = 'free', node = '' WHERE id = $1`, l.ID)
		}
		if _, err = tx.Exec(ctx, `UPDATE key_lease SET state = 'closed', hi = $2 WHERE id = $1`, l.ID, next); err != nil {
			return err
		}
		return scoped.Exec(ctx, tx, `
			INSERT INTO key_lease (range_id, prefix, region, lo, hi, epoch, generation, node, state)
			SELECT range_id, prefix, region, $2::bigint, $3::bigint, epoch, generation, '', 'free' FROM key_lease WHERE id = $1
				AND $2::bigint < $3::bigint`, l.ID, next, l.Hi)
	})
}

func (db *KeyRangeStore) Unleased(ctx context.Context, region waypost.Region) (n int64, err error) {
	err = db.pool.QueryRowIn(ctx, scoped.Operator, `
		SELECT coalesce((SELECT sum(hi - next) FROM key_range WHERE region = $1 AND state = 'live'), 0)::bigint
		     + coalesce((SELECT sum(l.hi - l.lo) FROM key_lease l JOIN changelog_head h ON h.epoch = l.epoch
		                 WHERE l.region = $1 AND l.state = 'free'), 0)::bigint`, []any{region}, &n)
	return n, scoped.Classify("count keys", err)
}
