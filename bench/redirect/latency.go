//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

	// pacedConnections is large enough that requests seldom wait for a connection.
	pacedConnections = 256
)

// paced is a case at a fixed rate of requests.
type paced struct {
	*contender
	speed float64 // requests per second

	rates, p50, p99 []float64
}

// halfLoad measures the duration of answers at half the rate of saturation.
func (l *lab) halfLoad(ctx context.Context, links int) (s bench.Section, err error) {
	gathered, stop, err := l.gather(ctx, links)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var cases []*paced
	for _, one := range gathered {
		cases = append(cases, &paced{contender: one})
	}
	rounds := 2 * l.Rounds
	if err := l.pace(ctx, rounds, cases); err != nil {
		return s, err
	}
	s.Title = fmt.Sprintf("Latency at half load, %s links, uniform", bench.Grouped(links))
	s.Notes = []string{
		fmt.Sprintf("%d rounds of a second; a browser's headers, %d connections; the server has one processor, the client the others", rounds, pacedConnections),
		"rate: half of the rate at which the same client is answered when it asks for far more, median of 3 runs",
	}
	for _, c := range cases {
		s.Cases = append(s.Cases, bench.Case{Name: c.name, What: c.what, Base: c.base, Measures: []bench.Measure{
			{Name: measureRate, Rounds: c.rates},
			{Name: measureP50, Rounds: c.p50},
			{Name: measureP99, Compared: true, Rounds: c.p99},
		}})
	}
	s.AddGoal(nameRedirect, measureP99, 500)
	s.AddRatioGoal(nameRedirect, measureP99, 1.20)
	return s, nil
}

// pace sets the rate of each case to half the rate at which this client is answered when
// it asks for far more, the median of some runs, and then lets the cases take turns.
func (l *lab) pace(ctx context.Context, rounds int, cases []*paced) error {
	runs, tooMany := 3, 250_000.0
	if l.Try {
		runs, tooMany = 1, 2000
	}
	for _, c := range cases {
		var rates []float64
		for range runs {
			r, err := l.openLoop(ctx, c, tooMany)
			if err != nil {
				return fmt.Errorf("find the saturation rate of %s: %w", c.name, err)
			}
			rates = append(rates, float64(len(r.Waits))/r.Took.Seconds())
		}
		c.speed = bench.Median(rates) / 2
	}
	order := slices.Clone(cases)
	for range rounds {
		for _, c := range order {
			time.Sleep(settling)
			r, err := l.openLoop(ctx, c, c.speed)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			at := func(part float64) float64 { return micros(bench.Quantile(r.Waits, part)) }
			p50, p99 := at(0.5), at(0.99)
			c.rates, c.p50, c.p99 = append(c.rates, c.speed), append(c.p50, p50), append(c.p99, p99)
			l.Logf("%-24s %6.0f requests/s: p50 %.0f µs, p99 %.0f µs", c.name, c.speed, p50, p99)
		}
		slices.Reverse(order)
	}
	return nil
}

// openLoop sends requests at a rate for a second.
func (l *lab) openLoop(ctx context.Context, c *paced, rate float64) (*openloop.Result, error) {
	requests := int(rate)
	codes := corpus.Visits(uint64(c.links), requests)
	return openloop.Run(ctx, openloop.Config{
		Addr: c.target.addr, Rate: rate, Connections: pacedConnections, Duration: time.Second, Drain: time.Minute, Status: http.StatusFound,
		Request: func(dst []byte, n int) []byte {
			at := n % requests * corpus.CodeLength
			return append(append(append(dst, corpus.Head...), codes[at:at+corpus.CodeLength]...), corpus.Tail...)
		},
	})
}
