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

// Names of measures of latency.
const (
	measureP50  = "p50 µs"
	measureP99  = "p99 µs"
	measureP999 = "p99.9 µs"
	measureLate = "p99 µs before sending"
	measureSent = "requests per second" // a fixed rate
)

const (
	// Rounds are short, so that what else the machine does meets the cases alike.
	latencyRounds = 3 // for one of wrk
	latencyRound  = time.Second

	// settling is for how long nobody asks before a round, so that clicks of the one before are in a batch and shipped.
	settling = 700 * time.Millisecond

	// pausesFor is for how long the machine's own pauses are looked for.
	pausesFor = 10 * time.Second

	// pacedConnections are so many that requests seldom wait for one.
	pacedConnections = 256
)

// paced is one case of a measurement of latency.
type paced struct {
	name, what, base string
	target           *target
	access           corpus.Access
	rate             float64
	round            time.Duration
	during           []string // a command that the server runs meanwhile; none: nothing

	p50, p99, p999, late []float64
	requests             int64
	answers              []string // of the command
}

func latencyUniform(ctx context.Context, l *lab, links int) (bench.Section, error) {
	return l.latency(ctx, links, corpus.Uniform, "uniform")
}

func latencyZipf(ctx context.Context, l *lab, links int) (bench.Section, error) {
	return l.latency(ctx, links, corpus.Zipfian, "Zipf(1.0)")
}

// latency compares how long answers take at half of what the same setup can do.
func (l *lab) latency(ctx context.Context, links int, access corpus.Access, how string) (_ bench.Section, err error) {
	together, err := l.setApart()
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, together()) }()
	bare, edge, err := l.startBoth(ctx, links)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, bare.stop(), edge.stop()) }()
	cases := []*paced{
		{name: "bare fasthttp", what: whatBare, target: bare, access: access, round: latencyRound},
		{name: "redirect", what: whatEdge, base: "bare fasthttp", target: edge, access: access, round: latencyRound},
	}
	for _, c := range cases {
		if c.rate, err = l.halfRate(ctx, c.target, access, links); err != nil {
			return bench.Section{}, err
		}
	}
	if links <= million && access == corpus.Uniform { // which is enough to tell what counting costs
		alone, err1 := l.startUncounted(ctx, links)
		defer func() { err = errors.Join(err, alone.stop()) }()
		if err1 != nil {
			return bench.Section{}, err1
		}
		cases = append(cases,
			&paced{name: "not counted", what: "the same without a journal.", base: "redirect", target: alone, access: access, rate: cases[1].rate, round: latencyRound})
	}
	rounds := latencyRounds * l.o.Rounds
	order := slices.Clone(cases)
	for range rounds {
		for _, c := range order {
			if err := l.pace(ctx, c, links); err != nil {
				return bench.Section{}, err
			}
		}
		slices.Reverse(order)
	}
	s, err := l.pacedSection(fmt.Sprintf("Latency at half load, %s links, %s", count(links), how), links, rounds, cases)
	if m := s.Find("redirect", measureP99); m != nil {
		s.Goals = append(s.Goals, bench.Goal{What: "p99 of a redirect in µs", Most: 500, Figure: m.Summary.Median})
	}
	goal(&s, "redirect", measureP99, "p99 of a redirect over that of bare fasthttp", 1.20)
	return s, err
}

// halfRate is half of the rate at which the client is answered when it asks for far more than that. Another client would
// find another rate: what a request costs the server depends on how many come together.
func (l *lab) halfRate(ctx context.Context, t *target, access corpus.Access, links int) (float64, error) {
	const runs, tooMany = 3, 250_000
	var rates []float64
	for range runs {
		r, err := l.openLoop(ctx, &paced{target: t, access: access, rate: tooMany, round: latencyRound}, links)
		if err != nil {
			return 0, fmt.Errorf("finding the saturation rate: %w", err)
		}
		rates = append(rates, float64(r.Requests())/r.Took().Seconds())
	}
	return bench.Summarize(rates).Median / 2, nil
}

// pace makes one round: requests at the fixed rate, for some time and as long as the
// server is at what it does meanwhile.
func (l *lab) pace(ctx context.Context, c *paced, links int) error {
	settled := time.NewTimer(settling)
	defer settled.Stop()
	select {
	case <-settled.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	over := make(chan error, 1)
	answer := ""
	if len(c.during) > 0 {
		if err := c.target.begin(c.during...); err != nil {
			return err
		}
		go func() {
			var err error
			answer, err = c.target.finish()
			over <- err
		}()
	} else {
		over <- nil
	}
	total := &openloop.Result{}
	for ended := false; !ended; {
		r, err := l.openLoop(ctx, c, links)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		total.Add(r)
		select {
		case err := <-over:
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			ended = true
		default:
		}
	}
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	c.p50, c.p99, c.p999 = append(c.p50, us(total.Quantile(0.5))), append(c.p99, us(total.Quantile(0.99))), append(c.p999, us(total.Quantile(0.999)))
	c.late = append(c.late, us(total.Late(0.99)))
	c.requests += int64(total.Requests())
	if answer != "" {
		c.answers = append(c.answers, answer)
	}
	l.o.Log("%-32s %6.0f requests/s: p50 %.0f µs, p99 %.0f µs, p99.9 %.0f µs, before sending p99 %.0f µs", c.name, c.rate,
		us(total.Quantile(0.5)), us(total.Quantile(0.99)), us(total.Quantile(0.999)), us(total.Late(0.99)))
	return nil
}

func (l *lab) openLoop(ctx context.Context, c *paced, links int) (*openloop.Result, error) {
	round := c.round
	if l.o.Try {
		round = min(round, time.Second)
	}
	requests := int(c.rate * round.Seconds())
	codes, err := corpus.Visits(rand.New(rand.NewPCG(rand.Uint64(), 1)), c.access, uint64(links), requests)
	if err != nil {
		return nil, err
	}
	tail, err := corpus.Browser.Tail()
	if err != nil {
		return nil, err
	}
	return openloop.Run(ctx, openloop.Config{
		Addr: c.target.addr, Rate: c.rate, Connections: pacedConnections, Duration: round, Drain: time.Minute, Status: 302, Awake: l.apart.Apart(),
		Request: func(dst []byte, n int) []byte {
			at := n % requests * corpus.CodeLength
			return append(append(append(dst, corpus.Head...), codes[at:at+corpus.CodeLength]...), tail...)
		},
	})
}

func (l *lab) pacedSection(title string, links, rounds int, cases []*paced) (bench.Section, error) {
	server, client, err := l.apart.Pauses(pausesFor)
	if err != nil {
		return bench.Section{}, err
	}
	s := bench.Section{Title: title, Settings: []bench.Setting{
		{Name: "links", Value: count(links)},
		{Name: "rounds", Value: fmt.Sprintf("%d for each case, of %s or more", rounds, cases[0].round)},
		{Name: "client", Value: fmt.Sprintf("one thread that never sleeps, requests evenly spaced in time, a browser's headers, %d keep-alive connections over loopback", pacedConnections)},
		{Name: "processors", Value: "the server has one half of them, all others the other"},
		{Name: "pauses of the machine's own", Value: fmt.Sprintf("a thread that only reads the clock, on each half at once, for %s after the rounds, was kept from that for more than 0.5 ms at a time: for %s, in the server's half, for %s, in the others'", pausesFor, server, client)},
		{Name: "rate", Value: "half of what this client gets from the same server when it asks for far more, median of 3 runs"},
	}}
	for _, c := range cases {
		s.Cases = append(s.Cases, bench.Case{Name: c.name, What: c.what, Base: c.base, Requests: c.requests, Measures: []bench.Measure{
			{Name: measureSent, Rounds: []float64{c.rate}},
			{Name: measureP50, Rounds: c.p50},
			{Name: measureP99, Compared: true, Rounds: c.p99},
			{Name: measureP999, Rounds: c.p999},
			{Name: measureLate, Rounds: c.late},
		}})
	}
	return s, s.Compare()
}
