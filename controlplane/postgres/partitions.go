package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"waypost/controlplane/postgres/scoped"
)

const (
	partitionWidth  = 1_000_000 // sequences
	partitionsAhead = 3
)

// keepPartitions makes partitions ahead of the head, and drops old ones.
func (db *Changelog) keepPartitions(ctx context.Context) error {
	var head int64
	if err := db.pool.QueryRowIn(ctx, scoped.Operator, `SELECT seq FROM changelog_head`, nil, &head); err != nil {
		return scoped.Classify("read the head", err)
	}
	var errs []error
	for n := head/partitionWidth + 1; n <= head/partitionWidth+partitionsAhead; n++ {
		errs = append(errs, db.createPartition(ctx, n*partitionWidth))
	}
	return errors.Join(append(errs, db.dropPartitions(ctx))...)
}

// createPartition makes the partition that begins at from, unless it is there. It
// is made apart and then attached, which needs the default partition, always
// empty, for itself, but not the changelog.
func (db *Changelog) createPartition(ctx context.Context, from int64) error {
	name := fmt.Sprintf("changelog_%d", from)
	err := db.pool.AlterTable(ctx, func(tx pgx.Tx) error {
		var exists bool
		if err := tx.QueryRow(ctx, `SELECT pg_advisory_xact_lock(7305, 1)::text IS NOT NULL
			AND to_regclass($1) IS NOT NULL`, name).Scan(&exists); err != nil || exists {
			return err
		}
		for _, sql := range []string{
			`CREATE TABLE %[1]s (LIKE changelog INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)`,
			`SELECT changelog_protect('%[1]s')`,
			`ALTER TABLE changelog ATTACH PARTITION %[1]s FOR VALUES FROM (%[2]d) TO (%[3]d)`,
		} {
			if _, err := tx.Exec(ctx, fmt.Sprintf(sql, name, from, from+partitionWidth)); err != nil {
				return err
			}
		}
		return nil
	})
	return scoped.Classify("create a partition of the changelog", err)
}

// dropPartitions drops a numbered partition if its newest transaction is older than the
// retention, and the oldest partition while all together exceed the size limit. The
// head's own partition is always kept, and none is dropped before an older one.
func (db *Changelog) dropPartitions(ctx context.Context) error {
	type partition struct {
		name string
		from int64
		size int64
	}
	var head, total int64
	var p partition
	var found []partition
	err := db.pool.QueryIn(ctx, scoped.Operator, `
		SELECT c.relname, substr(c.relname, 11)::bigint, coalesce(pg_total_relation_size(c.oid), 0), h.seq
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid, changelog_head h
		WHERE i.inhparent = 'changelog'::regclass AND c.relname ~ '^changelog_[0-9]+$' ORDER BY 2`, nil,
		scoped.ForEach([]any{&p.name, &p.from, &p.size, &head}, func() error {
			found, total = append(found, p), total+p.size
			return nil
		}))
	if err != nil {
		return scoped.Classify("list partitions", err)
	}
	for i, p := range found {
		if i+1 == len(found) || found[i+1].from > head {
			return nil
		}
		var old, dropped bool
		err := db.pool.QueryIn(ctx, scoped.Operator, fmt.Sprintf(`
			SELECT coalesce((SELECT at FROM %s
				ORDER BY seq DESC, ord DESC LIMIT 1) < now() - $1::interval, true)`, pgx.Identifier{p.name}.Sanitize()),
			[]any{db.cfg.KeepChangelog}, scoped.RowInto(&old))
		if err != nil {
			return scoped.Classify("read a partition's age", err)
		}
		if !old && total <= db.cfg.KeepChangelogBytes {
			return nil
		}
		if err := db.pool.AlterTable(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, fmt.Sprintf(`DROP TABLE %s`, pgx.Identifier{p.name}.Sanitize()))
			dropped = err == nil
			return err
		}); err != nil || !dropped {
			return scoped.Classify("drop a partition", err)
		}
		total -= p.size
		db.pool.Log.Info("dropped a partition of the changelog", "first_seq", p.from, "bytes", p.size, "older_than_kept", old)
	}
	return nil
}
