//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"waypost"
	"waypost/bench"
	"waypost/controlplane"
)

// Names of measures of keys.
const (
	keyTime        = "ns per key"
	keyCPU         = "CPU ns per key"
	keyPostgres    = "PostgreSQL's CPU ns per key"
	keyAllocations = "allocations per key"
	keyRate        = "keys per second"
)

// contender is one way to come to keys.
type contender struct {
	name, what string
	draw       func(ctx context.Context, into []waypost.Code) error
	spent      []spent
	keys       int64
}

const (
	mint     = "Minter.Mint"
	mintMany = "Minter.MintMany"
	batch    = 100 // keys that a goroutine takes between two looks at the clock
)

// issue lets goroutines take keys for a round, from each source in turn.
func (l *lab) issue(ctx context.Context, goroutines int) (_ bench.Section, err error) {
	minter := controlplane.NewMinter(controlplane.MinterConfig{Store: l.db, Coder: l.db.Coder, Region: region, Node: fmt.Sprintf("issue/%d", goroutines)})
	defer func() { err = errors.Join(err, minter.Close(context.WithoutCancel(ctx))) }()
	sequence, err := newSequence(ctx, l.db)
	if err != nil {
		return bench.Section{}, err
	}
	cases := []*contender{
		{name: mint, what: "leased counters, permuted; leases are taken ahead.", draw: mintInto(minter)},
		{name: mintMany, what: fmt.Sprintf("the same, %d keys a call.", batch), draw: mintManyInto(minter)},
		{name: "random", what: "seven random characters of crypto/rand, as nanoid makes them. Nothing shows that they are unique; that would take a look into the database.", draw: randomInto},
		{name: "sequence", what: "nextval of a PostgreSQL sequence for every key, over a socket of the same machine, permuted as in the first.", draw: sequence.into},
	}
	order := slices.Clone(cases)
	var minted int64
	for round := range l.o.Rounds + warmUp {
		for _, c := range order {
			s, keys, err := l.db.round(ctx, c, goroutines, l.o.Round)
			if err != nil {
				return bench.Section{}, fmt.Errorf("%s: %w", c.name, err)
			}
			if c.name == mint || c.name == mintMany {
				minted += keys
			}
			if round < warmUp {
				continue
			}
			c.spent, c.keys = append(c.spent, s), c.keys+keys
			l.o.Log("round %d of %d: %-16s %8.0f ns, %8.0f ns CPU, %8.0f ns CPU of PostgreSQL, %.3f allocations", round-warmUp+1, l.o.Rounds, c.name, s.wall, s.cpu, s.postgres, s.allocations)
		}
		slices.Reverse(order)
	}
	if minted != minter.Minted() {
		return bench.Section{}, fmt.Errorf("%d keys were counted, but %d minted", minted, minter.Minted())
	}
	out := bench.Section{
		Title: fmt.Sprintf("Issuing keys, %d goroutines", goroutines),
		Settings: []bench.Setting{
			{Name: "rounds", Value: fmt.Sprintf("%d of %s for each case, after %d that are not counted", l.o.Rounds, l.o.Round, warmUp)},
			{Name: "leases", Value: "10,000 counters at first, more as they are used up faster, as every control plane does; their transactions are in the figures"},
		},
	}
	if goroutines == 1 {
		out.Title = "Issuing keys, one goroutine"
	}
	for _, c := range cases {
		out.Cases = append(out.Cases, c.report())
	}
	return out, nil
}

// warmUp is the number of rounds until leases have grown to what is asked for.
const warmUp = 2

func (c *contender) report() bench.Case {
	measure := func(name string, compared bool, of func(spent) float64) bench.Measure {
		m := bench.Measure{Name: name, Compared: compared}
		for _, s := range c.spent {
			m.Rounds = append(m.Rounds, of(s))
		}
		return m
	}
	return bench.Case{
		Name: c.name, What: c.what, Base: mint, Requests: c.keys,
		Measures: []bench.Measure{
			measure(keyTime, true, func(s spent) float64 { return s.wall }),
			measure(keyCPU, true, func(s spent) float64 { return s.cpu }),
			measure(keyPostgres, false, func(s spent) float64 { return s.postgres }),
			measure(keyAllocations, false, func(s spent) float64 { return math.Round(s.allocations*100) / 100 }),
			measure(keyRate, false, func(s spent) float64 { return math.Round(1e9 / s.wall) }),
		},
	}
}

// round lets goroutines take keys until the time is up, and looks at the last ones
// of each.
func (d *database) round(ctx context.Context, c *contender, goroutines int, length time.Duration) (spent, int64, error) {
	last := make([][]waypost.Code, goroutines)
	counts, errs := make([]int64, goroutines), make([]error, goroutines)
	before, err := d.use()
	if err != nil {
		return spent{}, 0, err
	}
	var workers sync.WaitGroup
	end := time.Now().Add(length)
	for g := range goroutines {
		workers.Go(func() {
			codes, n := make([]waypost.Code, batch), int64(0)
			for more := true; more && errs[g] == nil; more = time.Now().Before(end) {
				errs[g] = c.draw(ctx, codes)
				n += batch
			}
			last[g], counts[g] = codes, n
		})
	}
	workers.Wait()
	after, err := d.use()
	if err := errors.Join(append(errs, err)...); err != nil {
		return spent{}, 0, err
	}
	var keys int64
	for _, n := range counts {
		keys += n
	}
	return after.since(before, keys), keys, d.look(slices.Concat(last...))
}

// look makes sure that codes are such, and all different.
func (d *database) look(codes []waypost.Code) error {
	seen := make(map[waypost.Code]bool, len(codes))
	for _, code := range codes {
		if _, _, ok := d.Coder.Decode(code); !ok {
			return fmt.Errorf("%q is no code", code)
		}
		if seen[code] {
			return fmt.Errorf("%q came twice", code)
		}
		seen[code] = true
	}
	return nil
}
