//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"waypost"
	"waypost/bench"
	"waypost/bench/corpus"
	"waypost/controlplane"
)

// Names of measures of creates.
const (
	createRate     = "creates per second"
	createCPU      = "CPU µs per create"
	createPostgres = "of which PostgreSQL's"
)

const (
	withKeys    = "with the KGS"
	withoutKeys = "without"
)

// creator is a way to create links.
type creator struct {
	name, what string
	service    *controlplane.Links
	spent      []spent
	created    int64
}

// create compares creates whose codes the key generation service leases, with
// creates whose codes cost PostgreSQL nothing, at many callers.
func (l *lab) create(ctx context.Context) (_ bench.Section, err error) {
	targets, err := corpus.ReadTargets(l.o.Targets)
	if err != nil {
		return bench.Section{}, err
	}
	free, err := newFreeLeases(ctx, l.db)
	if err != nil {
		return bench.Section{}, err
	}
	with, minter := l.db.Service(l.db, "create/1")
	without, _ := l.db.Service(free, "create/2")
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, with.Close(ctx), without.Close(ctx))
	}()
	cases := []*creator{
		{name: withoutKeys, service: without, what: "the same code and the same INSERT, with counters out of memory that are no lease of the database: none is taken, and none is checked when links are written."},
		{name: withKeys, service: with, what: "the whole of Service.Create over leases of PostgreSQL: taken ahead in transactions of their own, and checked in every transaction that writes links."},
	}
	load := &createLoad{db: l.db, targets: targets, callers: l.o.Callers}
	order := slices.Clone(cases)
	for round := range l.o.CreateRounds + warmUp {
		for _, c := range order {
			s, created, err := load.round(ctx, c.service, l.o.CreateRound)
			if err != nil {
				return bench.Section{}, fmt.Errorf("%s: %w", c.name, err)
			}
			if round < warmUp {
				continue
			}
			c.spent, c.created = append(c.spent, s), c.created+created
			l.o.Log("round %d of %d: %-12s %7.1f µs, %7.1f µs CPU, %7.1f µs CPU of PostgreSQL, %6.0f creates/s",
				round-warmUp+1, l.o.CreateRounds, c.name, s.wall/1e3, s.cpu/1e3, s.postgres/1e3, 1e9/s.wall)
		}
		slices.Reverse(order)
	}
	var links int64
	if err := l.db.Pool.QueryRow(ctx, `SELECT count(*) FROM link`).Scan(&links); err != nil {
		return bench.Section{}, fmt.Errorf("counting links: %w", err)
	}
	if made := load.created.Load(); links != made {
		return bench.Section{}, fmt.Errorf("%d links were created, but %d are there", made, links)
	}
	out := bench.Section{
		Title: fmt.Sprintf("Creating links, %d callers", l.o.Callers),
		Settings: []bench.Setting{
			{Name: "rounds", Value: fmt.Sprintf("%d of %s for each case, after %d that are not counted", l.o.CreateRounds, l.o.CreateRound, warmUp)},
			{Name: "links", Value: "minted codes, targets of 90 bytes on average, all in one database"},
			{Name: "keys leased", Value: fmt.Sprint(minter.Minted() + minter.Remaining())},
		},
	}
	for _, c := range cases {
		out.Cases = append(out.Cases, c.report())
	}
	note, err := spread(cases[1].spent, cases[0].spent)
	out.Notes = append(out.Notes, note)
	return out, err
}

// spread tells how sure the ratio is: short rounds on a shared machine differ much.
func spread(with, without []spent) (string, error) {
	rates := func(of []spent) (out []float64) {
		for _, s := range of {
			out = append(out, 1/s.wall)
		}
		return out
	}
	ratios, err := bench.Ratios(rates(with), rates(without))
	if err != nil {
		return "", err
	}
	slices.Sort(ratios)
	n := len(ratios)
	return fmt.Sprintf("half of the rounds have a ratio of creates per second between %.3f and %.3f.", ratios[n/4], ratios[n-1-n/4]), nil
}

func (c *creator) report() bench.Case {
	measure := func(name string, compared bool, of func(spent) float64) bench.Measure {
		m := bench.Measure{Name: name, Compared: compared}
		for _, s := range c.spent {
			m.Rounds = append(m.Rounds, of(s))
		}
		return m
	}
	return bench.Case{
		Name: c.name, What: c.what, Base: withoutKeys, Requests: c.created,
		Measures: []bench.Measure{
			measure(createRate, true, func(s spent) float64 { return math.Round(1e9 / s.wall) }),
			measure(createCPU, true, func(s spent) float64 { return (s.cpu + s.postgres) / 1e3 }),
			measure(createPostgres, true, func(s spent) float64 { return s.postgres / 1e3 }),
		},
	}
}

// createLoad is callers that create one link after the other.
type createLoad struct {
	db      *database
	targets *corpus.Targets
	callers int
	number  atomic.Uint64 // of the newest target
	created atomic.Int64
}

func (c *createLoad) round(ctx context.Context, service *controlplane.Links, length time.Duration) (spent, int64, error) {
	actor := controlplane.Actor{Workspace: waypost.DefaultWorkspace}
	errs := make([]error, c.callers)
	var created atomic.Int64
	before, err := c.db.use()
	if err != nil {
		return spent{}, 0, err
	}
	var callers sync.WaitGroup
	end := time.Now().Add(length)
	for g := range c.callers {
		callers.Go(func() {
			var target []byte
			for more := true; more; more = time.Now().Before(end) {
				target = c.targets.Append(target[:0], c.number.Add(1))
				if _, _, err := service.Create(ctx, actor, controlplane.NewLink{OriginalURL: string(target)}); err != nil {
					errs[g] = err
					return
				}
				created.Add(1)
			}
		})
	}
	callers.Wait()
	after, err := c.db.use()
	if err := errors.Join(append(errs, err)...); err != nil {
		return spent{}, 0, err
	}
	n := created.Load()
	c.created.Add(n)
	return after.since(before, n), n, nil
}
