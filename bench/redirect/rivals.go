//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"waypost/bench"
	"waypost/bench/corpus"
)

// rivals compares the edge with what else answers redirects, with wrk's headers.
func rivals(ctx context.Context, l *lab, links int) (_ bench.Section, err error) {
	var (
		load    = load{corpus.Uniform, links, corpus.Bare}
		targets []*target
		cases   []*contender
		notes   []string
	)
	defer func() {
		for _, t := range targets {
			err = errors.Join(err, t.stop())
		}
	}()
	add := func(t *target, c *contender, what string) {
		c.target, c.what, c.load.access, c.load.headers = t, what, load.access, load.headers
		targets, cases = append(targets, t), append(cases, c)
	}

	bare, edge, err := l.startBoth(ctx, links)
	if err != nil {
		return bench.Section{}, err
	}
	redirect, err := l.edgeCase(edge, load)
	if err != nil {
		return bench.Section{}, errors.Join(err, bare.stop(), edge.stop())
	}
	base := bareCase(bare, load)
	base.name, redirect.name, redirect.base = "bare fasthttp", "redirect", "bare fasthttp"
	add(bare, base, whatBare)
	add(edge, redirect, whatEdge)

	web, err := l.startSelf(ctx, "-kind", kindNetHTTP)
	if err != nil {
		return bench.Section{}, err
	}
	add(web, &contender{name: "net/http", base: base.name, load: load, expect: base.expect}, "Go's net/http, which answers every request with one constant 302.")

	for _, rival := range []struct {
		name, what string
		start      func(context.Context, *rivalry) (*target, error)
	}{
		{"nginx", "nginx with a map of the links, 2 workers, no log. It counts no clicks, and its keys do not tell upper from lower case.", l.startNginx},
		{"fasthttp + Redis", "fasthttp that sends one GET to Redis for every request, on a pooled connection over a Unix socket; the CPU time of both. It counts no clicks.", l.startRedis},
		{"golink", "tailscale/golink in its development mode, on SQLite.", l.startGolink},
	} {
		r := &rivalry{links: links, expect: redirect.expect}
		l.o.Log("starting %s", rival.name)
		t, err := rival.start(ctx, r)
		if err != nil {
			if ctx.Err() != nil {
				return bench.Section{}, err
			}
			l.o.Log("%s is not measured: %v", rival.name, err)
			notes = append(notes, fmt.Sprintf("**%s** was not measured: %s", rival.name, oneLine(err)))
			continue
		}
		own := load
		own.links = r.links
		add(t, &contender{name: rival.name, base: base.name, load: own, expect: r.expect}, rival.what)
		notes = append(notes, r.notes...)
	}

	if err := l.compare(ctx, cases); err != nil {
		return bench.Section{}, err
	}
	s, err := l.report(fmt.Sprintf("CPU of a redirect beside others, %s links, uniform", count(links)), links, cases)
	s.Notes = notes
	if nginx := s.Find("nginx", measureCPU); nginx != nil && nginx.Ratio != nil {
		goal(&s, redirect.name, measureCPU, "CPU over bare fasthttp, against that of nginx", nginx.Ratio.Median)
	}
	return s, err
}

// rivalry is what a rival is started with, and what it makes of it.
type rivalry struct {
	links  int // fewer, if it cannot have as many
	expect expectation
	notes  []string
}
