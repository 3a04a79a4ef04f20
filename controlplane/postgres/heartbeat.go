package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane/fleet"
	"waypost/controlplane/postgres/scoped"
	"waypost/internal/failpoint"
)

const (
	heartbeatInterval = 5 * time.Second
	// deadAfter is the silence after which a control plane's leases are burned. If it is
	// still alive, it leases others, and writes with its old keys are refused.
	deadAfter = time.Minute
	// roundTimeout bounds a round, so that a dead connection does not end the rounds.
	roundTimeout = 5 * time.Second
)

// Heartbeat identifies a control plane in its heartbeats, on which its leases depend, and
// counts the keys that it issues.
type Heartbeat struct {
	Node   string // "NAME/BOOT", as in its leases
	Region waypost.Region
	Issued func() map[int64]int64 // keys issued since the last call, by range

	Report func() fleet.ControlReport // of this control plane
	Heard  func([]fleet.ControlPlane) // is called with the heartbeats of all
}

// SendHeartbeats shows the presence, and burns the leases of control planes that are
// gone, until ctx is over.
func (db *KeyRangeStore) SendHeartbeats(ctx context.Context, p Heartbeat) {
	deadAfter := failpoint.Limit("a control plane is dead after", deadAfter)
	seen := attendance{start: time.Now()}
	db.pool.RunEvery(ctx, heartbeatInterval, "show presence", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, roundTimeout)
		defer cancel()
		report := p.Report()
		theirs, all, err := db.beat(ctx, p.Node, p.Region, p.Issued(), &report)
		if err != nil {
			seen.interrupted()
			return err
		}
		p.Heard(all)
		// After an outage of the database or a jump of its clock, no control plane has been
		// heard, so all count as alive.
		if seen.round(time.Now(), theirs) < deadAfter {
			return nil
		}
		return db.BurnSilent(ctx, deadAfter)
	})
}

// attendance measures for how long heartbeats were sent without an interruption, by a
// database clock that runs as fast as this process's own.
type attendance struct {
	start time.Time
	since time.Time     // first round of the unbroken series
	ahead time.Duration // lead of the database's clock over this process's in the last round
}

// clockJump bounds the change of that lead between two rounds.
const clockJump = deadAfter / 4

func (a *attendance) interrupted() { a.since = time.Time{} }

// round notes a success with its times by this process's clock and by the database's. It
// returns the length of the unbroken series.
func (a *attendance) round(now, theirs time.Time) time.Duration {
	ahead := theirs.Sub(a.start) - now.Sub(a.start) // the latter does not follow the wall clock
	if a.since.IsZero() || (ahead-a.ahead).Abs() > clockJump {
		a.since = now
	}
	a.ahead = ahead
	return now.Sub(a.since)
}

// Beat records that a control plane is alive, and adds to its numbers of issued keys.
func (db *KeyRangeStore) Beat(ctx context.Context, node string, region waypost.Region, issued map[int64]int64) error {
	_, _, err := db.beat(ctx, node, region, issued, nil)
	return err
}

// beat sends a heartbeat and returns the database's time, and the heartbeats of all
// control planes.
func (db *KeyRangeStore) beat(
	ctx context.Context, node string, region waypost.Region, issued map[int64]int64, report *fleet.ControlReport,
) (now time.Time, all []fleet.ControlPlane, err error) {
	text, err := json.Marshal(report)
	if err != nil {
		return now, nil, fmt.Errorf("encode the report of a control plane: %w", err)
	}
	var b pgx.Batch
	scoped.Operator.EnterBatch(&b)
	b.Queue(`
		INSERT INTO control_node (node, region, report) VALUES ($1, $2, $3::text::jsonb)
		ON CONFLICT (node) DO UPDATE SET seen_at = clock_timestamp(), report = excluded.report RETURNING seen_at`, node, region, string(text)).
		QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	b.Queue(`
		SELECT node, region, started_at, extract(epoch FROM clock_timestamp() - seen_at), stopped, report
		FROM control_node WHERE seen_at > clock_timestamp() - $1::interval`, fleet.ForgetControl).
		Query(scoped.CollectWith(&all, scanControl))
	addIssued(&b, region, issued)
	return now, all, scoped.Classify("show presence", db.pool.SendBatch(ctx, &b).Close())
}

func (db *KeyRangeStore) AddIssued(ctx context.Context, region waypost.Region, issued map[int64]int64) error {
	var b pgx.Batch
	scoped.Operator.EnterBatch(&b)
	addIssued(&b, region, issued)
	return scoped.Classify("count issued keys", db.pool.SendBatch(ctx, &b).Close())
}

func addIssued(b *pgx.Batch, region waypost.Region, issued map[int64]int64) {
	for _, id := range slices.Sorted(maps.Keys(issued)) { // in one order, or two control planes of a region could wait for each other
		b.Queue(`
			INSERT INTO key_issue (minute, region, range_id, issued) VALUES (date_trunc('minute', clock_timestamp()), $1, $2, $3)
			ON CONFLICT (minute, region, range_id) DO UPDATE SET issued = key_issue.issued + excluded.issued`, region, id, issued[id])
	}
}

// scanControl reads a heartbeat. The name of a control plane is followed by the name of
// its start.
func scanControl(row pgx.CollectableRow) (c fleet.ControlPlane, err error) {
	var silent float64
	var report []byte
	if err := row.Scan(&c.Node, &c.Region, &c.StartedAt, &silent, &c.Stopped, &report); err != nil {
		return c, err
	}
	c.Node = c.Node[:max(strings.LastIndexByte(c.Node, '/'), 0)]
	c.Silent = time.Duration(silent * float64(time.Second))
	return c, json.Unmarshal(report, &c.ControlReport)
}

// Leave records that a control plane stops in order.
func (db *KeyRangeStore) Leave(ctx context.Context, node string) error {
	_, err := db.pool.ExecIn(ctx, scoped.Operator, `UPDATE control_node SET stopped = true WHERE node = $1`, node)
	return scoped.Classify("say that this control plane stops", err)
}

// BurnSilent ends the leases of control planes that were not seen for so long.
func (db *KeyRangeStore) BurnSilent(ctx context.Context, silent time.Duration) error {
	const dead = `
		FROM key_lease l LEFT JOIN control_node n ON n.node = l.node
		WHERE l.state = 'held' AND coalesce(n.seen_at, l.taken_at) < clock_timestamp() - $1::interval`
	var found bool
	if err := db.pool.QueryRowIn(ctx, scoped.Operator, `SELECT EXISTS (SELECT `+dead+`)`, []any{silent}, &found); err != nil {
		return scoped.Classify("look for leases of the dead", err)
	}
	if !found {
		return nil
	}
	return db.pool.change(ctx, "burn leases", func(tx pgx.Tx, _ uint32) error {
		tag, err := tx.Exec(ctx, `UPDATE key_lease SET state = 'burned' WHERE id IN (SELECT l.id `+dead+`)`, silent)
		if err == nil {
			db.pool.Log.Warn("burned the leases of control planes that are gone", "leases", tag.RowsAffected())
		}
		return err
	})
}

// forgetIssues drops numbers that are too old for any rate, and control planes of long
// ago.
func (db *KeyRangeStore) forgetIssues(ctx context.Context) error {
	var b pgx.Batch
	scoped.Operator.EnterBatch(&b)
	b.Queue(`DELETE FROM key_issue WHERE minute < clock_timestamp() - $1::interval`, keptRates)
	b.Queue(`DELETE FROM control_node n WHERE seen_at < clock_timestamp() - $1::interval
	         AND NOT EXISTS (SELECT FROM key_lease l WHERE l.node = n.node AND l.state = 'held')`, keptRates)
	return scoped.Classify("forget old rates", db.pool.SendBatch(ctx, &b).Close())
}
