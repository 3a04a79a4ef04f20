//go:build linux

// Command load lets k6 put the load on a whole system that every release must bear:
// users that follow links and create some, more and more of them, suddenly twice as many,
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

type options struct {
	bench.Options
	k6, script string
}

// patterns are those of load.js.
var patterns = []struct{ name, what string }{
	{"ramp", "from no user to 50 in a minute, then 50 for two minutes."},
	{"spike", "50 users, 100 for half a minute, 50 again."},
	{"soak", "20 users for five minutes."},
}

func measure(ctx context.Context, args []string) error {
	o := &options{}
	flags := o.Flags("load")
	flags.StringVar(&o.k6, "k6", "bin/tools/k6", "the program k6")
	flags.StringVar(&o.script, "script", "bench/load/load.js", "the script for k6")
	if err := o.Parse(flags, args); err != nil {
		return err
	}
	return o.Run(ctx, []bench.Part{{Name: "load", Measure: o.playAll}, {Name: "growth", Full: true, Measure: o.grow}})
}

func (o *options) playAll(ctx context.Context) (_ bench.Section, err error) {
	dir, err := o.TempDir()
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary, err := bench.BuildWaypost(ctx, dir)
	if err != nil {
		return bench.Section{}, err
	}
	s, err := bench.StartSystem(ctx, binary, dir)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	out := bench.Section{Title: "Load: 80 % redirects, 20 % creates", Notes: []string{
		"k6 plays users that follow 100 links on two edges and create a link in one request of five, with a pause of 0.1 s after each; it shares the machine",
	}}
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
func (o *options) play(ctx context.Context, s *bench.System, pattern, summaryFile string) (sum summary, err error) {
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
		runErr = fmt.Errorf("k6: %w", runErr) // k6 has said which threshold was crossed
	}
	text, err := os.ReadFile(summaryFile)
	if err == nil {
		err = json.Unmarshal(text, &sum)
	}
	return sum, errors.Join(runErr, err)
}

// summary holds the used part of k6's summary.
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
		Name: name, What: what,
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
