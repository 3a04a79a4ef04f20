//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"waypost/bench"
	"waypost/bench/corpus"
)

// mostForClicks is the goal for the CPU time of a redirect whose click is recorded over that of one
// whose click is not.
const mostForClicks = 1.04

// clickCost compares redirects that are counted with those of an edge without a journal, with
// both kinds of headers and accesses. Many short rounds tell more of a small difference than few long ones.
func clickCost(ctx context.Context, l *lab, links int) (_ bench.Section, err error) {
	counted, err := l.startEdge(ctx, links)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, counted.stop()) }()
	if err := counted.loaded(ctx); err != nil {
		return bench.Section{}, err
	}
	uncounted, err := l.startUncounted(ctx, links)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, uncounted.stop()) }()
	var cases []*contender
	for _, access := range []corpus.Access{corpus.Uniform, corpus.Zipfian} {
		for _, h := range []corpus.Headers{corpus.Bare, corpus.Browser} {
			with, err := l.edgeCase(counted, load{access, links, h})
			if err != nil {
				return bench.Section{}, err
			}
			how := map[corpus.Access]string{corpus.Uniform: "uniform, ", corpus.Zipfian: "Zipf(1.0), "}[access] + headersOf[h]
			without := *with
			without.name, without.base, without.target = "not counted, "+how, "", uncounted
			with.name, with.base = "counted, "+how, without.name
			cases = append(cases, &without, with)
		}
	}
	cases[0].what, cases[1].what = "the edge's redirect server without a journal.", whatEdge
	if err := l.compare(ctx, cases); err != nil {
		return bench.Section{}, err
	}
	s, err := l.report(fmt.Sprintf("CPU of counting a click, %s links", count(links)), links, cases)
	for _, c := range cases {
		if c.base != "" {
			goal(&s, c.name, measureCPU, "CPU over redirects that are not counted, "+c.name[len("counted, "):], mostForClicks)
		}
	}
	return s, err
}
