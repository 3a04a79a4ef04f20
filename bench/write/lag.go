//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"

	"waypost/bench"
)

// lag measures the time from a commit to the moment at which an edge has the link.
func (l *lab) lag(ctx context.Context) (out bench.Section, err error) {
	creates, perSecond, rounds := sized(l, 300, 10), sized(l, 2000, 100), min(l.o.Rounds, 3)
	s, err := l.startSystem(ctx)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	client, edge := &fasthttp.HostClient{Addr: hostOf(s.State.API), MaxConns: 100}, &fasthttp.HostClient{Addr: hostOf(s.State.Edges[0].URL)}
	defer client.CloseIdleConnections()
	defer edge.CloseIdleConnections()
	const idle, loaded = "nothing else happens", "next to other creates"
	out.Title = "From a commit to an edge"
	out.Notes = []string{
		"time from the answer to a create until an edge redirects, asked every 50 µs",
		fmt.Sprintf("%d rounds of %d links, one every 10 ms", rounds, creates),
	}
	var number atomic.Uint64
	create := func() (code string, err error) {
		return post(client, s, string(l.targets.Append(nil, number.Add(1))))
	}
	for _, name := range []string{idle, loaded} {
		loading, unload := context.WithCancel(ctx)
		var working sync.WaitGroup
		if pace := rate.NewLimiter(rate.Limit(perSecond), 64); name == loaded {
			for range 64 {
				working.Go(func() {
					for pace.Wait(loading) == nil {
						_, _ = create() // a failure shows in the rate
					}
				})
			}
		}
		before, start := number.Load(), time.Now()
		var p50, p99 []float64
		for range rounds {
			var times []time.Duration
			for range creates {
				took, err1 := lagOf(edge, s.State.Edges[0].URL, create)
				if times, err = append(times, took), err1; err != nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if p50, p99 = append(p50, millis(times, 0.5)), append(p99, millis(times, 0.99)); err != nil {
				break
			}
		}
		did := float64(number.Load()-before) / time.Since(start).Seconds()
		unload()
		working.Wait()
		if err != nil {
			return out, err
		}
		out.Cases = append(out.Cases, bench.Case{Name: name, Base: idle, Measures: []bench.Measure{
			{Name: "p50 ms", Rounds: p50},
			{Name: "p99 ms", Compared: true, Rounds: p99},
			{Name: "creates per second", Rounds: []float64{float64(int(did))}},
		}})
		out.AddGoal(name, "p50 ms", 10)
		out.AddGoal(name, "p99 ms", 50)
	}
	return out, nil
}

// lagOf creates a link and asks the edge for it until it redirects.
func lagOf(edge *fasthttp.HostClient, url string, create func() (string, error)) (time.Duration, error) {
	code, err := create()
	if err != nil {
		return 0, err
	}
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(res)
	req.SetRequestURI(url + "/" + code)
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(50 * time.Microsecond) {
		if err := edge.Do(req, res); err != nil {
			return 0, fmt.Errorf("follow a link: %w", err)
		}
		if res.StatusCode() == fasthttp.StatusFound {
			return time.Since(start), nil
		}
	}
	return 0, fmt.Errorf("link %q is not there after a minute", code)
}
