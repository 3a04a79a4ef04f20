//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"waypost"
	"waypost/bench"
	"waypost/bench/database"
	"waypost/controlplane"
)

const (
	p50 = "p50 ms"
	p99 = "p99 ms"

	whenIdle  = "nothing else happens"
	underLoad = "beside creates"
)

// measureVisible watches a replica for links from the moment at which their creation was
// answered.
func (l *lab) measureVisible(ctx context.Context) (_ bench.Section, err error) {
	d, err := database.Start(ctx, filepath.Join(l.dir, "visible"))
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, d.Stop()) }()
	service, _ := d.Service(d.DB, "bench")
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	url, stop, err := serve(ctx, d)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	f, err := l.follow(ctx, url)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { f.leave(); err = errors.Join(err, f.remove()) }()

	w := watch{lab: l, service: service, replica: f}
	idle, err := w.rounds(ctx)
	if err != nil {
		return bench.Section{}, err
	}
	loading, unload := context.WithCancel(ctx)
	defer unload()
	working.Go(func() { w.load(loading) })
	start, before := time.Now(), w.created.Load()
	loaded, err := w.rounds(ctx)
	if err != nil {
		return bench.Section{}, err
	}
	rate := float64(w.created.Load()-before) / time.Since(start).Seconds()
	unload()

	report := func(name, what string, of [][]time.Duration) bench.Case {
		c := bench.Case{Name: name, What: what, Requests: int64(l.o.Creates * l.o.Rounds), Measures: []bench.Measure{{Name: p50}, {Name: p99}}}
		for _, times := range of {
			slices.Sort(times)
			for i, q := range []int{50, 99} {
				c.Measures[i].Rounds = append(c.Measures[i].Rounds, times[(len(times)-1)*q/100].Seconds()*1e3)
			}
		}
		return c
	}
	return bench.Section{
		Title: "From a commit to an edge",
		Settings: []bench.Setting{
			{Name: "time", Value: "from the return of Service.Create, with the commit, until Link finds the link in the replica, looked for every 50 µs"},
			{Name: "rounds", Value: fmt.Sprintf("%d of %d links, one after the other", l.o.Rounds, l.o.Creates)},
			{Name: "creates a second beside it", Value: fmt.Sprintf("%.0f of %d asked for", rate, l.o.Rate)},
		},
		Cases: []bench.Case{
			report(whenIdle, "A link is created every 10 ms.", idle),
			report(underLoad, "The same beside creates of others, each a call of its own.", loaded),
		},
	}, nil
}

// watch creates links and looks for them.
type watch struct {
	lab     *lab
	service *controlplane.Links
	replica *follower
	next    atomic.Uint64
	created atomic.Int64
}

func (w *watch) create(ctx context.Context) (code string, err error) {
	target := string(w.lab.targets.Append(nil, w.next.Add(1)))
	link, _, err := w.service.Create(ctx, controlplane.Actor{Workspace: waypost.DefaultWorkspace}, controlplane.NewLink{OriginalURL: target})
	if err != nil {
		return "", fmt.Errorf("creating a link: %w", err)
	}
	w.created.Add(1)
	return string(link.Code), nil
}

func (w *watch) rounds(ctx context.Context) (all [][]time.Duration, err error) {
	for range w.lab.o.Rounds {
		times := make([]time.Duration, 0, w.lab.o.Creates)
		for range w.lab.o.Creates {
			code, err := w.create(ctx)
			if err != nil {
				return nil, err
			}
			start := time.Now()
			for {
				_, _, found, err := w.replica.Link(waypost.DefaultDomain, []byte(code), nil)
				if found && err == nil {
					break
				}
				if time.Since(start) > time.Minute {
					return nil, fmt.Errorf("a link is not there after a minute: %w", errors.Join(err, ctx.Err()))
				}
				time.Sleep(50 * time.Microsecond)
			}
			times = append(times, time.Since(start))
			time.Sleep(10 * time.Millisecond)
		}
		all = append(all, times)
	}
	return all, nil
}

// load creates links at a steady rate, as many at once as that takes.
func (w *watch) load(ctx context.Context) {
	const callers = 64
	var working sync.WaitGroup
	defer working.Wait()
	pace := make(chan struct{}, w.lab.o.Rate)
	for range callers {
		working.Go(func() {
			for range pace {
				_, _ = w.create(ctx) // the rate that was reached is told
			}
		})
	}
	defer close(pace)
	const step = 5 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	start, asked := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due := int(time.Since(start).Seconds() * float64(w.lab.o.Rate)); asked < due; asked++ {
			select {
			case pace <- struct{}{}:
			default: // it is behind
			}
		}
	}
}
