//go:build linux

package main

import (
	"cmp"
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

const (
	nameBare     = "bare fasthttp"
	nameRedirect = "redirect"
	nameBefore   = "redirect before"

	measureCPU  = "CPU µs per request"
	measureRate = "requests per second"
	measureP50  = "p50 µs"
	measureP99  = "p99 µs"
)

// contender is one case: a server and the requests that it gets.
type contender struct {
	name, what, base string
	target           *target
	links            int
	url              func(n uint64) string // to which link n leads; nil: it is not checked
	head, tail       string                // of a request, around the generated code; "": the usual ones
	unknown          bool                  // its addresses name no link

	cpu, rate, p50, p99 []float64
}

// found returns the target of a link.
func (l *lab) found(n uint64) string { return string(l.targets.Append(nil, n)) }

// check compares the answers of a sample of the load's codes. wrk counts the status of
// all others.
func (c *contender) check(ctx context.Context) error {
	for range 100 {
		n := rand.Uint64N(uint64(c.links))
		if _, err := awaitAnswer(ctx, c.target.addr, string(corpus.AppendCode(nil, n)), c.url(n)); err != nil {
			return err
		}
	}
	return nil
}

// gather starts the servers that a section compares, and returns how to stop them.
func (l *lab) gather(ctx context.Context, links int) (cases []*contender, stop func() error, err error) {
	stop = func() (err error) {
		for _, c := range cases {
			err = errors.Join(err, c.target.stop())
		}
		return err
	}
	add := func(name, what string, t *target, url func(uint64) string) {
		cases = append(cases, &contender{name: name, what: what, base: nameBare, target: t, links: links, url: url})
	}
	t, err := l.startServer(l.self, kindBare)
	if err != nil {
		return nil, nil, err
	}
	add(nameBare, "fasthttp with the edge's settings, which answers every request with one constant 302.", t,
		func(uint64) string { return constantTarget })
	for _, one := range []struct{ build, name, what string }{
		{l.before, nameBefore, "the redirect server of another build."},
		{l.self, nameRedirect, "the edge's redirect server over its replica; every click is journaled, batched and shipped."},
	} {
		if one.build == "" {
			continue
		}
		if t, err = l.newEdgeWith(ctx, one.build, links); err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		add(one.name, one.what, t, l.found)
	}
	return cases, stop, nil
}

// saturation measures the CPU time and the duration of a request when 64 connections ask
// as fast as they are answered.
func (l *lab) saturation(ctx context.Context, links int) (s bench.Section, err error) {
	cases, stop, err := l.gather(ctx, links)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := l.compete(ctx, cases); err != nil {
		return s, err
	}
	s.Title = fmt.Sprintf("Redirects at saturation, %s links, uniform", bench.Grouped(links))
	s.Notes = []string{l.howSaturated("a browser's headers")}
	for _, one := range cases {
		s.Cases = append(s.Cases, bench.Case{Name: one.name, What: one.what, Base: one.base, Measures: []bench.Measure{
			{Name: measureCPU, Compared: true, Rounds: one.cpu},
			{Name: measureP50, Rounds: one.p50},
			{Name: measureP99, Compared: true, Rounds: one.p99},
			{Name: measureRate, Rounds: one.rate},
		}})
	}
	most := 1.05
	if links > million {
		most = 1.20
	}
	s.AddRatioGoal(nameRedirect, measureCPU, most)
	s.AddRatioGoal(nameRedirect, measureP99, 2)
	return s, nil
}

func (l *lab) howSaturated(headers string) string {
	return fmt.Sprintf("%d rounds of %s after one that is not counted; wrk, %d connections, %s; the server has one processor, the client the others",
		l.Rounds, l.round, wrk.Connections, headers)
}

// compete lets the cases take turns, in the other order every second time. One round
// that is not counted goes first.
func (l *lab) compete(ctx context.Context, cases []*contender) error {
	for _, c := range cases {
		if c.url == nil {
			continue
		}
		if err := c.check(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	order, warmUp := slices.Clone(cases), 1
	if l.Try {
		warmUp = 0
	}
	for round := range l.Rounds + warmUp {
		for _, c := range order {
			before, err := bench.CPUTime(c.target.pids...)
			if err != nil {
				return err
			}
			r, err := l.visit(ctx, c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			after, err := bench.CPUTime(c.target.pids...)
			if err != nil {
				return err
			}
			if round < warmUp {
				continue
			}
			cpu := micros(after.Since(before)) / float64(r.Requests)
			c.cpu, c.rate = append(c.cpu, cpu), append(c.rate, r.PerSecond())
			c.p50, c.p99 = append(c.p50, micros(r.P50)), append(c.p99, micros(r.P99))
			l.Logf("round %d of %d: %-46s %6.2f µs CPU, p99 %6.0f µs, %6.0f requests/s", round-warmUp+1, l.Rounds, c.name, cpu, micros(r.P99), r.PerSecond())
		}
		slices.Reverse(order)
	}
	return nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// visit runs wrk once. It draws as many codes as there can be requests, so that a code
// comes twice only by chance.
func (l *lab) visit(ctx context.Context, c *contender) (wrk.Result, error) {
	const perSecond = 250_000
	codes := corpus.Visits(uint64(c.links), perSecond*int(l.round.Seconds()))
	head, tail := cmp.Or(c.head, corpus.Head), cmp.Or(c.tail, corpus.Tail)
	r, err := wrk.Run(ctx, wrk.Config{Addr: c.target.addr, Dir: l.dir, Codes: codes, Head: head, Tail: tail, Duration: l.round})
	if c.unknown {
		r.Failed -= r.Requests
	}
	if err == nil && (r.Requests == 0 || r.Failed != 0 || r.Broken > 0) {
		err = fmt.Errorf("of %d requests %d were answered with 4xx or 5xx, and %d broke off", r.Requests, r.Failed, r.Broken)
	}
	return r, err
}
