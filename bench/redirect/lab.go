//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"waypost/bench"
)

// Sizes of replicas.
const (
	million    = 1_000_000
	tenMillion = 10_000_000
)

// section is a part of the measurements that can be made by itself.
type section struct {
	name  string
	quick bool
	links int
	run   func(ctx context.Context, l *lab, links int) (bench.Section, error)
}

var (
	all = []section{
		{"uniform-1m", true, million, hitsUniform},
		{"zipf-1m", true, million, hitsZipf},
		{"misses-1m", true, million, misses},
		{"rivals-1m", false, million, rivals},
		{"latency-1m", true, million, latency},
		{"during-1m", false, million, during},
		{"uniform-10m", false, tenMillion, hitsUniform},
		{"zipf-10m", false, tenMillion, hitsZipf},
		{"misses-10m", false, tenMillion, misses},
		{"latency-10m", false, tenMillion, latency},
		{"during-10m", false, tenMillion, during},
		{"scan-10m", false, tenMillion, scan},
		{"footprint-10m", false, tenMillion, footprint},
		{"profile-10m", false, tenMillion, profile},
	}
	quick = filter(all, func(s section) bool { return s.quick })
)

func filter(of []section, keep func(section) bool) (out []section) {
	for _, s := range of {
		if keep(s) {
			out = append(out, s)
		}
	}
	return out
}

func names(of []section) (out []string) {
	for _, s := range of {
		out = append(out, s.name)
	}
	return out
}

// lab is where the sections of one run are measured.
type lab struct {
	o      options
	dir    string
	filled map[int]bool // sizes of replicas that are there
}

func (l *lab) log(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// runSelf runs this program as a child, to its end.
func (l *lab) runSelf(ctx context.Context, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

const method = `A CPU figure is the user and system time that the server's processes used in a round, as the kernel counts it, divided by the
requests that they answered in that round; it holds all that they do meanwhile, garbage collection and batches of clicks too. The client is wrk, another process,
whose cost is not in it. Rounds of the cases of a table take turns, so that each is compared with its base of the same moment; a ratio is the
median of those comparisons. Before the rounds, a sample of answers is compared byte for byte; a failed request in any round fails the run.

Latency is measured by a client of our own that sends at fixed times, whatever becomes of the answers, and counts from when a request was
meant to be sent. Client and server share the machine.

"wrk's headers" is Host alone, "a browser's" the 13 lines that Firefox sends. Clicks are journaled and gathered into
batches, which are not shipped. Targets have 90 bytes on average, codes 7.
`

// measure makes the sections, and writes each down when it is complete.
func measure(ctx context.Context, o options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Hour)
	defer cancel()
	if _, err := exec.LookPath("wrk"); err != nil {
		return fmt.Errorf("wrk is missing, which deploy/install-missing.sh wrk installs: %w", err)
	}
	l := &lab{o: o, filled: map[int]bool{}}
	if l.dir, err = os.MkdirTemp(o.Temp, "waypost-bench-"); err != nil {
		return fmt.Errorf("making a directory for replicas: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	for _, s := range all {
		for _, name := range o.Only {
			if name == s.name {
				if err := l.measure(ctx, s); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
			}
		}
	}
	if o.Try {
		l.log("this was to see that it works, and is not written down")
	}
	return nil
}

func (l *lab) measure(ctx context.Context, s section) error {
	links := s.links
	if l.o.Try {
		links /= 500
	}
	l.log("section %s", s.name)
	start := time.Now()
	out, err := s.run(ctx, l, links)
	if err != nil {
		return err
	}
	out.Name, out.Made, out.Command, out.Machine = s.name, time.Now().UTC().Truncate(time.Second), l.o.command, bench.ThisMachine()
	l.log("section %s took %s", s.name, time.Since(start).Round(time.Second))
	fmt.Printf("\n%s\n", out.Markdown())
	if l.o.Try {
		return nil
	}
	report, err := bench.Read(l.o.Out, "redirect")
	if err != nil {
		return err
	}
	report.Title, report.Method = "Redirects", method
	report.Put(out, names(all))
	return report.Write(l.o.Out)
}
