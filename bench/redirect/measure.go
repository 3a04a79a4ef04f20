package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"waypost/bench"
)

// measurement is one case: a server and the load that it gets.
type measurement struct {
	name, what string
	server     *serverProcess
	load       string
	rounds     []float64
	requests   int64
}

// measure makes a replica, runs the rounds and writes the report.
func measure(ctx context.Context, o options) (err error) {
	const cases, slack = 4, 5 * time.Second
	limit := time.Duration((o.Rounds+1)*cases)*(o.Round+slack) + time.Minute + 2*time.Duration(o.Links)*100*time.Microsecond
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	dir, err := os.MkdirTemp("", "waypost-bench-")
	if err != nil {
		return fmt.Errorf("making a directory for the replica: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// One for each server: a replica belongs to one process.
	plain, counting := filepath.Join(dir, "plain"), filepath.Join(dir, "counting")
	for _, d := range []string{plain, counting} {
		fmt.Printf("making a replica of %d links\n", o.Links)
		if err := fillReplica(ctx, d, o.Links); err != nil {
			return err
		}
	}

	bare, err := startServer(ctx, "-kind", kindBare)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.stop()) }()
	waypost, err := startServer(ctx, "-kind", kindWaypost, "-dir", plain)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, waypost.stop()) }()
	clicks, err := startServer(ctx, "-kind", kindClicks, "-dir", counting, "-journal", filepath.Join(dir, "clicks"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clicks.stop()) }()

	all := []*measurement{
		{name: "bare fasthttp", what: "a server with the same settings that answers every request with one constant 302.", server: bare, load: loadConstant},
		{name: "redirect", what: "the edge server over its replica on disk, asked for existing links uniformly at random.", server: waypost, load: loadHits},
		{name: "redirect, counted", what: "the same with every click journaled and gathered into batches, which are not shipped.", server: clicks, load: loadHits},
		{name: "miss", what: "the server without a journal, asked for codes that no link has; it answers 404 with a page.", server: waypost, load: loadMisses},
	}
	if err := runRounds(ctx, o, all); err != nil {
		return err
	}
	report := newReport(o, all)
	if err := report.Compare(); err != nil {
		return err
	}
	fmt.Println()
	fmt.Print(report.Table())
	if o.Quick {
		fmt.Println("\nA quick run is not written down.")
		return nil
	}
	return report.Write(o.Out)
}

// runRounds lets the cases take turns, in the other order every second time. One
// round that is not counted goes first.
func runRounds(ctx context.Context, o options, all []*measurement) error {
	order := slices.Clone(all)
	for round := range o.Rounds + 1 {
		for _, m := range order {
			cpu, requests, err := m.round(ctx, o)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			if round == 0 {
				continue
			}
			us := float64(cpu.Nanoseconds()) / 1e3 / float64(requests)
			m.rounds = append(m.rounds, us)
			m.requests += requests
			fmt.Printf("round %d of %d: %-17s %7.2f µs per request, %d requests\n", round, o.Rounds, m.name, us, requests)
		}
		slices.Reverse(order)
	}
	return nil
}

func (m *measurement) round(ctx context.Context, o options) (time.Duration, int64, error) {
	before, err := m.server.cpu()
	if err != nil {
		return 0, 0, err
	}
	requests, err := runLoad(ctx, loadConfig{
		Addr: m.server.addr, Kind: m.load, Links: uint64(o.Links), Connections: o.Connections, Duration: o.Round,
	})
	if err != nil {
		return 0, 0, err
	}
	after, err := m.server.cpu()
	if err != nil {
		return 0, 0, err
	}
	return after - before, requests, nil
}

func newReport(o options, all []*measurement) *bench.Report {
	r := &bench.Report{
		Made:    time.Now().UTC().Truncate(time.Second),
		Command: o.command,
		Machine: bench.ThisMachine(),
		Settings: []bench.Setting{
			{Name: "links", Value: strconv.Itoa(o.Links)},
			{Name: "rounds", Value: fmt.Sprintf("%d of %s for each case, after one that is not counted", o.Rounds, o.Round)},
			{Name: "load", Value: fmt.Sprintf("%d keep-alive connections over loopback, one request at a time on each, headers as a browser sends them", o.Connections)},
		},
	}
	for _, m := range all {
		r.Cases = append(r.Cases, bench.Case{Name: m.name, What: m.what, Requests: m.requests, Rounds: m.rounds})
	}
	return r
}
