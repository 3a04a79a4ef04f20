//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"waypost/bench"
)

// create measures single links over many connections and few.
func (l *lab) create(ctx context.Context) (out bench.Section, err error) {
	const most, warmUp = 64, 1
	s, err := l.startSystem(ctx)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	client := &fasthttp.HostClient{Addr: hostOf(s.State.API), MaxConns: most}
	defer client.CloseIdleConnections()
	callers := []int{most, 16, 4}
	all := make([]figures, len(callers))
	length := sized(l, 2*time.Second, 100*time.Millisecond)
	var number atomic.Uint64
	create := func() error {
		_, err := post(client, s, string(l.targets.Append(nil, number.Add(1))))
		return err
	}
	for round := range l.o.Rounds + warmUp {
		for i, n := range callers {
			var times []time.Duration
			f := &all[i]
			if round < warmUp {
				f = &figures{}
			}
			err := f.timed(s.CPU, func() (links int, more time.Duration, err error) {
				times, err = createFor(n, length, create)
				return len(times), 0, err
			})
			if err != nil {
				return out, err
			}
			f.p50, f.p99 = append(f.p50, millis(times, 0.5)), append(f.p99, millis(times, 0.99))
			l.o.Logf("round %d of %d: %2d connections %6.1f µs, p99 %.1f ms", round, l.o.Rounds, n, f.wall[len(f.wall)-1], f.p99[len(f.p99)-1])
		}
	}
	out.Title = "Creating single links"
	out.Notes = []string{
		"HTTP, JSON, the rules for targets, keys, the changelog; both edges follow meanwhile",
		fmt.Sprintf("%d rounds of %s for each case, after one that is not counted; targets of 90 bytes on average; the client's CPU is in the figures",
			l.o.Rounds, length),
	}
	for i, n := range callers {
		out.Cases = append(out.Cases, bench.Case{Name: fmt.Sprintf("POST /api/v1/urls, %d connections", n), Measures: all[i].measures("link")})
	}
	return out, nil
}

// createFor lets callers create links for some time and returns how long each took.
func createFor(callers int, length time.Duration, create func() error) ([]time.Duration, error) {
	times := make([][]time.Duration, callers)
	end := time.Now().Add(length)
	var group errgroup.Group
	for i := range callers {
		group.Go(func() error {
			for at := time.Now(); len(times[i]) == 0 || at.Before(end); {
				if err := create(); err != nil {
					return err
				}
				now := time.Now()
				times[i] = append(times[i], now.Sub(at))
				at = now
			}
			return nil
		})
	}
	err := group.Wait()
	return slices.Concat(times...), err
}

// post creates a link through the API, and returns its code.
func post(client *fasthttp.HostClient, s *bench.System, target string) (code string, err error) {
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(res)
	req.SetRequestURI(s.State.API + "/api/v1/urls")
	req.Header.SetMethod(fasthttp.MethodPost)
	req.Header.Set("Authorization", "Bearer "+s.State.APIKey)
	req.Header.SetContentType("application/json")
	req.SetBodyString(`{"original_url":"` + target + `"}`)
	if err := client.Do(req, res); err != nil {
		return "", fmt.Errorf("create a link: %w", err)
	}
	if status := res.StatusCode(); status != fasthttp.StatusCreated {
		return "", fmt.Errorf("create a link: %d: %s", status, res.Body())
	}
	_, rest, _ := strings.Cut(string(res.Body()), `"short_code":"`)
	code, _, _ = strings.Cut(rest, `"`)
	return code, nil
}

func hostOf(url string) string { return strings.TrimPrefix(url, "http://") }
