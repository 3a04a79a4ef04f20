//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/bench"
	"waypost/bench/corpus"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
)

// lasting sends clicks at a steady rate while they are folded and statistics are read,
// and measures whether what waits to be folded stays bounded.
func (l *lab) lasting(ctx context.Context) (_ bench.Section, err error) {
	const million = 1_000_000
	links, length := sized(l, 10*million, 2000), sized(l, l.length, 2*time.Second)
	d, err := l.startDatabase(ctx, "lasting")
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	l.o.Logf("making %d links", links)
	if err := bench.FillLinks(ctx, d.server.URL(), l.targets, 0, links, func(uint64) string { return "" }); err != nil {
		return bench.Section{}, err
	}
	if _, err := d.pool.Exec(ctx, `VACUUM ANALYZE link`); err != nil {
		return bench.Section{}, fmt.Errorf("fill PostgreSQL: %w", err)
	}
	s := bench.Section{
		Title: fmt.Sprintf("Clicks for minutes on end, %s links", bench.Grouped(links)),
		Notes: []string{
			fmt.Sprintf("%s of each case; %d edges send a batch a second each, as fast as the last one is taken; they are decoded, checked and committed while a roller folds", length, senders),
			"statistics are read meanwhile, one answer after the other: of a link, with its 30 days, and of the workspace, with the ten links of the most clicks",
			"the clients make the batches on the same two processors, 1 to 2 µs for each click",
		},
	}
	for _, c := range []struct {
		name   string
		rate   int
		access corpus.Access
	}{
		{"Zipf", sized(l, 100_000, 2000), corpus.Zipfian},
		{"uniform", sized(l, 60_000, 2000), corpus.Uniform},
	} {
		r := &lastingRun{d: d, links: uint64(links), rate: c.rate, access: c.access, length: length, log: l.o.Logf}
		out, err := r.run(ctx)
		if err != nil {
			return bench.Section{}, fmt.Errorf("%s: %w", c.name, err)
		}
		s.Cases = append(s.Cases, bench.Case{Name: c.name, Measures: out})
		s.AddGoal(c.name, "µs per click folded", 1e6/float64(c.rate)*1.01)
		s.AddGoal(c.name, "statistics: p99 ms", 300)
	}
	return s, nil
}

// lastingRun is one case.
type lastingRun struct {
	d      *database
	links  uint64
	rate   int // clicks a second, of all senders
	access corpus.Access
	length time.Duration
	log    func(format string, args ...any)

	mu    sync.Mutex
	taken int64
	reads []time.Duration // how long answers of statistics took
}

// backlog says how much waits at a moment.
type backlog struct {
	at       time.Time
	parts    int64
	folded   int64 // clicks in counters of links
	oldest   time.Duration
	database int64 // bytes
}

func (r *lastingRun) run(ctx context.Context) ([]bench.Measure, error) {
	ctx, cancel := context.WithTimeout(ctx, r.length)
	defer cancel()
	begun, err := r.look(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	var f figures
	var middle, end backlog
	err = r.d.timed(&f, int(r.length.Seconds()*float64(r.rate)), func() error {
		var wg sync.WaitGroup
		errs := make([]error, senders+2)
		for n := range senders {
			wg.Go(func() { errs[n] = r.send(ctx, n) })
		}
		wg.Go(func() { errs[senders] = r.read(ctx) })
		wg.Go(func() { r.d.NewRoller(postgres.RollerConfig{}).Run(ctx) })
		middle, errs[senders+1] = r.watch(ctx)
		wg.Wait()
		return errors.Join(errs...)
	})
	if err == nil {
		end, err = r.look(context.WithoutCancel(ctx))
	}
	if err == nil && len(r.reads) == 0 {
		err = errors.New("no answer of statistics came in time")
	}
	if err != nil {
		return nil, err
	}
	folded := float64(end.folded-middle.folded) / end.at.Sub(middle.at).Seconds()
	one := func(name string, figure float64) bench.Measure {
		return bench.Measure{Name: name, Rounds: []float64{figure}}
	}
	slices.Sort(r.reads)
	at := func(q float64) float64 {
		return r.reads[int(q*float64(len(r.reads)-1))].Seconds() * 1000
	}
	out := []bench.Measure{
		one("clicks taken per second", float64(r.taken)/r.length.Seconds()),
		one("folded, second half", folded),
		one("µs per click folded", 1e6/folded),
		one("CPU µs per click", f.cpu[0]),
		one("of which PostgreSQL's", f.postgres[0]),
		one("parts that wait, half-way", float64(middle.parts)),
		one("at the end", float64(end.parts)),
		one("oldest, half-way, s", middle.oldest.Seconds()),
		one("oldest, at the end, s", end.oldest.Seconds()),
		one("statistics: p50 ms", at(0.5)),
		one("statistics: p99 ms", at(0.99)),
		one("PostgreSQL, MB per million clicks", float64(end.database-begun.database)/float64(r.taken)),
	}
	// The next case finds nothing that waits.
	return out, r.d.NewRoller(postgres.RollerConfig{}).Fold(context.WithoutCancel(ctx))
}

// send sends a batch a second, one after the other, until ctx is over.
func (r *lastingRun) send(ctx context.Context, n int) error {
	random := rand.New(rand.NewPCG(uint64(r.rate), uint64(n)))
	next := func() uint64 { return random.Uint64N(r.links) }
	if r.access == corpus.Zipfian {
		next = corpus.NewZipf(random, r.links).Next
	}
	b := &waypost.ClickBatch{Node: fmt.Sprintf("lasting-%d", n), Exact: true, Profiles: profiles()}
	for i := range b.Boot {
		b.Boot[i] = byte(random.Uint32())
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		makeBatch(b, random, r.rate/senders, next)
		body := clickbatch.Append(nil, b)
		if err := r.d.ingest(ctx, [][]byte{body}); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		r.mu.Lock()
		r.taken += int64(r.rate / senders)
		r.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

// makeBatch fills a batch with that many clicks of the last second, each of another
// visitor, on links that next draws.
func makeBatch(b *waypost.ClickBatch, random *rand.Rand, clicks int, next func() uint64) {
	b.Seq++
	b.Links = b.Links[:0]
	drawn := make([]uint64, clicks)
	for i := range drawn {
		drawn[i] = next()
	}
	slices.Sort(drawn)
	now := time.Now().UnixMilli()
	for i, number := range drawn {
		if i == 0 || number != drawn[i-1] {
			b.Links = append(b.Links, waypost.LinkClicks{
				Domain: waypost.DefaultDomain, Code: waypost.Code(corpus.AppendCode(nil, number)), Last: now,
			})
		}
		one := &b.Links[len(b.Links)-1]
		profile := random.IntN(len(b.Profiles))
		at := now - random.Int64N(1000)
		one.Rows = append(one.Rows, waypost.ClickRow{At: at, Profile: uint32(profile), Count: 1})
		one.Visitors = append(one.Visitors, waypost.Visitor{
			Day: int32(at / 86_400_000), Bot: b.Profiles[profile].Bot, Hash: random.Uint64() & waypost.VisitorBits,
		})
	}
	for i := range b.Links {
		one := &b.Links[i]
		slices.SortFunc(one.Visitors, waypost.Visitor.Compare)
		one.Visitors = slices.Compact(one.Visitors)
	}
}

// read asks for statistics, one after the other, until ctx is over.
func (r *lastingRun) read(ctx context.Context) error {
	random := rand.New(rand.NewPCG(7, uint64(r.rate)))
	s, err := controlplane.NewSpan(controlplane.StatsQuery{}, time.Now())
	if err != nil {
		return err
	}
	for n := 0; ctx.Err() == nil; n++ {
		began := time.Now()
		var err error
		if n%2 == 0 {
			_, err = r.d.LinkClicks(ctx, waypost.DefaultWorkspace, 1+random.Int64N(int64(r.links)), &s, nil)
		} else {
			_, _, err = r.d.WorkspaceClicks(ctx, waypost.DefaultWorkspace, &s, nil, 10)
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		r.mu.Lock()
		r.reads = append(r.reads, time.Since(began))
		r.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}

// watch notes what waits until ctx is over, and returns it as it was half-way.
func (r *lastingRun) watch(ctx context.Context) (middle backlog, err error) {
	half := time.NewTimer(r.length / 2)
	defer half.Stop()
	tick := time.NewTicker(30 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return middle, nil
		case <-half.C:
			if middle, err = r.look(context.WithoutCancel(ctx)); err != nil {
				return middle, err
			}
		case <-tick.C:
			now, err := r.look(context.WithoutCancel(ctx))
			if err != nil {
				return middle, err
			}
			r.mu.Lock()
			r.log("%s: %d clicks taken, %d folded in all, %d parts wait, the oldest %s; slowest answer of %d %s",
				r.access, r.taken, now.folded, now.parts, now.oldest.Round(time.Second), len(r.reads),
				slices.Max(append(r.reads, 0)).Round(time.Millisecond))
			r.mu.Unlock()
		}
	}
}

func (r *lastingRun) look(ctx context.Context) (b backlog, err error) {
	var oldest float64
	err = r.d.pool.QueryRow(ctx, `
		SELECT now(), (SELECT coalesce(sum(cardinality(links)), 0) FROM click_pack),
		       (SELECT coalesce(sum(clicks), 0)::bigint FROM link_click),
		       (SELECT coalesce(extract(epoch FROM now() - min(received_at)), 0)::float8 FROM click_pack), pg_database_size(current_database())`).
		Scan(&b.at, &b.parts, &b.folded, &oldest, &b.database)
	b.oldest = time.Duration(oldest * float64(time.Second))
	return b, err
}
