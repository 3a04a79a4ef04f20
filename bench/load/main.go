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
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"waypost/bench"
	"waypost/bench/devsystem"
)

func main() {
	if err := run(); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := options{command: strings.Join(append([]string{"go run ./bench/load"}, os.Args[1:]...), " ")}
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.StringVar(&o.k6, "k6", "bin/tools/k6", "the program k6")
	flags.StringVar(&o.script, "script", "bench/load/load.js", "what k6 runs")
	flags.StringVar(&o.out, "out", "bench", "directory for results/load.json and RESULTS.md")
	flags.StringVar(&o.temp, "temp", "", "where to put the system; default: the system's directory for temporary files")
	flags.BoolVar(&o.short, "short", false, "see that it works, in a minute: nothing is written down")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	return o.measure(ctx)
}

type options struct {
	k6, script, out, temp string
	short                 bool
	command               string
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

func (o *options) measure(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp(o.temp, "waypost-load-")
	if err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := devsystem.Start(ctx, dir, "load")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	out := bench.Section{
		Name: "load", Title: "80 % redirects, 20 % creates", Command: o.command, Machine: bench.ThisMachine(), Made: time.Now().UTC().Truncate(time.Second),
	}
	for _, p := range patterns {
		sum, err := o.play(ctx, s, p.name, filepath.Join(dir, p.name+".json"))
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		out.Cases = append(out.Cases, sum.report(p.name, p.what))
		out.Goals = append(out.Goals, sum.goals(p.name)...)
	}
	if err := out.Compare(); err != nil {
		return err
	}
	fmt.Printf("\n%s\n", out.Markdown())
	if o.short {
		fmt.Println("this was to see that it works, and is not written down")
		return nil
	}
	report, err := bench.Read(o.out, "load")
	if err != nil {
		return err
	}
	report.Title, report.Method = "Load", method
	report.Put(out, []string{"load"})
	return report.Write(o.out)
}

// play lets k6 run one pattern. It fails when k6 does, as for a threshold.
func (o *options) play(ctx context.Context, s *devsystem.System, pattern, summaryFile string) (sum summary, err error) {
	var edges []string
	for _, e := range s.State.Edges {
		edges = append(edges, e.URL)
	}
	short := "0"
	if o.short {
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
