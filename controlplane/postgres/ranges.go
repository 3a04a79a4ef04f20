package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres/scoped"
	"waypost/keyrange"
)

func (db *KeyRangeStore) KeySpace(ctx context.Context) (keys.KeySpace, error) {
	var space keys.KeySpace
	err := pgx.BeginTxFunc(ctx, db.pool, scoped.Operator.ReadOptions(), func(tx pgx.Tx) (err error) {
		space, err = keySpace(ctx, tx)
		return err
	})
	return space, scoped.Classify("read the key ranges", err)
}

// keySpace reads the whole state of the keys within a transaction.
func keySpace(ctx context.Context, tx pgx.Tx) (s keys.KeySpace, err error) {
	var since *time.Time
	var codeLength, prefixLength int
	err = tx.QueryRow(ctx, `
		SELECT code_length, prefix_length, (62::numeric ^ prefix_length)::integer, key_prefix_size(), held, held_since, gap
		FROM cluster, key_state`).
		Scan(&codeLength, &prefixLength, &s.Prefixes, &s.PrefixSize, &s.Held, &since, &s.ResumeGap)
	if err != nil {
		return s, err
	}
	if since != nil {
		s.HeldSince = since.UTC()
	}
	if s.ResumeGap > s.PrefixSize/10 {
		s.ResumeGap = 0 // the operator has to say
	}
	space, err := keyrange.NewSpace(codeLength, prefixLength)
	if err != nil {
		return s, err
	}
	if s.Ranges, err = ranges(ctx, tx, space); err != nil {
		return s, err
	}
	used := make(map[int]bool, len(s.Ranges))
	byID := make(map[int64]*keys.Range, len(s.Ranges))
	for i := range s.Ranges {
		r := &s.Ranges[i]
		used[r.Ordinal] = true
		byID[r.ID] = r
	}
	s.FreePrefixes = s.Prefixes - len(used)
	if err := addLeases(ctx, tx, byID); err != nil {
		return s, err
	}
	return s, addRates(ctx, tx, &s, byID)
}

func ranges(ctx context.Context, tx pgx.Tx, space keyrange.Space) (rs []keys.Range, err error) {
	rows, _ := tx.Query(ctx, `SELECT id, prefix, lo, hi, next, region, state, generation, created_at FROM key_range ORDER BY id`)
	var r keys.Range
	_, err = pgx.ForEachRow(rows, []any{&r.ID, &r.Ordinal, &r.Lo, &r.Hi, &r.Next, &r.Region, &r.State, &r.Generation, &r.CreatedAt},
		func() error {
			if !space.Holds(keyrange.Block{Prefix: r.Ordinal, Lo: r.Lo, Hi: r.Hi}) {
				return fmt.Errorf("range %d is outside of the key space", r.ID)
			}
			one := r
			one.Prefix, one.CreatedAt, one.Leases = space.Prefix(r.Ordinal), r.CreatedAt.UTC(), []api.Lease{}
			rs = append(rs, one)
			return nil
		})
	return rs, err
}

// addLeases adds the blocks that are held, and the returned counters.
func addLeases(ctx context.Context, tx pgx.Tx, byID map[int64]*keys.Range) error {
	rows, _ := tx.Query(ctx, `
		SELECT l.range_id, l.node, l.lo, l.hi, l.generation, l.state
		FROM key_lease l JOIN changelog_head h ON h.epoch = l.epoch
		WHERE l.state IN ('held', 'free') ORDER BY l.node, l.lo`)
	var id int64
	var l api.Lease
	var state string
	_, err := pgx.ForEachRow(rows, []any{&id, &l.Node, &l.Lo, &l.Hi, &l.Generation, &state}, func() error {
		r := byID[id]
		switch {
		case r == nil:
			return errors.New("a lease is of no range")
		case state == "held":
			r.Leases = append(r.Leases, l)
		case l.Generation == r.Generation:
			r.Returned += l.Hi - l.Lo
		}
		return nil
	})
	return err
}

// rateWindow is the period over which rates are averaged.
const rateWindow = time.Hour

// addRates divides the keys issued in the last hour by an hour, or by the time since the
// first key of all if that is shorter, but at least by a minute.
func addRates(ctx context.Context, tx pgx.Tx, s *keys.KeySpace, byID map[int64]*keys.Range) error {
	rows, _ := tx.Query(ctx, `
		SELECT region, range_id, sum(issued)::float8 / greatest(1, extract(epoch FROM clock_timestamp()
		           - greatest(clock_timestamp() - $1::interval, (SELECT min(minute) FROM key_issue))) / 60)::float8
		FROM key_issue WHERE minute > clock_timestamp() - $1::interval GROUP BY region, range_id`, rateWindow)
	s.Rates = make(map[waypost.Region]float64)
	var region waypost.Region
	var id int64
	var rate float64
	_, err := pgx.ForEachRow(rows, []any{&region, &id, &rate}, func() error {
		s.Rates[region] += rate
		if r := byID[id]; r != nil && r.Region == string(region) {
			r.Rate, r.MinutesLeft = rate, keys.MinutesLeft(r.Unissued(), rate)
		}
		return nil
	})
	return err
}

func (db *KeyRangeStore) Counter(ctx context.Context, prefix int, counter int64, code waypost.Code) (api.DecodedKey, error) {
	d := api.DecodedKey{Code: string(code), Counter: counter}
	var r api.RangeBounds
	var rangeID, leaseID, lo, hi, generation *int64
	var node, state *string
	var custom *bool
	var reserved, burned bool
	err := pgx.BeginTxFunc(ctx, db.pool, scoped.Operator.TxOptions(), func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			SELECT id, lo, hi, next, region, state, generation, created_at FROM key_range
			WHERE prefix = $1 AND lo <= $2 AND $2 < hi ORDER BY state = 'retired', id LIMIT 1`, prefix, counter).
			Scan(&r.ID, &r.Lo, &r.Hi, &r.Next, &r.Region, &r.State, &r.Generation, &r.CreatedAt)
		if err == nil {
			rangeID = &r.ID
		} else if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return tx.QueryRow(ctx, `
			SELECT l.id, l.node, l.lo, l.hi, l.generation, l.state, k.custom,
			       EXISTS (SELECT FROM reserved_key WHERE code = $3 AND state IN ('reserved', 'used')),
			       EXISTS (SELECT FROM key_burn WHERE prefix = $1 AND counter = $2)
			FROM (SELECT 1) one
			LEFT JOIN key_lease l ON l.id = (SELECT id FROM key_lease WHERE prefix = $1 AND lo <= $2 ORDER BY lo DESC LIMIT 1) AND $2 < l.hi
			LEFT JOIN link k ON k.domain_id = 1 AND (k.code = $3 OR k.code = lower($3) AND k.typed_code = $3)`, prefix, counter, code).
			Scan(&leaseID, &node, &lo, &hi, &generation, &state, &custom, &reserved, &burned)
	})
	if err != nil {
		return d, scoped.Classify("look up a counter", err)
	}
	if rangeID != nil {
		r.CreatedAt = r.CreatedAt.UTC()
		d.Range, d.Region = &r, &r.Region
	}
	if leaseID != nil {
		d.Lease = &api.Lease{Node: *node, Lo: *lo, Hi: *hi, Generation: *generation}
	}
	switch {
	case custom != nil && !*custom, reserved:
		d.State, d.Issued = keys.CounterIssued, true
	case custom != nil, burned:
		d.State = keys.CounterBurned
	case state != nil && *state == "held":
		d.State = keys.CounterLeased
	case state != nil && *state != "free":
		d.State = keys.CounterSpent
	case rangeID == nil:
		d.State = keys.CounterUnassigned
	case r.State == keys.RangeRetired, leaseID == nil && counter < r.Next:
		d.State = keys.CounterSpent
	default:
		d.State = keys.CounterUnissued
	}
	return d, nil
}
