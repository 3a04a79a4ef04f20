//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"waypost/bench"
	"waypost/bench/devsystem"
)

// Names of cases and measures.
const (
	imported    = "waypost links import"
	plainBy100  = "plain INSERTs by 100"
	linkTime    = "µs per link"
	linkCPU     = "CPU µs per link"
	linkRate    = "links per second"
	peakClient  = "peak MB of the client"
	peakControl = "peak MB of the control plane"
	peakEdge    = "peak MB of an edge"
)

const plainConnections = 4

// measureImport imports a file between two rounds of plain INSERTs.
func (l *lab) measureImport(ctx context.Context) (_ bench.Section, err error) {
	file := filepath.Join(l.dir, "links.csv")
	if err := l.writeLinks(file, l.o.Import); err != nil {
		return bench.Section{}, err
	}
	s, err := devsystem.Start(ctx, l.dir, "import")
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	p, err := l.newPlain(ctx, s.State.DatabaseURL, plainConnections)
	if err != nil {
		return bench.Section{}, err
	}
	defer p.pool.Close()

	plainTimes := map[string][]float64{}
	plainRound := func() error {
		used, err := used(s)
		if err != nil {
			return err
		}
		took, err := p.insert(ctx, l.o.Plain, 100, plainConnections, true)
		if err != nil {
			return err
		}
		l.o.Log("%d links by plain INSERTs in %s", l.o.Plain, took)
		spent, err := used()
		n := l.o.Plain / 100 * 100
		cpu, parts := perLink(spent, int64(n))
		one := took.Seconds() * 1e6 / float64(n)
		parts[linkTime], parts[linkCPU], parts[linkRate] = one, cpu, math.Round(1e6/one)
		for name, figure := range parts {
			plainTimes[name] = append(plainTimes[name], figure)
		}
		return err
	}
	if err := plainRound(); err != nil {
		return bench.Section{}, err
	}
	spent, err := used(s)
	if err != nil {
		return bench.Section{}, err
	}
	start := time.Now()
	client := exec.CommandContext(ctx, s.Binary, "links", "import", file, "--data-dir", s.DataDir)
	if out, err := client.CombinedOutput(); err != nil {
		return bench.Section{}, fmt.Errorf("importing: %w\n%s", err, out)
	}
	answered := time.Since(start)
	if err := s.AwaitEdges(ctx); err != nil {
		return bench.Section{}, err
	}
	took := time.Since(start)
	l.o.Log("%d links imported in %s, on both edges after %s", l.o.Import, answered, took)
	theirs, err := spent()
	if err != nil {
		return bench.Section{}, err
	}
	theirs.Own += client.ProcessState.UserTime() + client.ProcessState.SystemTime()
	cpu, parts := perLink(theirs, int64(l.o.Import))
	if err := plainRound(); err != nil {
		return bench.Section{}, err
	}

	control, err := devsystem.Peak(s.State.Control.PID)
	if err != nil {
		return bench.Section{}, err
	}
	var edge float64
	for _, e := range s.State.Edges {
		mb, err := devsystem.Peak(e.PID)
		if err != nil {
			return bench.Section{}, err
		}
		edge = max(edge, mb)
	}
	usage, _ := client.ProcessState.SysUsage().(*syscall.Rusage)
	one := took.Seconds() * 1e6 / float64(l.o.Import)
	// The import is compared with the rounds before and after it, since it was one.
	measure := func(name string, rounds ...float64) bench.Measure { return bench.Measure{Name: name, Rounds: rounds} }
	compared := bench.Measure{Name: linkTime, Compared: true, Rounds: []float64{one, one}}
	measures := []bench.Measure{{Name: linkTime, Compared: true, Rounds: plainTimes[linkTime]}}
	for _, name := range []string{linkCPU, cpuPostgres, cpuControl, cpuEdges, cpuClient, linkRate} { // columns as those of the import
		measures = append(measures, measure(name, plainTimes[name]...))
	}
	return bench.Section{
		Title: fmt.Sprintf("Importing %d links", l.o.Import),
		Settings: []bench.Setting{
			{Name: "links", Value: "minted codes, targets of 90 bytes on average, nothing else"},
			{Name: "CPU", Value: "of all processes, the client and both edges included"},
			{Name: "time", Value: "until both edges have applied the last link"},
			{Name: "rounds", Value: fmt.Sprintf("the import once; %d plain INSERTs before it and as many after it, over %d connections", l.o.Plain, plainConnections)},
		},
		Cases: []bench.Case{
			{
				Name: plainBy100, What: "links, and the entries that the changelog would hold of them, 100 of each in a transaction.", Base: plainBy100, Requests: int64(2 * l.o.Plain),
				Measures: measures,
			},
			{
				Name: imported, What: "CSV to links on two edges: the command, the API with all of its checks, keys, the changelog, the stream.", Base: plainBy100, Requests: int64(l.o.Import),
				Measures: []bench.Measure{
					compared, measure(linkCPU, cpu), measure(cpuPostgres, parts[cpuPostgres]), measure(cpuControl, parts[cpuControl]),
					measure(cpuEdges, parts[cpuEdges]), measure(cpuClient, parts[cpuClient]), measure(linkRate, math.Round(1e6/one)),
					measure(peakClient, math.Round(float64(usage.Maxrss)/1024)), measure(peakControl, math.Round(control)), measure(peakEdge, math.Round(edge)),
				},
			},
		},
	}, nil
}

// used gives what tells the CPU time that the system and this program have used since.
func used(s *devsystem.System) (func() (devsystem.Used, error), error) {
	before, err := s.CPU()
	return func() (devsystem.Used, error) {
		now, err := s.CPU()
		return now.Since(before), err
	}, err
}

// The parts of linkCPU.
const (
	cpuPostgres = "of which PostgreSQL's"
	cpuControl  = "the control plane's"
	cpuEdges    = "both edges'"
	cpuClient   = "the client's"
)

// perLink gives times in µs for each of n links.
func perLink(u devsystem.Used, n int64) (total float64, parts map[string]float64) {
	each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(n) }
	return each(u.Total()), map[string]float64{
		cpuPostgres: each(u.Postgres), cpuControl: each(u.Control), cpuEdges: each(u.Edges), cpuClient: each(u.Own),
	}
}

// writeLinks makes a file to import.
func (l *lab) writeLinks(name string, n int) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("making a file of links: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	line := []byte("original_url\n")
	for i := range n {
		if _, err := w.Write(line); err != nil {
			return fmt.Errorf("writing links: %w", err)
		}
		line = append(l.targets.Append(append(line[:0], '"'), uint64(i)), "\"\n"...)
	}
	_, err = w.Write(line)
	return errors.Join(err, w.Flush())
}
