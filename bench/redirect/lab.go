//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
)

const million = 1_000_000

// lab holds the values that the sections of a run share.
type lab struct {
	bench.Options
	before string        // another build of this program; "" for none
	round  time.Duration // of wrk, whole seconds

	self       string // path of this program
	dir        string
	targets    *corpus.Targets
	ship       string // where clicks go
	processors bench.Processors
}

func (l *lab) sections() (parts []bench.Part) {
	add := func(name string, full bool, links int, measure func(ctx context.Context, links int) (bench.Section, error)) {
		if l.Try {
			links /= 500
		}
		parts = append(parts, bench.Part{
			Name: name, Full: full, Measure: func(ctx context.Context) (bench.Section, error) { return measure(ctx, links) },
		})
	}
	add("uniform-1m", false, million, l.saturation)
	add("half-1m", false, million, l.halfLoad)
	add("uniform-10m", true, 10*million, l.saturation)
	add("addresses", true, million/10, l.byAddress)
	add("compare", true, million, l.compare) // it takes as long as all others
	return parts
}

// measure runs the benchmark.
func measure(ctx context.Context, args []string) (err error) {
	const longest = 90 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	l := &lab{}
	flags := l.Flags("redirect")
	flags.StringVar(&l.before, "before", "", "another build of this program, whose edge is measured as well")
	flags.DurationVar(&l.round, "round", time.Second, "length of a round at saturation, whole seconds")
	if err := l.Parse(flags, args); err != nil {
		return err
	}
	if l.processors, err = bench.Split(); err != nil {
		return err
	}
	if l.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if l.targets, err = corpus.ReadTargets(l.Targets); err != nil {
		return err
	}
	if l.dir, err = bench.TempDir(""); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	var stop func() error
	if l.ship, stop, err = startSink(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return l.Run(ctx, l.sections())
}

// replica returns a directory with a replica that a build of this program has made.
func (l *lab) replica(ctx context.Context, build string, links int, flags ...string) (string, error) {
	dir, err := bench.TempDir(l.dir)
	if err != nil {
		return "", err
	}
	l.Logf("making a replica of %d links", links)
	args := append([]string{partFill, "-targets", l.Targets, "-links", strconv.Itoa(links), "-dir", dir}, flags...)
	cmd := exec.CommandContext(ctx, build, args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("make a replica: %w", err)
	}
	return dir, nil
}
