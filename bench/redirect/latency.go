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
	"waypost/bench/openloop"
)

const (
	// settling is the pause before a round, in which the clicks of the round before are
	// batched and shipped.
	settling = 700 * time.Millisecond

	// pacedConnections are enough that requests seldom wait for one.
	pacedConnections = 256
)

// paced is a case at a fixed rate of requests.
type paced struct {
	name, what, base string
	target           *target
	links            int
	rate             float64
	again            bool // the rate is set again before each round
	round            time.Duration
	during           []string // a command that the server runs meanwhile; may be empty

	rates, p50, p99, p999, late []float64
}

// halfLoad measures how long answers take at half the rate of saturation.
func (l *lab) halfLoad(ctx context.Context, links int) (_ bench.Section, err error) {
	c, err := l.gather(ctx, links, corpus.Uniform, false)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	var cases []*paced
	for _, one := range c.cases {
		p := &paced{name: one.name, what: one.what, base: one.base, target: one.target, links: links, round: time.Second}
		if err := l.setRate(ctx, p, 3); err != nil {
			return bench.Section{}, err
		}
		cases = append(cases, p)
	}
	s, err := l.pace(ctx, fmt.Sprintf("Latency at half load, %s links, uniform", bench.Grouped(links)), 2*l.o.Rounds, cases)
	s.Notes = append(s.Notes, c.notes...)
	s.AddGoal(nameRedirect, measureP99, 500)
	s.AddRatioGoal(nameRedirect, measureP99, 1.20)
	return s, err
}

// atWork measures the same while the edge applies changes and installs a snapshot.
func (l *lab) atWork(ctx context.Context, links int) (_ bench.Section, err error) {
	builds := []string{l.self}
	if l.o.Before != "" {
		builds = append(builds, l.o.Before)
	}
	round := 3 * time.Second
	if l.o.Try {
		round = time.Second
	}
	var cases []*paced
	for i, build := range builds {
		source, err1 := l.startSource(ctx, build, links)
		if err1 != nil {
			return bench.Section{}, err1
		}
		defer func() { err = errors.Join(err, source.stop()) }()
		edge, err1 := l.startEdge(ctx, edgeOptions{build: build, links: links, ship: l.sink.url, source: "http://" + source.addr})
		if err1 != nil {
			return bench.Section{}, err1
		}
		defer func() { err = errors.Join(err, edge.stop()) }()
		if _, err := edge.ask("snapshots", "1ms"); err != nil { // the source keeps what it makes
			return bench.Section{}, fmt.Errorf("the first snapshot: %w", err)
		}
		// A machine that has become slower meanwhile would be overloaded by the work.
		quiet := &paced{name: "quiet", what: "nothing but redirects.", target: edge, links: links, round: round, again: true}
		changes, snapshot := *quiet, *quiet
		changes.name, changes.what, changes.base = "2,000 changes/s", "links get new targets, 20 in a transaction, evenly spaced.", quiet.name
		changes.during = []string{"changes", "2000", round.String()}
		snapshot.name, snapshot.what, snapshot.base = "snapshot", "a snapshot comes over HTTP from another process and is installed.", quiet.name
		snapshot.during = []string{"snapshots", "1s"}
		of := []*paced{quiet, &changes, &snapshot}
		if i > 0 {
			quiet.base = quiet.name
			for _, p := range of {
				p.name, p.base = p.name+", before", p.name
			}
		}
		cases = append(cases, of...)
	}
	s, err := l.pace(ctx, fmt.Sprintf("Latency at half load while the edge is at work, %s links, uniform", bench.Grouped(links)), l.o.Rounds, cases)
	for _, c := range cases[1:3] {
		s.AddRatioGoal(c.name, measureP99, 2)
	}
	return s, err
}

// setRate sets the rate of a case to half the rate at which this client is answered when
// it asks for far more, median of some runs.
func (l *lab) setRate(ctx context.Context, c *paced, runs int) error {
	tooMany := 250_000.0
	if l.o.Try {
		runs, tooMany = 1, 2000
	}
	var rates []float64
	for range runs {
		r, err := l.openLoop(ctx, c, tooMany, time.Second)
		if err != nil {
			return fmt.Errorf("find the saturation rate of %s: %w", c.name, err)
		}
		rates = append(rates, float64(r.Requests())/r.Took().Seconds())
	}
	c.rate = bench.Median(rates) / 2
	return nil
}

// pace lets the cases take turns.
func (l *lab) pace(ctx context.Context, title string, rounds int, cases []*paced) (bench.Section, error) {
	order := slices.Clone(cases)
	for range rounds {
		for _, c := range order {
			if err := l.paceRound(ctx, c); err != nil {
				return bench.Section{}, fmt.Errorf("%s: %w", c.name, err)
			}
		}
		slices.Reverse(order)
	}
	rate := "median of 3 runs"
	if cases[0].again {
		rate = "just before each round"
	}
	s := bench.Section{Title: title, Notes: []string{
		fmt.Sprintf("%d rounds of %s or more; a browser's headers, %d connections; the server has one processor, the client the others", rounds, cases[0].round, pacedConnections),
		"rate: half of the rate at which the same client is answered when it asks for far more, " + rate,
	}}
	for _, c := range cases {
		s.Cases = append(s.Cases, bench.Case{Name: c.name, What: c.what, Base: c.base, Measures: []bench.Measure{
			{Name: measureRate, Rounds: c.rates},
			{Name: measureP50, Rounds: c.p50},
			{Name: measureP99, Compared: true, Rounds: c.p99},
			{Name: measureP999, Rounds: c.p999},
			{Name: "p99 µs before sending", Rounds: c.late},
		}})
	}
	return s, nil
}

// paceRound sends requests at the fixed rate, for one round or for as long as the server
// runs its command.
func (l *lab) paceRound(ctx context.Context, c *paced) error {
	if c.again {
		if err := l.setRate(ctx, c, 1); err != nil {
			return err
		}
	}
	settled := time.NewTimer(settling)
	defer settled.Stop()
	select {
	case <-settled.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	over := make(chan error, 1)
	if len(c.during) == 0 {
		over <- nil
	} else {
		if err := c.target.begin(c.during...); err != nil {
			return err
		}
		go func() {
			_, err := c.target.finish()
			over <- err
		}()
	}
	total := &openloop.Result{}
	for ended := false; !ended; {
		r, err := l.openLoop(ctx, c, c.rate, c.round)
		if err != nil {
			return err
		}
		total.Add(r)
		select {
		case err := <-over:
			if err != nil {
				return err
			}
			ended = true
		default:
		}
	}
	c.rates = append(c.rates, c.rate)
	c.p50, c.p99 = append(c.p50, micros(total.Quantile(0.5))), append(c.p99, micros(total.Quantile(0.99)))
	c.p999, c.late = append(c.p999, micros(total.Quantile(0.999))), append(c.late, micros(total.Late(0.99)))
	l.o.Logf("%-24s %6.0f requests/s: p50 %.0f µs, p99 %.0f µs, p99.9 %.0f µs, before sending p99 %.0f µs", c.name, c.rate,
		micros(total.Quantile(0.5)), micros(total.Quantile(0.99)), micros(total.Quantile(0.999)), micros(total.Late(0.99)))
	return nil
}

func (l *lab) openLoop(ctx context.Context, c *paced, rate float64, round time.Duration) (*openloop.Result, error) {
	requests := int(rate * round.Seconds())
	codes, err := corpus.Visits(rand.New(rand.NewPCG(rand.Uint64(), 1)), corpus.Uniform, uint64(c.links), requests)
	if err != nil {
		return nil, err
	}
	tail, err := corpus.Browser.Tail()
	if err != nil {
		return nil, err
	}
	return openloop.Run(ctx, openloop.Config{
		Addr: c.target.addr, Rate: rate, Connections: pacedConnections, Duration: round, Drain: time.Minute,
		Status: 302, Awake: l.processors.Apart(),
		Request: func(dst []byte, n int) []byte {
			at := n % requests * corpus.CodeLength
			return append(append(append(dst, corpus.Head...), codes[at:at+corpus.CodeLength]...), tail...)
		},
	})
}
