//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
	"waypost/bench/wrk"
)

// compare measures Waypost next to servers that people build themselves.
func (l *lab) compare(ctx context.Context, links int) (s bench.Section, err error) {
	all, notes, err := l.rivals(ctx, links)
	if err != nil {
		return s, err
	}
	defer func() {
		for _, r := range all {
			if r.target != nil {
				err = errors.Join(err, r.target.stop())
			}
		}
	}()
	var cases []*contender
	var halves []*paced
	for _, r := range all {
		for range 2 { // the first start reads files that were just written
			if err := l.startRival(ctx, r); err != nil {
				return s, fmt.Errorf("%s: %w", r.name, err)
			}
		}
		if r.name == nameWaypost {
			if err := r.target.awaitTable(ctx); err != nil {
				return s, err
			}
		}
		cases, halves = append(cases, r.contender), append(halves, &r.paced)
	}
	if err := l.compete(ctx, cases); err != nil {
		return s, err
	}
	for _, r := range all {
		memory, err1 := bench.Memory(r.target.pids...)
		disk, err2 := bench.DiskBytes(r.dir)
		if err := errors.Join(err1, err2); err != nil {
			return s, err
		}
		r.memory, r.disk = float64(memory)/1e6, float64(disk)/1e6
	}
	if err := errors.Join(l.pace(ctx, l.Rounds, halves), l.changeAndLose(ctx, all, links)); err != nil {
		return s, err
	}
	s = tableOf(all, links)
	s.Notes = append(s.Notes, notes...)
	s.Notes = append(s.Notes,
		fmt.Sprintf("%d rounds of %s after one that is not counted, in turns; a browser's headers", l.Rounds, l.round),
		"the server and its store have one processor, the client the others",
		fmt.Sprintf("at saturation: wrk, %d connections; at half load: half of the rate of each, %d connections, timed from when a request was due", wrk.Connections, pacedConnections),
		"memory: after the load (Pss of all its processes); disk: all files that it starts from; start: until the first redirect",
		"change: until a link leads elsewhere on every server; for Waypost by the API, with PostgreSQL, a control plane and two edges on this machine, for the others on one server",
		"store: PostgreSQL and the control plane, or Redis, are killed; then redirects are asked for during two seconds",
		"the others count no clicks and take no log",
	)
	return s, nil
}

// startRival starts a rival, instead of the one that runs, and measures the time until
// its first redirect.
func (l *lab) startRival(ctx context.Context, r *rival) error {
	if r.target != nil {
		if err := r.target.stop(); err != nil {
			return err
		}
		r.target, r.starts = nil, nil
	}
	began := time.Now()
	t, err := r.start(ctx)
	if err != nil {
		return err
	}
	r.target = t
	n := uint64(r.links / 2)
	at, err := awaitAnswer(ctx, t.addr, string(corpus.AppendCode(nil, n)), l.found(n))
	r.starts = append(r.starts, at.Sub(began).Seconds())
	return err
}

// changeAndLose changes links, in turns, and then kills the stores.
func (l *lab) changeAndLose(ctx context.Context, all []*rival, links int) error {
	dir, err := bench.TempDir(l.dir)
	if err != nil {
		return err
	}
	f, err := l.startFleet(ctx, dir, links)
	if err != nil {
		return err
	}
	defer f.stopFleet()
	for _, r := range all {
		if r.name == nameWaypost {
			r.change, r.addrs, r.lose = f.change, f.addrs, f.lose
		}
	}
	for round := range l.Rounds {
		for _, r := range all {
			code, url := string(corpus.AppendCode(nil, uint64(round))), fmt.Sprintf("https://example.org/changed/%d", round)
			began := time.Now()
			if err := r.change(ctx, code, url); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			var at time.Time
			for _, addr := range r.addrs() {
				if at, err = awaitAnswer(ctx, addr, code, url); err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
			}
			r.changes = append(r.changes, at.Sub(began).Seconds()*1e3)
			l.Logf("%-24s a change is everywhere after %.1f ms", r.name, r.changes[round])
		}
	}
	for _, r := range all {
		if r.lose == nil {
			continue
		}
		if err := r.lose(); err != nil {
			return fmt.Errorf("kill the store of %s: %w", r.name, err)
		}
		addr := r.addrs()[0]
		codes := corpus.Visits(uint64(r.links), 100_000)
		result, err := wrk.Run(ctx, wrk.Config{
			Addr: addr, Dir: l.dir, Codes: codes, Head: corpus.Head, Tail: " HTTP/1.1\r\nHost: " + addr + "\r\n\r\n", Duration: 2 * time.Second,
		})
		if err != nil {
			return err
		}
		r.lost = 100 * float64(result.Failed+result.Broken) / float64(max(1, result.Requests+result.Broken))
		l.Logf("%-24s without its store %.1f %% of %d redirects fail", r.name, r.lost, result.Requests)
	}
	return nil
}

// fleet is a whole Waypost: PostgreSQL, a control plane and two edges.
type fleet struct{ *bench.System }

// startFleet starts a system on all processors, with as many links.
func (l *lab) startFleet(ctx context.Context, dir string, links int) (f fleet, err error) {
	binary, err := bench.BuildWaypost(ctx, dir)
	if err != nil {
		return f, err
	}
	if f.System, err = bench.StartSystem(ctx, l.processors.All, binary, dir); err != nil {
		return f, err
	}
	err = bench.FillLinks(ctx, f.State.DatabaseURL, l.targets, links)
	if err == nil {
		err = f.AwaitEdges(ctx)
	}
	if err != nil {
		return f, errors.Join(err, f.Stop())
	}
	return f, nil
}

// addrs returns the addresses of the edges.
func (f fleet) addrs() (all []string) {
	for _, e := range f.State.Edges {
		all = append(all, e.URL[len("http://"):])
	}
	return all
}

// change sets another target of a link by the API, and waits for both edges.
func (f fleet) change(ctx context.Context, code, url string) error {
	where := f.State.API + "/api/v1/urls/" + code + "?wait=all"
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, where, strings.NewReader(fmt.Sprintf(`{"original_url": %q}`, url)))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+f.State.APIKey)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("change a link: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		err = fmt.Errorf("change a link: %s", res.Status)
	}
	return errors.Join(err, res.Body.Close())
}

// lose kills PostgreSQL and the control plane. The process that would start them again
// stands still.
func (f fleet) lose() error {
	return errors.Join(syscall.Kill(int(f.State.PID), syscall.SIGSTOP),
		syscall.Kill(int(f.State.Control.PID), syscall.SIGKILL), syscall.Kill(int(f.State.Postgres.PID), syscall.SIGKILL))
}

// stopFleet stops the system, also after lose. It ignores the system's own error, because
// parts of the system were killed.
func (f fleet) stopFleet() {
	_ = syscall.Kill(int(f.State.PID), syscall.SIGCONT)
	_ = f.Stop()
}

// Measures of the comparison besides the measures of saturation.
const (
	halfP50, halfP99 = "half load: p50 µs", "half load: p99 µs"
	measureMemory    = "memory MB"
	measureDisk      = "disk MB"
	measureStarts    = "start s"
	measureChange    = "change everywhere ms"
	measureLost      = "% failed without its store"
)

func tableOf(all []*rival, links int) bench.Section {
	s := bench.Section{Title: fmt.Sprintf("Waypost and what people build instead, %s links", bench.Grouped(links))}
	for _, r := range all {
		lost := []float64{r.lost}
		if r.lose == nil {
			lost = nil
		}
		s.Cases = append(s.Cases, bench.Case{Name: r.name, What: r.what, Base: r.base, Measures: []bench.Measure{
			{Name: measureCPU, Compared: true, Rounds: r.cpu},
			{Name: measureRate, Rounds: r.rate},
			{Name: measureP50, Rounds: r.contender.p50},
			{Name: measureP99, Compared: true, Rounds: r.contender.p99},
			{Name: halfP50, Rounds: r.paced.p50},
			{Name: halfP99, Compared: true, Rounds: r.paced.p99},
			{Name: measureMemory, Rounds: []float64{r.memory}},
			{Name: measureDisk, Rounds: []float64{r.disk}},
			{Name: measureStarts, Rounds: r.starts},
			{Name: measureChange, Rounds: r.changes},
			{Name: measureLost, Rounds: lost},
		}})
	}
	return s
}
