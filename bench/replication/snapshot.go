//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/jackc/pgx/v5/pgxpool"

	"waypost/bench"
	"waypost/bench/corpus"
	"waypost/bench/database"
	"waypost/replication"
)

const (
	plainCopy    = "COPY in key order"
	fromPostgres = "snapshot from PostgreSQL"
	plainBatches = "Pebble batches in random order"
	fromReplica  = "snapshot from a replica"
)

// timed is one case over its rounds.
type timed struct {
	name, what, base string
	wall, cpu        []float64 // µs for a record
	records          int64
}

// round does something with some records and notes what that took.
func (t *timed) round(postgres int, records int, do func() error) error {
	before, err := bench.CPUTime(postgres)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	took := time.Since(start)
	after, err := bench.CPUTime(postgres)
	if err != nil {
		return err
	}
	self, others := after.Since(before)
	t.wall = append(t.wall, took.Seconds()*1e6/float64(records))
	t.cpu = append(t.cpu, (self+others).Seconds()*1e6/float64(records))
	t.records += int64(records)
	return nil
}

func (t *timed) report() bench.Case {
	rate := bench.Measure{Name: recordRate}
	for _, w := range t.wall {
		rate.Rounds = append(rate.Rounds, math.Round(1e6/w))
	}
	return bench.Case{Name: t.name, What: t.what, Base: t.base, Requests: t.records, Measures: []bench.Measure{
		{Name: recordTime, Compared: true, Rounds: t.wall}, {Name: recordCPU, Compared: true, Rounds: t.cpu}, rate,
	}}
}

// fill makes links in PostgreSQL, as the product's triggers see them.
func (l *lab) fill(ctx context.Context, d *database.Database, links int) error {
	const each = 10_000
	for n := 0; n < links; n += each {
		var codes, targets []string
		for i := n; i < min(n+each, links); i++ {
			codes = append(codes, string(corpus.AppendCode(nil, uint64(i))))
			targets = append(targets, string(l.targets.Append(nil, uint64(i))))
		}
		_, err := d.Pool.Exec(ctx, `INSERT INTO link (workspace_id, domain_id, code, original_url) SELECT 1, 1, c, t FROM unnest($1::text[], $2::text[]) u(c, t)`, codes, targets)
		if err != nil {
			return fmt.Errorf("filling PostgreSQL: %w", err)
		}
	}
	for _, sql := range []string{`VACUUM ANALYZE link`, `CHECKPOINT`} {
		if _, err := d.Pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("filling PostgreSQL: %w", err)
		}
	}
	return nil
}

func (l *lab) measureSnapshots(ctx context.Context) (_ bench.Section, err error) {
	d, err := database.Start(ctx, filepath.Join(l.dir, "snapshot"))
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, d.Stop()) }()
	if err := l.fill(ctx, d, l.o.Links); err != nil {
		return bench.Section{}, err
	}
	copied := &timed{name: plainCopy, what: "code, target and stamp of every link, read in the order of the codes and thrown away.", base: plainCopy}
	database := &timed{name: fromPostgres, what: "from an empty directory to a replica that serves, and has checked the digest.", base: plainCopy}
	batches := &timed{name: plainBatches, what: "the same records, 1,000 in a batch, into an empty Pebble store with its defaults, flushed at the end.", base: plainBatches}
	replicas := &timed{name: fromReplica, what: "the same, of another replica on this machine.", base: plainBatches}
	for round := range l.o.Rounds {
		if err := l.snapshotRound(ctx, d, copied, database, batches, replicas); err != nil {
			return bench.Section{}, err
		}
		l.o.Log("round %d of %d: PostgreSQL %.2f µs (COPY %.2f), replica %.2f µs (batches %.2f)", round+1, l.o.Rounds,
			database.wall[round], copied.wall[round], replicas.wall[round], batches.wall[round])
	}
	return bench.Section{
		Title:    fmt.Sprintf("Snapshots of %d links", l.o.Links),
		Settings: []bench.Setting{{Name: "links", Value: "targets of 90 bytes on average"}, {Name: "rounds", Value: fmt.Sprint(l.o.Rounds)}},
		Cases:    []bench.Case{copied.report(), database.report(), batches.report(), replicas.report()},
	}, nil
}

func (l *lab) snapshotRound(ctx context.Context, d *database.Database, copied, fromDatabase, batches, fromReplica *timed) (err error) {
	pid := d.Server.PID()
	err = copied.round(pid, l.o.Links, func() error {
		return d.Pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
			_, err := c.Conn().PgConn().CopyTo(ctx, io.Discard, `COPY (SELECT code, original_url, stamp FROM link ORDER BY domain_id, code) TO STDOUT (FORMAT binary)`)
			return err
		})
	})
	if err != nil {
		return err
	}
	head, err := d.Head(ctx)
	if err != nil {
		return err
	}
	var first *follower
	err = l.bootstrap(ctx, d, head, fromDatabase, pid, &first)
	if first != nil {
		defer func() { err = errors.Join(err, first.remove()) }()
	}
	if err != nil {
		return err
	}
	records := make([][]byte, 0, l.o.Links)
	if _, err := first.Records(ctx, func(raw []byte) error {
		records = append(records, append([]byte(nil), raw...))
		return nil
	}); err != nil {
		return err
	}
	rand.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	if err := batches.round(pid, len(records), func() error { return l.plainBatches(records) }); err != nil {
		return err
	}
	var second *follower
	err = l.bootstrap(ctx, first.DB, head, fromReplica, pid, &second)
	if second != nil {
		err = errors.Join(err, second.remove())
	}
	return err
}

// bootstrap measures how a replica comes to be.
func (l *lab) bootstrap(ctx context.Context, s replication.Source, head replication.Head, t *timed, postgres int, into **follower) error {
	url, stop, err := serve(ctx, s)
	if err != nil {
		return err
	}
	err = t.round(postgres, l.o.Links, func() error {
		if *into, err = l.follow(ctx, url); err != nil {
			return err
		}
		return (*into).await(ctx, head.Position)
	})
	if *into != nil {
		(*into).leave()
	}
	return errors.Join(err, stop())
}

// plainBatches writes records as a program would that knows nothing of their order.
func (l *lab) plainBatches(records [][]byte) (err error) {
	dir, err := os.MkdirTemp(l.dir, "pebble-")
	if err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := pebble.Open(dir, &pebble.Options{Logger: silent{}})
	if err != nil {
		return fmt.Errorf("opening Pebble: %w", err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	for len(records) > 0 {
		some := records[:min(1000, len(records))]
		records = records[len(some):]
		b := p.NewBatch()
		for _, raw := range some {
			if err := b.Set(replication.RecordName(raw), raw, nil); err != nil {
				return fmt.Errorf("writing to Pebble: %w", err)
			}
		}
		if err := errors.Join(b.Commit(pebble.NoSync), b.Close()); err != nil {
			return fmt.Errorf("writing to Pebble: %w", err)
		}
	}
	return p.Flush()
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
