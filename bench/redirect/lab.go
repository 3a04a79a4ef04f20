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
	"waypost/bench/apart"
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
		{"clicks-1m", false, million, clickCost},
		{"misses-1m", true, million, misses},
		{"rivals-1m", false, million, rivals},
		{"latency-1m", true, million, latencyUniform},
		{"latency-zipf-1m", false, million, latencyZipf},
		{"during-1m", false, million, during},
		{"bounded-1m", false, million, bounded},
		{"syscalls-1m", false, million, sysCalls},
		{"profile-1m", true, million, profile},
		{"uniform-10m", false, tenMillion, hitsUniform},
		{"zipf-10m", false, tenMillion, hitsZipf},
		{"clicks-10m", false, tenMillion, clickCost},
		{"misses-10m", false, tenMillion, misses},
		{"latency-10m", false, tenMillion, latencyUniform},
		{"during-10m", false, tenMillion, during},
		{"bounded-10m", false, tenMillion, bounded},
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
	sink   *sink
	apart  *apart.Halves // nil: all share all processors
	source *target       // of snapshots, for edges that are started; nil: there is none
}

// setApart gives servers that are started from now on processors of their own, until together is called.
func (l *lab) setApart() (together func() error, err error) {
	h, err := apart.Split()
	if err != nil {
		return nil, err
	}
	giveBack, err := h.Keep()
	if err != nil {
		return nil, err
	}
	l.apart = &h
	return func() error {
		l.apart = nil
		return giveBack()
	}, nil
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
meant to be sent. The server has one half of the machine's processors, and all others, clients, the sink of clicks and the source of snapshots, the other: what the server can do is what it can
do with its half. Rounds begin after a pause, in which what the round before has left is done.

"wrk's headers" is Host alone, "a browser's" the 13 lines that Firefox sends. Clicks are journaled, gathered into
batches and shipped to a sink that acknowledges them. Targets have 90 bytes on average, codes 7.
`

// longest is what a run may take, where nothing hangs and the machine is not very slow.
const longest = 50 * time.Minute

// measure makes the sections.
func measure(ctx context.Context, o options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if _, err := exec.LookPath("wrk"); err != nil {
		return fmt.Errorf("wrk is missing, which deploy/install-missing.sh wrk installs: %w", err)
	}
	l := &lab{o: o, filled: map[int]bool{}}
	dir, remove, err := o.TempDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	l.dir = dir
	if l.sink, err = newSink(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.sink.close()) }()
	return bench.Run(ctx, &o.Options, bench.Study[*lab]{Title: "Redirects", Method: method, Sections: sections()}, l)
}

func sections() (parts []bench.Part[*lab]) {
	for _, s := range all {
		parts = append(parts, bench.Part[*lab]{Name: s.name, Measure: func(ctx context.Context, l *lab) (bench.Section, error) {
			links := s.links
			if l.o.Try {
				links /= 500
			}
			return s.run(ctx, l, links)
		}})
	}
	return parts
}
