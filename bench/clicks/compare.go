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
)

// way is one case.
type way struct {
	name, what   string
	roller       bool
	events       string // the workspace's setting
	plain        bool
	rates, folds []float64
	clicks       int64
}

// compare lets the cases take turns.
func (l *lab) compare(ctx context.Context, s section) (bench.Section, error) {
	ways := []*way{
		{name: plainUpdates, plain: true, what: "counters alone, of links that need not be looked up: `UPDATE … FROM unnest` of 1,000 rows in the order of their keys, a transaction each. Clicks on one link are one row for 1,000 clicks."},
		{name: asRollups, events: "off", what: "batches into parts, which hold all that hours, days, breakdowns and visitors are made of."},
		{name: withRoller, roller: true, events: "off", what: "the same while a roller folds them into counters, hours, days, breakdowns and sketches; what it has left then is folded alone."},
		{name: withEvents, events: "all", what: "and a row of click_event for each click."},
	}
	for round := range l.o.Rounds + 1 {
		order := slices.Clone(ways)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, w := range order {
			rate, fold, err := l.round(ctx, s, w)
			if err != nil {
				return bench.Section{}, fmt.Errorf("%s: %w", w.name, err)
			}
			if round == 0 && l.o.Rounds > 1 {
				continue // to warm up
			}
			w.rates, w.folds, w.clicks = append(w.rates, rate), append(w.folds, fold), w.clicks+int64(l.clicks())
			l.o.Log("round %d of %d: %-36s %8.0f clicks/s, folded %8.0f/s", round, l.o.Rounds, w.name, rate, fold)
		}
	}
	out := bench.Section{Title: s.title, Settings: []bench.Setting{
		{Name: "links", Value: fmt.Sprint(l.o.Links)},
		{Name: "batches", Value: fmt.Sprintf("%d of %d clicks from each of %d edges in a round, %d rounds", l.o.Batches, l.o.Clicks, l.o.Senders, l.o.Rounds)},
	}}
	for _, w := range ways {
		c := bench.Case{Name: w.name, What: w.what, Base: plainUpdates, Requests: w.clicks, Measures: []bench.Measure{
			{Name: clicksPerSecond, Compared: true}, {Name: microseconds}, {Name: foldedPerSecond},
		}}
		for i, rate := range w.rates {
			for m, v := range []float64{math.Round(rate), 1e6 / rate, math.Round(w.folds[i])} {
				c.Measures[m].Rounds = append(c.Measures[m].Rounds, v)
			}
		}
		out.Cases = append(out.Cases, c)
	}
	return out, l.check(ctx)
}

func (l *lab) clicks() int { return l.o.Senders * l.o.Batches * l.o.Clicks }

// round gives clicks per second, while they come and when what they left is folded.
func (l *lab) round(ctx context.Context, s section, w *way) (rate, fold float64, err error) {
	if w.plain {
		rate, err = l.update(ctx, s)
		return rate, 0, err
	}
	if _, err := l.pool.Exec(ctx, `UPDATE workspace SET settings = jsonb_build_object('events', $1::text)`, w.events); err != nil {
		return 0, 0, err
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
	start := time.Now()
	err = together(l.o.Senders, func(n int) error {
		for _, body := range bodies[n] {
			b, err := waypost.DecodeClickBatch(body)
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
	})
	rate = float64(l.clicks()) / time.Since(start).Seconds()
	stop()
	if err != nil {
		return 0, 0, err
	}
	var left int64
	if err := l.pool.QueryRow(ctx, `SELECT coalesce(sum(clicks), 0)::bigint FROM click_part`).Scan(&left); err != nil {
		return 0, 0, err
	}
	start = time.Now()
	if err := l.db.NewRoller(postgres.RollerConfig{}).Fold(ctx); err != nil {
		return 0, 0, err
	}
	fold = float64(left) / time.Since(start).Seconds()
	// Single clicks of earlier rounds would make the last ones slower than the first.
	_, err = l.pool.Exec(ctx, `DO $$ DECLARE t regclass; BEGIN FOR t IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'click_event'::regclass LOOP EXECUTE 'TRUNCATE ' || t; END LOOP; END $$`)
	return rate, fold, err
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
