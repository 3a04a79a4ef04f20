//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/edge/audience"
	"waypost/edge/clicks"
	"waypost/edge/replica"
	"waypost/edge/server"
)

// edgeApp is an edge's redirect path, with a feed instead of a control plane.
type edgeApp struct {
	o       serveOptions
	replica *replica.DB
	journal *clicks.Journal
	shipped chan error // the result of Ship; nil when nothing is shipped
	meters  *prometheus.Registry
	feed    *feed // nil until changes are asked for
}

func newEdge(o serveOptions) (_ app, err error) {
	e := &edgeApp{o: o, meters: prometheus.NewRegistry()}
	cfg := server.Config{DrainTime: time.Millisecond}
	if e.replica, err = openReplica(o.Dir, e.meters); err != nil {
		return app{}, err
	}
	cfg.Links = e.replica
	if o.Journal != "" {
		who := audience.New(audience.Config{Salts: oneSalt{}, Metrics: e.meters})
		if e.journal, err = clicks.Open(clicks.Config{Dir: o.Journal, Node: "bench", Profiler: who, Metrics: e.meters}); err != nil {
			return app{}, errors.Join(err, e.replica.Close())
		}
		cfg.Clicks, cfg.Sealer = e.journal, audience.NewSealer(oneSalt{})
		if o.Ship != "" {
			e.shipped = make(chan error, 1)
			go func() { e.shipped <- e.journal.Ship(context.Background(), clicks.ShipConfig{URL: o.Ship}) }()
		}
	}
	return app{answering: server.New(cfg), close: e.close, commands: map[string]command{
		"metric": e.metric, "changes": e.changes, "snapshots": e.snapshots,
	}}, nil
}

// oneSalt is the same salt on every day.
type oneSalt struct{}

var everyDay = waypost.Salt{1}

func (oneSalt) Salt(int32) *waypost.Salt { return &everyDay }

func (e *edgeApp) close() error {
	var err error
	if e.journal != nil {
		err = e.journal.Close() // which ends Ship
	}
	if e.shipped != nil {
		err = errors.Join(err, <-e.shipped)
	}
	return errors.Join(err, e.replica.Close())
}

// metric returns the value of one of the edge's metrics.
func (e *edgeApp) metric(_ context.Context, args []string) (string, error) {
	families, err := e.meters.Gather()
	if err != nil {
		return "", fmt.Errorf("read metrics: %w", err)
	}
	for _, f := range families {
		if len(args) != 1 || f.GetName() != args[0] {
			continue
		}
		m := f.GetMetric()[0]
		return strconv.FormatFloat(m.GetCounter().GetValue()+m.GetGauge().GetValue(), 'f', -1, 64), nil
	}
	return "", fmt.Errorf("no metric %v", args)
}

func (e *edgeApp) follow() (err error) {
	if e.feed == nil {
		if e.feed, err = newFeed(e.o.Targets, e.o.Links); err == nil {
			e.feed.resume(e.replica)
		}
	}
	return err
}

// changes applies RATE changes a second for some time, in transactions of 20, and
// returns how many it applied.
func (e *edgeApp) changes(ctx context.Context, args []string) (string, error) {
	const perTransaction = 20
	if len(args) != 2 {
		return "", errors.New("changes RATE DURATION")
	}
	rate, err1 := strconv.Atoi(args[0])
	duration, err2 := time.ParseDuration(args[1])
	if err := errors.Join(err1, err2, e.follow()); err != nil {
		return "", err
	}
	if rate < 1 {
		return "", errors.New("the rate must be positive")
	}
	start, applied := time.Now(), 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	for time.Since(start) < duration {
		due := start.Add(time.Duration(applied) * time.Second / time.Duration(rate))
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		if err := e.feed.change(ctx, e.replica, perTransaction, due); err != nil {
			return "", err
		}
		applied += perTransaction
	}
	return strconv.Itoa(applied), nil
}

// snapshots installs one snapshot after the other for some time, the last one to its
// end, and returns how many.
func (e *edgeApp) snapshots(ctx context.Context, args []string) (string, error) {
	if len(args) != 1 {
		return "", errors.New("snapshots DURATION")
	}
	duration, err := time.ParseDuration(args[0])
	if err != nil {
		return "", fmt.Errorf("read how long: %w", err)
	}
	installed := 0
	for start := time.Now(); time.Since(start) < duration; installed++ {
		if err := e.takeSnapshot(ctx); err != nil {
			return "", err
		}
	}
	if e.feed != nil { // changes begin again
		e.feed.resume(e.replica)
		e.feed.changed = 0
	}
	return strconv.Itoa(installed), nil
}
