//go:build linux

// Command load lets k6 put the load on a whole system that every release must bear:
// users that follow links and create some, more and more of them, suddenly twice as
// many, and for long. It fails when a threshold of load.js is crossed, and writes
// results/load.json and RESULTS.md when all of it went well.
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
	"waypost/bench/devsystem"
)

func main() { bench.Main("load", parseOptions, measure) }

type options struct {
	bench.Options
	k6, script string
}

func parseOptions(args []string) (o options, err error) {
	flags := o.Flags("load", "the system", bench.Names(sections))
	flags.StringVar(&o.k6, "k6", "bin/tools/k6", "the program k6")
	flags.StringVar(&o.script, "script", "bench/load/load.js", "what k6 runs")
	return o, o.Parse(flags, args)
}

// patterns are those of load.js.
var patterns = []struct{ name, what string }{
	{"ramp", "from no user to 50 in a minute, then 50 for two minutes."},
	{"spike", "50 users, 100 for half a minute, 50 again."},
	{"soak", "20 users for five minutes."},
}

const method = `k6 plays users that follow 100 links on two edges in four requests of five, and create a link in the fifth, with a pause of 0.1 s after each. A whole system runs as
` + "`waypost dev`" + ` starts it; k6 shares the machine. The thresholds are those that every release must keep, a floor and no goal: p95 below 500 ms, p99
below 1 s, more than 100 requests a second, less than 1 % errors, more than 99 % of checks passed.
`

var sections = []bench.Part[*options]{{Name: "load", Measure: playAll}}

func measure(ctx context.Context, o options) error {
	return bench.Run(ctx, &o.Options, bench.Study[*options]{Title: "Load", Method: method, Sections: sections}, &o)
}

func playAll(ctx context.Context, o *options) (_ bench.Section, err error) {
	dir, remove, err := o.TempDir()
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	s, err := devsystem.Start(ctx, dir, "load")
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	out := bench.Section{Title: "80 % redirects, 20 % creates"}
	for _, p := range patterns {
		sum, err := o.play(ctx, s, p.name, filepath.Join(dir, p.name+".json"))
		if err != nil {
			return bench.Section{}, fmt.Errorf("%s: %w", p.name, err)
		}
		out.Cases = append(out.Cases, sum.report(p.name, p.what))
		out.Goals = append(out.Goals, sum.goals(p.name)...)
	}
	return out, nil
}

// play lets k6 run one pattern. It fails when k6 does, as for a threshold.
func (o *options) play(ctx context.Context, s *devsystem.System, pattern, summaryFile string) (sum summary, err error) {
	var edges []string
	for _, e := range s.State.Edges {
		edges = append(edges, e.URL)
	}
	short := "0"
	if o.Try {
		short = "1"
	}
	k6 := exec.CommandContext(ctx, o.k6, "run", "--quiet", "--no-usage-report", o.script)
	k6.Env = append(os.Environ(), "PATTERN="+pattern, "SHORT="+short, "API="+s.State.API, "KEY="+s.State.APIKey,
		"EDGES="+strings.Join(edges, ","), "SUMMARY="+summaryFile)
	k6.Stdout, k6.Stderr = os.Stderr, os.Stderr
	runErr := k6.Run()
	if runErr != nil {
		runErr = fmt.Errorf("k6: %w", runErr) // it says itself which threshold was crossed
	}
	text, err := os.ReadFile(summaryFile)
	if err == nil {
		err = json.Unmarshal(text, &sum)
	}
	return sum, errors.Join(runErr, err)
}

// summary is what we need of k6's.
type summary struct {
	Metrics map[string]struct {
		Values map[string]float64 `json:"values"`
	} `json:"metrics"`
}

func (s *summary) value(metric, which string) float64 { return s.Metrics[metric].Values[which] }

func (s *summary) report(name, what string) bench.Case {
	measure := func(name string, figure float64) bench.Measure {
		return bench.Measure{Name: name, Rounds: []float64{figure}}
	}
	return bench.Case{
		Name: name, What: what, Base: "ramp", Requests: int64(s.value("http_reqs", "count")),
		Measures: []bench.Measure{
			measure("requests per second", s.value("http_reqs", "rate")),
			measure("p50 in ms", s.value("http_req_duration", "med")),
			measure("p95 in ms", s.value("http_req_duration", "p(95)")),
			measure("p99 in ms", s.value("http_req_duration", "p(99)")),
			measure("errors in %", 100*s.value("http_req_failed", "rate")),
			measure("checks passed in %", 100*s.value("checks", "rate")),
		},
	}
}

func (s *summary) goals(name string) []bench.Goal {
	return []bench.Goal{
		{What: name + ": p95 in ms", Most: 500, Figure: s.value("http_req_duration", "p(95)")},
		{What: name + ": p99 in ms", Most: 1000, Figure: s.value("http_req_duration", "p(99)")},
		{What: name + ": ms for a request, by the rate", Most: 10, Figure: 1000 / s.value("http_reqs", "rate")},
		{What: name + ": errors in %", Most: 1, Figure: 100 * s.value("http_req_failed", "rate")},
	}
}
