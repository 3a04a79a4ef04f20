//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"waypost/bench"
	"waypost/bench/devsystem"
)

const (
	overHTTP     = "POST /api/v1/urls"
	plainSingles = "plain single INSERTs"
	p50          = "p50 in ms"
	p99          = "p99 in ms"
)

// maker makes one link over a connection of its own.
type maker interface {
	create(ctx context.Context, target string) error
}

// measureCreates lets many connections create links one by one.
func (l *lab) measureCreates(ctx context.Context) (_ bench.Section, err error) {
	s, err := devsystem.Start(ctx, l.dir, "creates")
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	p, err := l.newPlain(ctx, s.State.DatabaseURL, l.o.Callers)
	if err != nil {
		return bench.Section{}, err
	}
	defer p.pool.Close()
	api, err := url.Parse(s.State.API)
	if err != nil {
		return bench.Section{}, fmt.Errorf("the API's address: %w", err)
	}
	var api64, plain64 []maker
	for range l.o.Callers {
		c, err := dial(ctx, api.Host, s.State.APIKey)
		if err != nil {
			return bench.Section{}, err
		}
		defer c.close()
		api64 = append(api64, c)
		plain64 = append(plain64, &single{p})
	}
	cases := []*creating{
		{name: plainSingles, makers: plain64, what: "the rows of the links alone, no changelog, each in a transaction of its own."},
		{name: overHTTP, makers: api64, what: "HTTP, JSON, the rules for targets, keys, the changelog; both edges follow meanwhile."},
	}
	var number atomic.Uint64
	const warmUp = 2
	for round := range l.o.Rounds + warmUp {
		for _, c := range cases {
			spent, err := used(s)
			if err != nil {
				return bench.Section{}, err
			}
			r, err := l.createRound(ctx, c.makers, &number)
			if err == nil {
				var cpu devsystem.Used
				cpu, err = spent()
				r.cpu, r.parts = perLink(cpu, r.links)
			}
			if err != nil {
				return bench.Section{}, fmt.Errorf("%s: %w", c.name, err)
			}
			if round >= warmUp {
				c.add(r)
				l.o.Log("round %d of %d: %-20s %6.0f/s, p50 %.1f ms, p99 %.1f ms", round-warmUp+1, l.o.Rounds, c.name, 1e6/r.perLink, r.p50, r.p99)
			}
		}
	}
	out := bench.Section{
		Title: fmt.Sprintf("Creating single links, %d connections", l.o.Callers),
		Settings: []bench.Setting{
			{Name: "rounds", Value: fmt.Sprintf("%d of %s for each case, in turns, after %d that are not counted", l.o.Rounds, l.o.Round, warmUp)},
			{Name: "links", Value: "minted codes, targets of 90 bytes on average; the client's work is in the figures"},
		},
	}
	for _, c := range cases {
		out.Cases = append(out.Cases, c.report())
	}
	return out, nil
}

// creating is a way to create links.
type creating struct {
	name, what string
	makers     []maker
	rounds     []created
	total      int64
}

// created is what a round has shown; times are per link.
type created struct {
	links             int64
	perLink, p50, p99 float64 // µs, ms, ms
	cpu               float64 // µs
	parts             map[string]float64
}

func (c *creating) add(r created) { c.rounds, c.total = append(c.rounds, r), c.total+r.links }

func (c *creating) report() bench.Case {
	measure := func(name string, compared bool, of func(created) float64) bench.Measure {
		m := bench.Measure{Name: name, Compared: compared}
		for _, r := range c.rounds {
			m.Rounds = append(m.Rounds, of(r))
		}
		return m
	}
	part := func(name string) bench.Measure {
		return measure(name, false, func(r created) float64 { return r.parts[name] })
	}
	return bench.Case{
		Name: c.name, What: c.what, Base: plainSingles, Requests: c.total,
		Measures: []bench.Measure{
			measure(linkTime, true, func(r created) float64 { return r.perLink }),
			measure(linkCPU, true, func(r created) float64 { return r.cpu }),
			part(cpuPostgres), part(cpuControl), part(cpuEdges), part(cpuClient),
			measure(linkRate, false, func(r created) float64 { return math.Round(1e6 / r.perLink) }),
			measure(p50, false, func(r created) float64 { return r.p50 }),
			measure(p99, false, func(r created) float64 { return r.p99 }),
		},
	}
}

func (l *lab) createRound(ctx context.Context, makers []maker, number *atomic.Uint64) (created, error) {
	errs := make([]error, len(makers))
	times := make([][]time.Duration, len(makers))
	start := time.Now()
	end := start.Add(l.o.Round)
	var wg sync.WaitGroup
	for i, m := range makers {
		wg.Go(func() {
			var target []byte
			at := time.Now()
			for more := true; more; more = at.Before(end) {
				target = l.targets.Append(target[:0], number.Add(1))
				if errs[i] = m.create(ctx, string(target)); errs[i] != nil {
					return
				}
				now := time.Now()
				times[i] = append(times[i], now.Sub(at))
				at = now
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	if err := errors.Join(errs...); err != nil {
		return created{}, err
	}
	all := slices.Concat(times...)
	return created{
		links: int64(len(all)), perLink: took.Seconds() * 1e6 / float64(len(all)),
		p50: quantile(all, 0.5), p99: quantile(all, 0.99),
	}, nil
}

// quantile gives a quantile in ms; times are sorted by it.
func quantile(times []time.Duration, q float64) float64 {
	slices.Sort(times)
	return float64(times[int(q*float64(len(times)-1))]) / 1e6
}

// single inserts rows of links.
type single struct{ p *plain }

var oneRow = rows(1, false)

func (s *single) create(ctx context.Context, target string) error {
	_, err := s.p.pool.Exec(ctx, oneRow, fmt.Sprintf("q%08d", s.p.next.Add(1)), target)
	if err != nil {
		return fmt.Errorf("plain INSERT: %w", err)
	}
	return nil
}

// wish is the body of a request.
func wish(target string) ([]byte, error) {
	return json.Marshal(struct {
		OriginalURL string `json:"original_url"`
	}{target})
}
