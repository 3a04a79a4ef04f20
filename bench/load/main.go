//go:build linux

// Command load lets k6 put a load on a whole system, which every release must bear: users
// follow links and create some, with more and more users, with suddenly twice as many,
// and for long. It fails when a threshold of load.js is crossed, and writes RESULTS.md
// otherwise.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"waypost/bench"
)

func main() { bench.Main("load", measure, os.Args[1:]) }

type options struct{ bench.Options }

func measure(ctx context.Context, args []string) error {
	o := &options{}
	if err := o.Parse(o.Flags("load"), args); err != nil {
		return err
	}
	return o.Run(ctx, []bench.Part{{Name: "load", Measure: o.playAll}})
}

func (o *options) playAll(ctx context.Context) (out bench.Section, err error) {
	dir, err := o.TempDir()
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary, err := bench.BuildWaypost(ctx, dir)
	if err != nil {
		return out, err
	}
	s, err := bench.StartSystem(ctx, "", binary, dir)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	out = bench.Section{Title: "Load: 80 % redirects, 20 % creates", Notes: []string{
		"k6 plays users that follow 100 links on two edges and create a link in one request of five, with a pause of 0.1 s after each; it shares the machine",
	}}
	for _, p := range []struct{ name, what string }{ // those of load.js
		{"ramp", "from no user to 50 in a minute, then 50 for two minutes."},
		{"spike", "50 users, 100 for half a minute, 50 again."},
		{"soak", "20 users for five minutes."},
	} {
		sum, err := o.play(ctx, s, p.name, filepath.Join(dir, p.name+".json"))
		if err != nil {
			return out, fmt.Errorf("%s: %w", p.name, err)
		}
		c := bench.Case{Name: p.name, What: p.what}
		for _, m := range []struct {
			name, metric, value string
			factor              float64
		}{
			{"requests per second", "http_reqs", "rate", 1},
			{"p50 in ms", "http_req_duration", "med", 1},
			{"p95 in ms", "http_req_duration", "p(95)", 1},
			{"p99 in ms", "http_req_duration", "p(99)", 1},
			{"errors in %", "http_req_failed", "rate", 100},
			{"checks passed in %", "checks", "rate", 100},
		} {
			c.Measures = append(c.Measures, bench.Measure{Name: m.name, Rounds: []float64{m.factor * sum.Metrics[m.metric].Values[m.value]}})
		}
		out.Cases = append(out.Cases, c)
		out.AddGoal(p.name, "p95 in ms", 500)
		out.AddGoal(p.name, "p99 in ms", 1000)
		out.AddGoal(p.name, "errors in %", 1)
	}
	return out, nil
}

// summary holds the used part of k6's summary.
type summary struct {
	Metrics map[string]struct {
		Values map[string]float64 `json:"values"`
	} `json:"metrics"`
}

// play lets k6 run one pattern. It fails when k6 does, as for a threshold.
func (o *options) play(ctx context.Context, s *bench.System, pattern, summaryFile string) (sum summary, err error) {
	var edges []string
	for _, e := range s.State.Edges {
		edges = append(edges, e.URL)
	}
	short := "0"
	if o.Try {
		short = "1"
	}
	k6 := exec.CommandContext(ctx, "bin/tools/k6", "run", "--quiet", "--no-usage-report", "bench/load/load.js")
	k6.Env = append(os.Environ(), "PATTERN="+pattern, "SHORT="+short, "API="+s.State.API, "KEY="+s.State.APIKey,
		"EDGES="+strings.Join(edges, ","), "SUMMARY="+summaryFile)
	k6.Stdout, k6.Stderr = os.Stderr, os.Stderr
	if err := k6.Run(); err != nil {
		return sum, fmt.Errorf("k6: %w", err) // k6 has written which threshold was crossed
	}
	text, err := os.ReadFile(summaryFile)
	if err != nil {
		return sum, fmt.Errorf("read k6's summary: %w", err)
	}
	return sum, json.Unmarshal(text, &sum)
}
