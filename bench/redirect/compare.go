//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
	"waypost/bench/wrk"
)

// contender is one case of a comparison: a server and the load that it gets.
type contender struct {
	name, what, base string
	target           *target
	load             load
	expect           expectation

	cpu, rate []float64 // microseconds per request, requests per second
	requests  int64
}

// load is what a client asks for.
type load struct {
	access  corpus.Access
	links   int
	headers corpus.Headers
}

// Names of measures.
const (
	measureCPU  = "CPU µs per request"
	measureRate = "requests per second"
)

// compare lets the cases take turns, in the other order every second time. One
// round that is not counted goes first.
func (l *lab) compare(ctx context.Context, cases []*contender) error {
	for _, c := range cases {
		if err := c.check(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	order := slices.Clone(cases)
	for round := range l.o.Rounds + 1 {
		for _, c := range order {
			before, err := c.target.cpu()
			if err != nil {
				return err
			}
			r, err := l.visit(ctx, c.target, c.load, l.o.Round)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			after, err := c.target.cpu()
			if err != nil {
				return err
			}
			if round == 0 {
				continue
			}
			us := float64((after - before).Nanoseconds()) / 1e3 / float64(r.Requests)
			c.cpu, c.rate, c.requests = append(c.cpu, us), append(c.rate, r.PerSecond()), c.requests+r.Requests
			l.o.Log("round %d of %d: %-42s %6.2f µs, %6.0f requests/s", round, l.o.Rounds, c.name, us, r.PerSecond())
		}
		slices.Reverse(order)
	}
	return nil
}

// visit runs wrk once. It draws as many codes as there can be requests, so that none
// comes twice but by chance.
func (l *lab) visit(ctx context.Context, t *target, load load, duration time.Duration) (wrk.Result, error) {
	const perSecond = 250_000
	codes, err := corpus.Visits(rand.New(rand.NewPCG(rand.Uint64(), 1)), load.access, uint64(load.links), perSecond*int(duration.Seconds()))
	if err != nil {
		return wrk.Result{}, err
	}
	tail, err := load.headers.Tail()
	if err != nil {
		return wrk.Result{}, err
	}
	r, err := wrk.Run(ctx, wrk.Config{
		Addr: t.addr, Dir: l.dir, Codes: codes, CodeLength: corpus.CodeLength, Head: corpus.Head, Tail: tail,
		Connections: l.o.Connections, Threads: l.o.Threads, Duration: duration,
	})
	if err != nil {
		return r, err
	}
	failures := int64(0)
	if !load.access.Hits() {
		failures = r.Requests
	}
	switch {
	case r.Requests == 0:
		return r, errors.New("no request was answered")
	case r.Failed != failures:
		return r, fmt.Errorf("of %d requests %d were answered with 4xx or 5xx, and not %d", r.Requests, r.Failed, failures)
	case r.Broken > 0:
		return r, fmt.Errorf("%d connections or requests came to nothing", r.Broken)
	}
	return r, nil
}

// report makes the section of cases that were compared.
func (l *lab) report(title string, links int, cases []*contender) (bench.Section, error) {
	s := bench.Section{Title: title, Settings: l.settings(links)}
	for _, c := range cases {
		s.Cases = append(s.Cases, bench.Case{Name: c.name, What: c.what, Base: c.base, Requests: c.requests, Measures: []bench.Measure{
			{Name: measureCPU, Compared: true, Rounds: c.cpu},
			{Name: measureRate, Rounds: c.rate},
		}})
	}
	return s, s.Compare()
}

func (l *lab) settings(links int) []bench.Setting {
	return []bench.Setting{
		{Name: "links", Value: count(links)},
		{Name: "rounds", Value: fmt.Sprintf("%d of %s for each case, after one that is not counted", l.o.Rounds, l.o.Round)},
		{Name: "client", Value: fmt.Sprintf("wrk, %d threads, %d keep-alive connections over loopback", l.o.Threads, l.o.Connections)},
	}
}

// goal compares the median ratio of a case with a bound.
func goal(s *bench.Section, name, measure, what string, most float64) {
	if m := s.Find(name, measure); m != nil && m.Ratio != nil {
		s.Goals = append(s.Goals, bench.Goal{What: what, Most: most, Figure: m.Ratio.Median})
	}
}
