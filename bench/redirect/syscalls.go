//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"waypost/bench"
	"waypost/bench/corpus"
)

// Names of groups of calls.
const (
	callsReceive = "receive and send"
	callsRest    = "all others"
)

// moving are the calls that move requests and answers.
var moving = []string{"recvfrom", "read", "readv", "recvmsg", "sendto", "write", "writev", "sendmsg"}

// mostMoving is the goal for those of a redirect: one to receive, one to send, and now and then one for a batch of clicks.
const mostMoving = 2.1

// seldom is up to how many for a request are not shown by name.
const seldom = 0.001

// caller is a server whose system calls are counted.
type caller struct {
	name     string
	target   *target
	rounds   []calls
	requests []int64
}

// sysCalls counts what a redirect asks of the kernel.
func sysCalls(ctx context.Context, l *lab, links int) (_ bench.Section, err error) {
	bare, edge, err := l.startBoth(ctx, links)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, bare.stop(), edge.stop()) }()
	servers := []*caller{{name: "bare fasthttp", target: bare}, {name: "redirect", target: edge}}
	s := bench.Section{Title: fmt.Sprintf("System calls of a redirect, %s links, uniform", count(links)), Settings: l.settings(links)}
	order := slices.Clone(servers)
	for round := range l.o.Rounds + 1 {
		for _, c := range order {
			err := c.count(ctx, l, load{corpus.Uniform, links, corpus.Bare}, round > 0)
			if errors.Is(err, errCannotCount) && ctx.Err() == nil {
				l.o.Log("system calls are not measured: %v", err)
				s.Notes = append(s.Notes, "not measured: "+oneLine(err))
				return s, nil
			}
			if err != nil {
				return s, fmt.Errorf("%s: %w", c.name, err)
			}
		}
		slices.Reverse(order)
	}
	for _, name := range shown(servers) {
		s.Cases = append(s.Cases, callsCase(name, servers, func(call string) bool { return call == name }))
	}
	movingCase := callsCase(callsReceive, servers, func(call string) bool { return slices.Contains(moving, call) })
	movingCase.What = strings.Join(moving, ", ") + "; also those that find nothing to read yet, and those of the click journal."
	rest := callsCase(callsRest, servers, func(call string) bool { return !slices.Contains(moving, call) })
	s.Cases = append(s.Cases, movingCase, rest)
	s.Notes = append(s.Notes, "Numbers are calls for a request. perf reads them from counters of the kernel, so that the servers run as fast as they do without it; calls of less than a thousandth for a request are only in the last two rows.")
	if err := s.Compare(); err != nil {
		return s, err
	}
	s.Goals = []bench.Goal{{What: "calls that receive and send, for a redirect", Most: mostMoving, Figure: s.Find(callsReceive, "redirect").Summary.Median}}
	return s, nil
}

// count makes one round.
func (c *caller) count(ctx context.Context, l *lab, load load, noted bool) error {
	var requests int64
	counted, err := countCalls(ctx, c.target.pids[0], func() error {
		r, err := l.visit(ctx, c.target, load, l.o.Round)
		requests = r.Requests
		return err
	})
	if err != nil {
		return err
	}
	if noted {
		c.rounds, c.requests = append(c.rounds, counted), append(c.requests, requests)
		l.o.Log("%-16s %7d requests, %7d calls to receive, %7d to send, %6d others", c.name, requests,
			counted.sum(func(name string) bool { return slices.Contains(moving[:4], name) }),
			counted.sum(func(name string) bool { return slices.Contains(moving[4:], name) }),
			counted.sum(func(name string) bool { return !slices.Contains(moving, name) }))
	}
	return nil
}

func (c calls) sum(of func(name string) bool) (n int64) {
	for name, count := range c {
		if of(name) {
			n += count
		}
	}
	return n
}

// perRequest gives a figure for each round.
func (c *caller) perRequest(of func(name string) bool) (rounds []float64) {
	for i, counted := range c.rounds {
		rounds = append(rounds, float64(counted.sum(of))/float64(c.requests[i]))
	}
	return rounds
}

// shown gives the names of calls that are not too seldom, in the order of callNames.
func shown(servers []*caller) (names []string) {
	for _, name := range append(slices.Clone(callNames), otherCalls) {
		if slices.ContainsFunc(servers, func(c *caller) bool {
			return bench.Summarize(c.perRequest(func(call string) bool { return call == name })).Median >= seldom
		}) {
			names = append(names, name)
		}
	}
	return names
}

func callsCase(name string, servers []*caller, of func(call string) bool) bench.Case {
	c := bench.Case{Name: name}
	for _, server := range servers {
		c.Measures = append(c.Measures, bench.Measure{Name: server.name, Rounds: server.perRequest(of)})
	}
	return c
}
