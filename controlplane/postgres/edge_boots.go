package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane/fleet"
	"waypost/controlplane/postgres/scoped"
)

// noteBoots takes rows in the order of their keys, so that several instances rarely
// deadlock. A report that is late takes back no stop. A time of the future is from a
// clock that was set back since. The boots that these continue in the same process end
// and leave the time of their first report, and the boot of an enrolment ends.
const noteBoots = `
WITH noted AS (SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[], $4::boolean[], $5::float8[], $6::float8[], $7::bytea[])
		AS s (node, boot, region, stopped, known, age, continued)),
	ended AS (DELETE FROM edge_boot b USING noted s
		WHERE b.node = s.node AND b.boot IN (s.continued, '\x00000000000000000000000000000000')
		RETURNING b.node, b.boot, b.first_at)
INSERT INTO edge_boot AS b (node, boot, region, stopped, first_at, reported_at)
SELECT node, boot, region, stopped,
	least(now() - known * interval '1 second', (SELECT first_at FROM ended e WHERE e.node = s.node AND e.boot = s.continued)),
	now() - age * interval '1 second'
FROM noted s ORDER BY node COLLATE "C", boot
ON CONFLICT (node, boot) DO UPDATE
SET region = excluded.region, stopped = b.stopped OR excluded.stopped,
    reported_at = greatest(CASE WHEN b.reported_at <= now() THEN b.reported_at END, excluded.reported_at)`

func (db *FleetStore) NoteBoots(ctx context.Context, boots []fleet.Boot) error {
	names, regions, stopped := make([]string, len(boots)), make([]string, len(boots)), make([]bool, len(boots))
	ids, continued := make([][]byte, len(boots)), make([][]byte, len(boots))
	known, ages, now := make([]float64, len(boots)), make([]float64, len(boots)), time.Now()
	for i := range boots {
		b := &boots[i]
		names[i], regions[i], stopped[i] = b.Node, string(b.Region), b.Stopped
		ids[i], continued[i] = b.ID[:], b.Continues[:]
		known[i], ages[i] = max(now.Sub(b.First), 0).Seconds(), max(now.Sub(b.At), 0).Seconds()
	}
	_, err := db.pool.ExecIn(ctx, scoped.Operator, noteBoots, names, ids, regions, stopped, known, ages, continued)
	return scoped.Classify("note the boots of edges", err)
}

// selectBoots returns ages, because PostgreSQL's clock may differ from ours.
const selectBoots = `
SELECT node, boot, region, extract(epoch FROM now() - first_at)::float8, extract(epoch FROM now() - reported_at)::float8
FROM edge_boot WHERE NOT stopped ORDER BY node, boot`

func (db *FleetStore) Boots(ctx context.Context) (all []fleet.Boot, err error) {
	began := time.Now()
	ago := func(seconds float64) time.Time { return began.Add(-time.Duration(seconds * float64(time.Second))) }
	read := func(row pgx.CollectableRow) (b fleet.Boot, err error) {
		var id []byte
		var known, age float64
		err = row.Scan(&b.Node, &id, &b.Region, &known, &age)
		b.ID, b.First, b.At = waypost.BootID(id), ago(known), ago(age)
		return b, err
	}
	err = db.pool.QueryIn(ctx, scoped.Operator, selectBoots, nil, scoped.CollectWith(&all, read))
	return all, scoped.Classify("read the boots of edges", err)
}

// dropBoots drops boots that another one has followed, unless a report to any instance
// has come since, and boots that stopped so long ago that no report of them is late.
const dropBoots = `
DELETE FROM edge_boot b WHERE stopped AND reported_at < now() - interval '1 hour' OR EXISTS (
	SELECT FROM unnest($1::text[], $2::bytea[], $3::float8[]) AS s (node, boot, age)
	WHERE b.node = s.node AND b.boot = s.boot AND NOT b.reported_at > now() - (s.age - 1) * interval '1 second')`

func (db *FleetStore) DropBoots(ctx context.Context, followed []fleet.Boot) error {
	names, ids, ages, now := make([]string, len(followed)), make([][]byte, len(followed)), make([]float64, len(followed)), time.Now()
	for i := range followed {
		names[i], ids[i], ages[i] = followed[i].Node, followed[i].ID[:], now.Sub(followed[i].At).Seconds()
	}
	_, err := db.pool.ExecIn(ctx, scoped.Operator, dropBoots, names, ids, ages)
	return scoped.Classify("drop boots of edges", err)
}
