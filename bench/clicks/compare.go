//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/bench"
	"waypost/controlplane/postgres"
)

// Names of cases.
const (
	plainUpdates = "UPDATE by 1,000"
	asRollups    = "as rollups"
	withRoller   = "as rollups, while parts are folded"
	withEvents   = "with every event"
)

// Names of measures.
const (
	clicksPerSecond = "clicks/s"
	microseconds    = "µs per click"
	foldedPerSecond = "then folded, clicks/s"
	cpuHere         = "CPU of the control plane, µs per click"
	cpuPostgres     = "CPU of PostgreSQL, µs per click"
	cpuFolded       = "CPU of what is then folded, µs per click"
)

// way is one case.
type way struct {
	name, what string
	roller     bool
	events     string // the workspace's setting
	plain      bool
	rounds     []round
	clicks     int64
}

// round is what a way did in one.
type round struct {
	rate, fold          float64 // clicks per second, while they come and when what they left is folded
	here, postgres, cpu float64 // µs of CPU per click: of both while they come, and of all together while the rest is folded
}

func (r round) measures() []float64 {
	return []float64{math.Round(r.rate), 1e6 / r.rate, r.here, r.postgres, math.Round(r.fold), r.cpu}
}

// compare lets the cases take turns.
func (l *lab) compare(ctx context.Context, s section) (bench.Section, error) {
	ways := []*way{
		{name: plainUpdates, plain: true, what: "counters alone, of links that need not be looked up: `UPDATE … FROM unnest` of 1,000 rows in the order of their keys, a transaction each. Clicks on one link are one row for 1,000 clicks."},
		{name: asRollups, events: "off", what: "batches into parts, which hold all that hours, days, breakdowns and visitors are made of."},
		{name: withRoller, roller: true, events: "off", what: "the same while a roller folds them into counters, hours, days, breakdowns and sketches; what it has left then is folded alone."},
		{name: withEvents, events: "all", what: "and a row of click_event for each click."},
	}
	for n := range l.o.Rounds + 1 {
		order := slices.Clone(ways)
		if n%2 == 1 {
			slices.Reverse(order)
		}
		for _, w := range order {
			r, err := l.round(ctx, s, w)
			if err != nil {
				return bench.Section{}, fmt.Errorf("%s: %w", w.name, err)
			}
			if n == 0 && l.o.Rounds > 1 {
				continue // to warm up
			}
			w.rounds, w.clicks = append(w.rounds, r), w.clicks+int64(l.clicks())
			l.o.Log("round %d of %d: %-36s %8.0f clicks/s, CPU %5.2f + %5.2f µs, folded %8.0f/s, CPU %5.2f µs", n, l.o.Rounds, w.name, r.rate, r.here, r.postgres, r.fold, r.cpu)
		}
	}
	out := bench.Section{Title: s.title, Settings: []bench.Setting{
		{Name: "links", Value: fmt.Sprint(l.o.Links)},
		{Name: "batches", Value: fmt.Sprintf("%d of %d clicks from each of %d edges in a round, %d rounds", l.o.Batches, l.o.Clicks, l.o.Senders, l.o.Rounds)},
	}}
	for _, w := range ways {
		c := bench.Case{Name: w.name, What: w.what, Base: plainUpdates, Requests: w.clicks, Measures: []bench.Measure{
			{Name: clicksPerSecond, Compared: true}, {Name: microseconds}, {Name: cpuHere}, {Name: cpuPostgres}, {Name: foldedPerSecond}, {Name: cpuFolded},
		}}
		for _, r := range w.rounds {
			for m, v := range r.measures() {
				c.Measures[m].Rounds = append(c.Measures[m].Rounds, v)
			}
		}
		out.Cases = append(out.Cases, c)
	}
	return out, l.check(ctx)
}

func (l *lab) clicks() int { return l.o.Senders * l.o.Batches * l.o.Clicks }

// round makes one.
func (l *lab) round(ctx context.Context, s section, w *way) (r round, err error) {
	if w.plain {
		r.here, r.postgres, err = l.perClick(int64(l.clicks()), func() (err error) {
			r.rate, err = l.update(ctx, s)
			return err
		})
		return r, err
	}
	if _, err := l.pool.Exec(ctx, `UPDATE workspace SET settings = jsonb_build_object('events', $1::text)`, w.events); err != nil {
		return r, err
	}
	var bodies [][][]byte
	for n := range l.o.Senders {
		l.boots++
		bodies = append(bodies, l.batches(s, n, waypost.BootID{l.boots, byte(n)}))
	}
	stop := func() {}
	if w.roller {
		stop = l.roll(ctx)
	}
	r.here, r.postgres, err = l.perClick(int64(l.clicks()), func() error {
		defer stop()
		start := time.Now()
		err := together(l.o.Senders, func(n int) error { return l.send(ctx, bodies[n]) })
		r.rate = float64(l.clicks()) / time.Since(start).Seconds()
		return err
	})
	if err != nil {
		return r, err
	}
	var left int64
	if err := l.pool.QueryRow(ctx, `SELECT coalesce(sum(clicks), 0)::bigint FROM click_part`).Scan(&left); err != nil {
		return r, err
	}
	if left > 0 {
		here, postgres, err := l.perClick(left, func() error {
			start := time.Now()
			err := l.fold(ctx)
			r.fold = float64(left) / time.Since(start).Seconds()
			return err
		})
		if err != nil {
			return r, err
		}
		r.cpu = here + postgres
	}
	// Single clicks of earlier rounds would make the last ones slower than the first.
	_, err = l.pool.Exec(ctx, `DO $$ DECLARE t regclass; BEGIN FOR t IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'click_event'::regclass LOOP EXECUTE 'TRUNCATE ' || t; END LOOP; END $$`)
	return r, err
}

func (l *lab) fold(ctx context.Context) error {
	return l.db.NewRoller(postgres.RollerConfig{}).Fold(ctx)
}

// send has batches counted, one after the other.
func (l *lab) send(ctx context.Context, bodies [][]byte) error {
	for _, body := range bodies {
		b, err := clickbatch.Decode(body)
		if err != nil {
			return err
		}
		r, err := l.db.IngestClicks(ctx, &b, sha256.Sum256(body), body)
		if err != nil {
			return err
		}
		if r.Clicks != uint64(l.o.Clicks) {
			return fmt.Errorf("%d clicks were counted instead of %d", r.Clicks, l.o.Clicks)
		}
	}
	return nil
}

// perClick gives the CPU time that f takes, in µs for each of so many clicks.
func (l *lab) perClick(clicks int64, f func() error) (here, postgres float64, err error) {
	before, err := bench.CPUTime(l.server.PID())
	if err != nil {
		return 0, 0, err
	}
	if err := f(); err != nil {
		return 0, 0, err
	}
	after, err := bench.CPUTime(l.server.PID())
	self, other := after.Since(before)
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(clicks) }
	return per(self), per(other), err
}

// roll runs a roller until the function that it gives is called, which waits for it.
func (l *lab) roll(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var roller sync.WaitGroup
	roller.Go(func() { l.db.NewRoller(postgres.RollerConfig{Interval: 100 * time.Millisecond}).Run(ctx) })
	return func() { cancel(); roller.Wait() }
}

func together(n int, f func(int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// check compares all that was sent with what is counted, so that no figure is of clicks that
// were lost.
func (l *lab) check(ctx context.Context) error {
	var said, counted, hours, days int64
	err := l.pool.QueryRow(ctx, `
		SELECT (SELECT sum(clicks) FROM click_watermark)::bigint, (SELECT sum(clicks) FROM link_click)::bigint,
		       (SELECT sum(q0 + q1 + q2 + q3) FROM click_hour)::bigint, (SELECT sum(clicks) FROM click_workspace_day)::bigint`).Scan(&said, &counted, &hours, &days)
	if err == nil && (said != counted || said != hours || said != days) {
		err = fmt.Errorf("%d clicks came, but %d are counted, %d in hours and %d in days", said, counted, hours, days)
	}
	return err
}
