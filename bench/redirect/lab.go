//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
)

const (
	million    = 1_000_000
	tenMillion = 10_000_000

	connections = 64 // of wrk
)

// options are the flags of the program.
type options struct {
	bench.Options
	Before string        // another build of this program; "" for none
	Round  time.Duration // of wrk, whole seconds
}

func parseOptions(args []string) (o options, err error) {
	flags := o.Flags("redirect")
	flags.StringVar(&o.Before, "before", "", "another build of this program, whose edge is measured as well")
	flags.DurationVar(&o.Round, "round", time.Second, "length of a round at saturation, whole seconds")
	if err := o.Parse(flags, args); err != nil {
		return o, err
	}
	if o.Round < time.Second || o.Round > time.Minute || o.Round%time.Second != 0 {
		return o, errors.New("-round must be 1s to 60s, in whole seconds")
	}
	return o, nil
}

// lab holds what the sections of a run share.
type lab struct {
	o          options
	self       string // path of this program
	dir        string
	filled     map[string]bool // directories of replicas that are complete
	sink       *sink
	processors *bench.Processors
}

func (l *lab) sections() (parts []bench.Part) {
	add := func(name string, links int, measure func(ctx context.Context, links int) (bench.Section, error)) {
		full := links > million
		if l.o.Try {
			links /= 500
		}
		parts = append(parts, bench.Part{
			Name: name, Full: full,
			Measure: func(ctx context.Context) (bench.Section, error) { return measure(ctx, links) },
		})
	}
	for _, size := range []struct {
		name  string
		links int
	}{{"1m", million}, {"10m", tenMillion}} {
		add("uniform-"+size.name, size.links, func(ctx context.Context, links int) (bench.Section, error) {
			return l.saturation(ctx, links, corpus.Uniform)
		})
		add("zipf-"+size.name, size.links, func(ctx context.Context, links int) (bench.Section, error) {
			return l.saturation(ctx, links, corpus.Zipfian)
		})
		add("half-"+size.name, size.links, l.halfLoad)
		add("work-"+size.name, size.links, l.atWork)
		add("rules-"+size.name, size.links, l.ruled)
		add("footprint-"+size.name, size.links, l.footprint)
	}
	add("compare", million, l.compare)
	parts[len(parts)-1].Full = true // it takes as long as all others
	return parts
}

// measure runs the benchmark.
func measure(ctx context.Context, args []string) (err error) {
	const longest = 90 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	l := &lab{filled: map[string]bool{}}
	if l.o, err = parseOptions(args); err != nil {
		return err
	}
	if l.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if _, err := exec.LookPath("wrk"); err != nil {
		return fmt.Errorf("wrk is missing; deploy/install-missing.sh wrk installs it: %w", err)
	}
	if l.dir, err = l.o.TempDir(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	var restore func() error
	if l.processors, restore, err = bench.Split(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	if l.sink, err = newSink(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.sink.close()) }()
	return l.o.Run(ctx, l.sections())
}

// replica returns a directory with a replica that a build of this program can serve. The
// first of a size is made by that build, and the others share its tables, which never
// change.
func (l *lab) replica(ctx context.Context, build string, links int, rules string) (string, error) {
	master := filepath.Join(l.dir, "replica-"+strconv.Itoa(links))
	if build != l.self {
		master += "-before"
	}
	args := []string{partFill, "-targets", l.o.Targets, "-links", strconv.Itoa(links)}
	if rules != "" { // another build may not know the flag
		master += "-" + rules
		args = append(args, "-rules", rules)
	}
	if !l.filled[master] {
		l.o.Logf("making a replica of %d links", links)
		cmd := exec.CommandContext(ctx, build, append(args, "-dir", master)...)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return "", errors.Join(fmt.Errorf("make a replica: %w", err), os.RemoveAll(master))
		}
		l.filled[master] = true
	}
	dir, err := os.MkdirTemp(l.dir, "clone-")
	if err != nil {
		return "", fmt.Errorf("make a directory for a replica: %w", err)
	}
	return dir, clone(master, dir)
}

// clone copies a replica that no process has open. Its tables are linked.
func clone(from, to string) error {
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil || name == "." {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case d.IsDir():
			return os.Mkdir(target, 0o755)
		case filepath.Ext(name) == ".sst":
			return os.Link(path, target)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o644)
	})
	if err != nil {
		return fmt.Errorf("copy a replica: %w", err)
	}
	return nil
}

// subdir makes a directory of the run.
func (l *lab) subdir(prefix string) (string, error) {
	dir, err := os.MkdirTemp(l.dir, prefix)
	if err != nil {
		return "", fmt.Errorf("make a directory: %w", err)
	}
	return dir, nil
}

func writeFile(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write a file of a server: %w", err)
	}
	return nil
}
