//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
	"waypost/bench/wrk"
)

var kindsOfHeaders = []corpus.Headers{corpus.Bare, corpus.Browser}

// headersOf names the kinds of headers.
var headersOf = map[corpus.Headers]string{corpus.Bare: "wrk's headers", corpus.Browser: "a browser's headers"}

const (
	nameBare     = "bare fasthttp"
	nameRedirect = "redirect"
	nameBefore   = "redirect before"

	// deadEnd is an address at which no control plane takes clicks.
	deadEnd = "http://127.0.0.1:9/"

	measureCPU  = "CPU µs per request"
	measureRate = "requests per second"
	measureP50  = "p50 µs"
	measureP99  = "p99 µs"
	measureP999 = "p99.9 µs"
)

// contender is one case: a server and the requests that it gets.
type contender struct {
	name, what, base string
	target           *target
	access           corpus.Access
	links            int
	headers          corpus.Headers
	expect           expectation

	cpu, rate, p50, p99 []float64
}

// crowd holds the contenders of a section and their servers.
type crowd struct {
	cases []*contender
	notes []string
}

func (c *crowd) stop() (err error) {
	stopped := map[*target]bool{}
	for _, one := range c.cases {
		if !stopped[one.target] {
			stopped[one.target] = true
			err = errors.Join(err, one.target.stop())
		}
	}
	return err
}

// gather starts the servers that a section compares. With all it adds the server without
// timeouts, Redis, an edge without a control plane, and misses.
func (l *lab) gather(ctx context.Context, links int, access corpus.Access, all bool) (_ *crowd, err error) {
	c := &crowd{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	f, err := newFeed(l.o.Targets, links)
	if err != nil {
		return nil, err
	}
	constant := expectation{status: http.StatusFound, constant: constantTarget}
	found := expectation{status: http.StatusFound, location: func(dst []byte, n uint64) []byte { return f.location(dst, n, 0) }}
	add := func(name, what string, t *target, expect expectation) {
		c.cases = append(c.cases, &contender{name: name, what: what, base: nameBare, target: t, access: access, links: links, expect: expect})
	}
	bare, err := l.startServer(ctx, l.self, kindBare)
	if err != nil {
		return nil, err
	}
	add(nameBare, "fasthttp with the edge's settings, which answers every request with one constant 302.", bare, constant)
	if all {
		t, err := l.startServer(ctx, l.self, kindEndless)
		if err != nil {
			return nil, err
		}
		add("fasthttp without timeouts", "the same without read, write and idle timeouts, which no server can do without on the internet.", t, constant)
	}
	if access == corpus.Uniform && links <= million {
		t, expect, err := l.startNginx(ctx, links)
		if err != nil {
			c.notes = append(c.notes, fmt.Sprintf("nginx was not measured: %v", err))
		} else {
			add("nginx", "a map of the links, one worker, no log. It counts no clicks, and its keys ignore case.", t, expect)
		}
	}
	if all && links <= million {
		t, err := l.startRedis(ctx, links)
		if err != nil {
			c.notes = append(c.notes, fmt.Sprintf("Redis was not measured: %v", err))
		} else {
			add("fasthttp + Redis", "one GET to Redis for every request, on a pooled connection over a Unix socket; the CPU time of both. It counts no clicks.", t, found)
		}
	}
	if l.o.Before != "" {
		t, err := l.startEdge(ctx, edgeOptions{build: l.o.Before, links: links, ship: l.sink.url})
		if err != nil {
			return nil, err
		}
		add(nameBefore, "the redirect server of another build.", t, found)
	}
	edge, err := l.startEdge(ctx, edgeOptions{build: l.self, links: links, ship: l.sink.url})
	if err != nil {
		return nil, err
	}
	add(nameRedirect, "the edge's redirect server over its replica; every click is journaled, batched and shipped.", edge, found)
	if all {
		alone, err := l.startEdge(ctx, edgeOptions{build: l.self, links: links, ship: deadEnd})
		if err != nil {
			return nil, err
		}
		add("redirect, no control plane", "the same while no control plane takes the batches.", alone, found)
		add("miss", "codes of the right shape that no link has; the answer is 404 with a page.", edge, expectation{status: http.StatusNotFound})
		c.cases[len(c.cases)-1].access = corpus.Missing
	}
	return c, nil
}

// saturation measures the CPU of a request, and how long one takes when 64 connections
// ask as fast as they are answered.
func (l *lab) saturation(ctx context.Context, links int, access corpus.Access) (_ bench.Section, err error) {
	c, err := l.gather(ctx, links, access, access == corpus.Uniform)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	s, err := l.saturate(ctx, c, fmt.Sprintf("Redirects at saturation, %s links, %s", bench.Grouped(links), access))
	if err != nil {
		return s, err
	}
	most := 1.05
	if links > million {
		most = 1.20
	}
	for _, h := range kindsOfHeaders {
		s.AddRatioGoal(nameRedirect+", "+headersOf[h], measureCPU, most)
		s.AddRatioGoal(nameRedirect+", "+headersOf[h], measureP99, 2)
	}
	return s, nil
}

// saturate measures each case with both kinds of headers.
func (l *lab) saturate(ctx context.Context, c *crowd, title string) (bench.Section, error) {
	kinds := kindsOfHeaders
	if l.o.Try {
		kinds = kinds[:1]
	}
	var cases []*contender
	for i, h := range kinds {
		for _, one := range c.cases {
			of := *one
			of.headers, of.name, of.base = h, one.name+", "+headersOf[h], one.base+", "+headersOf[h]
			if i > 0 {
				of.what = ""
			}
			cases = append(cases, &of)
		}
	}
	if err := l.compete(ctx, cases); err != nil {
		return bench.Section{}, err
	}
	s := bench.Section{
		Title: title,
		Notes: append(c.notes,
			fmt.Sprintf("%d rounds of %s after one that is not counted; wrk, %d connections; the server has one processor, the client the others", l.o.Rounds, l.o.Round, connections)),
	}
	for _, one := range cases {
		s.Cases = append(s.Cases, bench.Case{Name: one.name, What: one.what, Base: one.base, Measures: []bench.Measure{
			{Name: measureCPU, Compared: true, Rounds: one.cpu},
			{Name: measureP50, Rounds: one.p50},
			{Name: measureP99, Compared: true, Rounds: one.p99},
			{Name: measureRate, Rounds: one.rate},
		}})
	}
	return s, nil
}

// compete lets the cases take turns, in the other order every second time. One round
// that is not counted goes first.
func (l *lab) compete(ctx context.Context, cases []*contender) error {
	for _, c := range cases {
		if err := c.check(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	order, warmUp := slices.Clone(cases), 1
	if l.o.Try {
		warmUp = 0
	}
	for round := range l.o.Rounds + warmUp {
		for _, c := range order {
			before, err := bench.CPUTime(c.target.pids...)
			if err != nil {
				return err
			}
			r, err := l.visit(ctx, c, l.o.Round)
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
			l.o.Logf("round %d of %d: %-46s %6.2f µs CPU, p99 %6.0f µs, %6.0f requests/s", round-warmUp+1, l.o.Rounds, c.name, cpu, micros(r.P99), r.PerSecond())
		}
		slices.Reverse(order)
	}
	return nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// visit runs wrk once. It draws as many codes as there can be requests, so that a code
// comes twice only by chance.
func (l *lab) visit(ctx context.Context, c *contender, duration time.Duration) (wrk.Result, error) {
	const perSecond = 250_000
	codes, err := corpus.Visits(rand.New(rand.NewPCG(rand.Uint64(), 1)), c.access, uint64(c.links), perSecond*int(duration.Seconds()))
	if err != nil {
		return wrk.Result{}, err
	}
	tail, err := c.headers.Tail()
	if err != nil {
		return wrk.Result{}, err
	}
	r, err := wrk.Run(ctx, wrk.Config{
		Addr: c.target.addr, Dir: l.dir, Codes: codes, CodeLength: corpus.CodeLength, Head: corpus.Head, Tail: tail,
		Connections: connections, Threads: 1, Duration: duration,
	})
	if err != nil {
		return r, err
	}
	failures := int64(0)
	if !c.access.Hits() {
		failures = r.Requests
	}
	switch {
	case r.Requests == 0:
		return r, errors.New("no request was answered")
	case r.Failed != failures:
		return r, fmt.Errorf("of %d requests %d were answered with 4xx or 5xx, and not %d", r.Requests, r.Failed, failures)
	case r.Broken > 0:
		return r, fmt.Errorf("%d connections or requests failed", r.Broken)
	}
	return r, nil
}
