//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
	"waypost/bench/wrk"
)

// comparison measures Waypost next to what people build themselves.
type comparison struct {
	*lab
	links int
}

// compare also writes the table and the picture of README.md.
func (l *lab) compare(ctx context.Context, links int) (bench.Section, error) {
	return (&comparison{l, links}).run(ctx)
}

func (l *comparison) run(ctx context.Context) (_ bench.Section, err error) {
	all, notes, err := l.rivals(ctx)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() {
		for _, r := range all {
			err = errors.Join(err, r.target.stop())
		}
	}()
	// The first start reads files that were just written, and warms what both starts need.
	for range 2 {
		for _, r := range all {
			if err := errors.Join(r.target.stop(), l.begin(ctx, r)); err != nil {
				return bench.Section{}, fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	var cases []*contender
	var halves []*paced
	for _, r := range all {
		if r.name == nameWaypost {
			if err := r.target.loaded(ctx); err != nil {
				return bench.Section{}, err
			}
		}
		r.half = paced{name: r.name, base: r.base, target: r.target, links: r.links, round: time.Second}
		cases, halves = append(cases, r.contender), append(halves, &r.half)
	}
	if err := l.compete(ctx, cases); err != nil {
		return bench.Section{}, err
	}
	for _, r := range all {
		if err := errors.Join(r.weigh(), l.setRate(ctx, &r.half, 3)); err != nil {
			return bench.Section{}, fmt.Errorf("%s: %w", r.name, err)
		}
	}
	if _, err := l.pace(ctx, "", l.o.Rounds, halves); err != nil {
		return bench.Section{}, err
	}
	if err := l.changeAndLose(ctx, all); err != nil {
		return bench.Section{}, err
	}
	s := tableOf(all, l.links)
	s.Notes = append(s.Notes, notes...)
	s.Notes = append(s.Notes,
		fmt.Sprintf("%d rounds of %s after one that is not counted, in turns; a browser's headers", l.o.Rounds, l.o.Round),
		"the server and its store have one processor, the client the others",
		fmt.Sprintf("at saturation: wrk, %d connections; at half load: half of the rate of each, %d connections, timed from when a request was due", connections, pacedConnections),
		"memory: after the load (Pss of all its processes); disk: all files that it starts from; start: until the first redirect",
		"change: until a link leads elsewhere on every server; for Waypost by the API, with PostgreSQL, a control plane and two edges on this machine, for the others on one server",
		"store: PostgreSQL and the control plane, or Redis, are killed; then redirects are asked for during two seconds",
		"the others count no clicks and take no log",
	)
	if l.o.Try {
		return s, nil
	}
	return s, l.publish(&s)
}

// changeAndLose changes links, in turns, and then kills the stores.
func (l *comparison) changeAndLose(ctx context.Context, all []*rival) error {
	f, err := l.startFleet(ctx)
	if err != nil {
		return err
	}
	defer f.end()
	for round := range l.o.Rounds {
		for _, r := range all {
			code := string(corpus.AppendCode(nil, uint64(round)))
			if r.name == nameWaypost {
				r.change, code = f.change, f.codes[round%len(f.codes)]
			}
			if err := r.alter(ctx, code, fmt.Sprintf("https://example.org/changed/%d", round)); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			l.o.Logf("%-24s a change is everywhere after %.1f ms", r.name, r.changes[round])
		}
	}
	for _, r := range all {
		addr, codes := r.target.addr, []byte(strings.Join(f.codes, ""))
		if r.name == nameWaypost {
			r.lose, addr = f.lose, f.State.Edges[0].URL[len("http://"):]
		} else if codes, err = corpus.Visits(rand.New(rand.NewPCG(1, 2)), corpus.Uniform, uint64(r.links), 100_000); err != nil {
			return err
		}
		if r.lose == nil {
			continue
		}
		if err := r.lose(); err != nil {
			return fmt.Errorf("kill the store of %s: %w", r.name, err)
		}
		result, err := wrk.Run(ctx, wrk.Config{
			Addr: addr, Dir: l.dir, Codes: codes, CodeLength: corpus.CodeLength, Head: corpus.Head, Tail: " HTTP/1.1\r\nHost: " + addr + "\r\n\r\n",
			Connections: connections, Threads: 1, Duration: 2 * time.Second,
		})
		if err != nil {
			return err
		}
		r.lost = 100 * float64(result.Failed+result.Broken) / float64(max(1, result.Requests+result.Broken))
		l.o.Logf("%-24s without its store %.1f %% of %d redirects fail", r.name, r.lost, result.Requests)
	}
	return nil
}

// Measures of the comparison besides those of saturation.
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
			{Name: measureP50, Rounds: r.p50},
			{Name: measureP99, Compared: true, Rounds: r.p99},
			{Name: halfP50, Rounds: r.half.p50},
			{Name: halfP99, Compared: true, Rounds: r.half.p99},
			{Name: measureMemory, Rounds: []float64{r.memory}},
			{Name: measureDisk, Rounds: []float64{r.disk}},
			{Name: measureStarts, Rounds: r.starts[1:]},
			{Name: measureChange, Rounds: r.changes},
			{Name: measureLost, Rounds: lost},
		}})
	}
	return s
}

// publish writes the table into README.md, and the picture.
func (l *comparison) publish(s *bench.Section) error {
	columns := []struct{ title, measure string }{
		{"CPU of a redirect, µs", measureCPU},
		{"redirects per second", measureRate},
		{"p99 at saturation, µs", measureP99},
		{"p50 at half load, µs", halfP50},
		{"p99 at half load, µs", halfP99},
		{"memory, MB", measureMemory},
		{"disk, MB", measureDisk},
		{"start, s", measureStarts},
		{"a change is everywhere after, ms", measureChange},
		{"without its store fail, %", measureLost},
	}
	var table strings.Builder
	table.WriteString("| |")
	rule := "|---|"
	for _, c := range columns {
		table.WriteString(" " + c.title + " |")
		rule += "--:|"
	}
	table.WriteString("\n" + rule + "\n")
	var panels []bench.Panel
	for _, c := range []struct{ title, measure string }{
		{"CPU of a redirect, µs", measureCPU},
		{"p99 at saturation, µs", measureP99},
		{"p99 at half load, µs", halfP99},
		{"a change is everywhere after, ms", measureChange},
	} {
		panels = append(panels, bench.Panel{Title: c.title})
		p := &panels[len(panels)-1]
		for _, one := range s.Cases {
			p.Bars = append(p.Bars, bench.Bar{Name: one.Name, Value: bench.Median(s.Find(one.Name, c.measure)), Strong: one.Name == nameWaypost})
		}
	}
	for _, one := range s.Cases {
		table.WriteString("| " + one.Name + " |")
		for _, c := range columns {
			figure := bench.Number(bench.Median(s.Find(one.Name, c.measure)))
			if figure == "" {
				figure = "has none"
			}
			table.WriteString(" " + figure + " |")
		}
		table.WriteString("\n")
	}
	readme := filepath.Join(l.o.Out, "..", "README.md")
	if err := bench.Insert(readme, "compare", table.String()); err != nil {
		return err
	}
	return bench.PutChart(filepath.Join(l.o.Out, "compare.svg"), s.Title, panels)
}
