//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
)

// scan lets someone try codes that no link has, and looks at what that leaves
// behind.
func scan(ctx context.Context, l *lab, links int) (_ bench.Section, err error) {
	edge, err := l.startEdge(ctx, links)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, edge.stop()) }()
	if err := edge.loaded(ctx); err != nil {
		return bench.Section{}, err
	}
	idle, err := edge.sockets()
	if err != nil {
		return bench.Section{}, err
	}
	try := load{corpus.Missing, links, corpus.Bare}
	if _, err := l.visit(ctx, edge, try, 5*time.Second); err != nil { // as much memory as connections take
		return bench.Section{}, err
	}
	before, err := l.steadyMemory(ctx, edge)
	if err != nil {
		return bench.Section{}, err
	}
	watch := watchSockets(edge)
	r, err := l.visit(ctx, edge, try, 15*time.Second)
	most, watchErr := watch()
	if err := errors.Join(err, watchErr); err != nil {
		return bench.Section{}, err
	}
	after, err := l.steadyMemory(ctx, edge)
	if err != nil {
		return bench.Section{}, err
	}
	perCode := max(0, float64(after-before)/float64(r.Requests))
	others := float64(max(0, most-idle-l.o.Connections))
	one := func(name, what string, figure float64) bench.Case {
		return bench.Case{Name: name, What: what, Measures: []bench.Measure{{Name: "figure", Rounds: []float64{figure}}}}
	}
	s := bench.Section{
		Title:    fmt.Sprintf("A scan of codes that no link has, %s links", count(links)),
		Settings: []bench.Setting{{Name: "client", Value: fmt.Sprintf("wrk for 15 s, %s codes at random; 5 s of the same went before", count(int(r.Requests)))}},
		Cases: []bench.Case{
			one("memory before, MB", "", float64(before)/1e6),
			one("memory after, MB", "", float64(after)/1e6),
			one("memory kept, bytes per code", "", perCode),
			one("connections to others", "sockets that the edge had open beside its listener and the client's connections, at most.", others),
		},
		Goals: []bench.Goal{
			{What: "memory kept, bytes per code", Most: 8, Figure: perCode},
			{What: "connections to others", Most: 0, Figure: others},
		},
	}
	return s, s.Compare()
}

// watchSockets counts a target's sockets until the function that it gives is
// called, which gives the largest number.
func watchSockets(t *target) func() (int, error) {
	var (
		watching sync.WaitGroup
		stop     = make(chan struct{})
		most     int
		failed   error
	)
	watching.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			n, err := t.sockets()
			most, failed = max(most, n), errors.Join(failed, err)
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	return func() (int, error) {
		close(stop)
		watching.Wait()
		return most, failed
	}
}
