//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"waypost/bench"
	"waypost/bench/corpus"
)

// headersOf names the kinds of headers.
var headersOf = map[corpus.Headers]string{corpus.Bare: "wrk's headers", corpus.Browser: "a browser's headers"}

const (
	whatBare    = "fasthttp with the edge's settings, which answers every request with one constant 302."
	whatEndless = "the same without read, write and idle timeouts, with which no server can face the internet."
	whatEdge    = "the edge's redirect server over its replica, every click journaled."
)

// bareCase and edgeCase are what every comparison holds.
func bareCase(t *target, load load) *contender {
	return &contender{
		name: "bare fasthttp, " + headersOf[load.headers], target: t, load: load,
		expect: expectation{status: 302, constant: constantTarget},
	}
}

func (l *lab) edgeCase(t *target, load load) (*contender, error) {
	f, err := newFeed(l.o.Targets, load.links)
	return &contender{
		name: "redirect, " + headersOf[load.headers], base: "bare fasthttp, " + headersOf[load.headers], target: t, load: load,
		expect: expectation{status: 302, location: func(dst []byte, n uint64) []byte { return f.location(dst, n, 0) }},
	}, err
}

func hitsUniform(ctx context.Context, l *lab, links int) (bench.Section, error) {
	return l.hits(ctx, links, corpus.Uniform, "every link alike")
}

func hitsZipf(ctx context.Context, l *lab, links int) (bench.Section, error) {
	return l.hits(ctx, links, corpus.Zipfian, "Zipf(1.0)")
}

// mostOverBare is the goal for the CPU time of a redirect over that of bare fasthttp.
func mostOverBare(links int) float64 {
	if links > million {
		return 1.20
	}
	return 1.15
}

// hits compares redirects with the bare server, with both kinds of headers.
func (l *lab) hits(ctx context.Context, links int, access corpus.Access, how string) (_ bench.Section, err error) {
	bare, edge, err := l.startBoth(ctx, links)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, bare.stop(), edge.stop()) }()
	endless, err := l.startEndless(ctx)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, endless.stop()) }()
	var cases []*contender
	for _, h := range []corpus.Headers{corpus.Bare, corpus.Browser} {
		load := load{access, links, h}
		redirect, err := l.edgeCase(edge, load)
		if err != nil {
			return bench.Section{}, err
		}
		base := bareCase(bare, load)
		without := *base
		without.name, without.base, without.target = "fasthttp without timeouts, "+headersOf[h], base.name, endless
		cases = append(cases, base, redirect, &without)
	}
	cases[0].what, cases[1].what, cases[2].what = whatBare, whatEdge, whatEndless
	uncounted, err := l.startUncounted(ctx, links)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, uncounted.stop()) }()
	alone := *cases[1]
	alone.name, alone.what, alone.target = "redirect, not counted, "+headersOf[corpus.Bare], "the same without a journal, to tell what a click costs.", uncounted
	cases = append(cases, &alone)
	if err := l.compare(ctx, cases); err != nil {
		return bench.Section{}, err
	}
	s, err := l.report(fmt.Sprintf("CPU of a redirect, %s links, %s", count(links), how), links, cases)
	for _, h := range []corpus.Headers{corpus.Bare, corpus.Browser} {
		goal(&s, "redirect, "+headersOf[h], measureCPU, "CPU over bare fasthttp, "+headersOf[h], mostOverBare(links))
	}
	for i := 0; i+2 < len(cases); i += 3 {
		s.Goals = append(s.Goals, bench.Goal{
			What: "CPU over fasthttp without timeouts, " + headersOf[cases[i].load.headers], Most: mostOverBare(links), Figure: overEach(cases[i+1].cpu, cases[i+2].cpu),
		})
	}
	return s, err
}

// overEach is the median of the ratios of rounds.
func overEach(of, over []float64) float64 {
	ratios := make([]float64, min(len(of), len(over)))
	for i := range ratios {
		ratios[i] = of[i] / over[i]
	}
	return bench.Summarize(ratios).Median
}

func (l *lab) startBoth(ctx context.Context, links int) (bare, edge *target, err error) {
	if edge, err = l.startEdge(ctx, links); err != nil {
		return nil, nil, err
	}
	if err = edge.loaded(ctx); err == nil {
		bare, err = l.startBare(ctx)
	}
	if err != nil {
		return nil, nil, errors.Join(err, edge.stop())
	}
	return bare, edge, nil
}

// misses compares codes that no link has with those of links.
func misses(ctx context.Context, l *lab, links int) (_ bench.Section, err error) {
	bare, edge, err := l.startBoth(ctx, links)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, bare.stop(), edge.stop()) }()
	var cases []*contender
	for _, h := range []corpus.Headers{corpus.Bare, corpus.Browser} {
		hit, err := l.edgeCase(edge, load{corpus.Uniform, links, h})
		if err != nil {
			return bench.Section{}, err
		}
		hit.base = "" // hits are what misses are compared with here
		miss := &contender{
			name: "miss, " + headersOf[h], base: hit.name, target: edge, load: load{corpus.Missing, links, h},
			expect: expectation{status: 404},
		}
		cases = append(cases, hit, miss)
	}
	over := bareCase(bare, cases[0].load)
	over.base = cases[0].name
	cases = append(cases, over)
	cases[0].what, cases[1].what, over.what = whatEdge, "the same, asked for codes of the right shape that no link has; it answers 404 with a page.", whatBare
	if err := l.compare(ctx, cases); err != nil {
		return bench.Section{}, err
	}
	s, err := l.report(fmt.Sprintf("CPU of a miss, %s links", count(links)), links, cases)
	for _, h := range []corpus.Headers{corpus.Bare, corpus.Browser} {
		goal(&s, "miss, "+headersOf[h], measureCPU, "CPU of a miss over that of a hit, "+headersOf[h], 1.00)
	}
	return s, err
}

// count writes a number with commas.
func count(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", count(n/1000), n%1000)
}
