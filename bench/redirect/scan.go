//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
)

// askedAtOnce is how many questions an edge may ask the control plane at once, and in each second: the default of
// upstream.Config.PerSecond, which is the burst as well.
const askedAtOnce = 100

// tried is what a scan of one kind of codes leaves behind.
type tried struct {
	requests       int64
	took           time.Duration // from one look at the questions to the other
	before, after  int64         // memory, bytes
	questions      int64
	sockets, files int // beside those of clients, at most
}

func (t *tried) perCode() float64 { return max(0, float64(t.after-t.before)/float64(t.requests)) }

// mayAsk is how many questions the edge may have asked.
func (t *tried) mayAsk() float64 { return askedAtOnce * (1 + t.took.Seconds()) }

// scan lets someone try codes that no link has, and looks at what that leaves
// behind: codes that cannot have been issued, and codes of prefixes in use, of which an edge without keys cannot know that they were not issued a moment ago.
func scan(ctx context.Context, l *lab, links int) (_ bench.Section, err error) {
	length := 12 * time.Second
	if l.o.Try {
		length = 2 * time.Second
	}
	edge, err := l.startEdge(ctx, links)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, edge.stop()) }()
	if err := edge.loaded(ctx); err != nil {
		return bench.Section{}, err
	}
	idle, err := edge.openFiles()
	if err != nil {
		return bench.Section{}, err
	}
	impossible, err := l.try(ctx, edge, idle, load{corpus.NeverIssued, links, corpus.Bare}, length)
	if err != nil {
		return bench.Section{}, err
	}
	inUse, err := l.try(ctx, edge, idle, load{corpus.Possible, links, corpus.Bare}, length)
	if err != nil {
		return bench.Section{}, err
	}
	if _, err := edge.ask("keys", "none"); err != nil {
		return bench.Section{}, err
	}
	possible, err := l.try(ctx, edge, idle, load{corpus.Possible, links, corpus.Bare}, length)
	if err != nil {
		return bench.Section{}, err
	}
	s := bench.Section{
		Title: fmt.Sprintf("A scan of codes that no link has, %s links", count(links)),
		Settings: []bench.Setting{
			{Name: "client", Value: fmt.Sprintf("wrk for %s of each kind, codes at random; %s of the same went before", length, scanWarm)},
			{Name: "key ranges", Value: fmt.Sprintf("of %d prefixes of 3,844", len(corpus.Issued()))},
			{Name: "control plane", Value: fmt.Sprintf("a part of the edge's process, which counts the questions and answers each after %s that there is no such link", answersAfter)},
		},
		Cases: []bench.Case{
			impossible.report("cannot have been issued", "codes of prefixes that no key range has."),
			inUse.report("of prefixes in use", "codes of prefixes of key ranges. The edge has the keys that tell their counters: of 916,132,832 codes of a prefix 30,000 can have been issued."),
			possible.report("of prefixes in use, without keys", "the same with an edge that reaches its control plane without TLS, and so goes by prefixes: questions may be 100, and 100 a second."),
		},
		Goals: []bench.Goal{
			{What: "questions for codes that cannot have been issued", Most: 0, Figure: float64(impossible.questions)},
			{What: "questions per million codes of prefixes in use", Most: 100, Figure: 1e6 * float64(inUse.questions) / float64(inUse.requests)},
			{What: "questions for codes of prefixes in use, without keys", Most: possible.mayAsk(), Figure: float64(possible.questions)},
			{What: "memory kept, bytes per code that cannot have been issued", Most: 8, Figure: impossible.perCode()},
			{What: "memory kept, bytes per code of prefixes in use", Most: 8, Figure: max(inUse.perCode(), possible.perCode())},
			{What: "connections to others", Most: 0, Figure: float64(max(impossible.sockets, inUse.sockets, possible.sockets))},
			{What: "open files and sockets more than before", Most: 0, Figure: float64(max(impossible.files, inUse.files, possible.files))},
		},
	}
	return s, s.Compare()
}

// scanWarm is for how long a kind of codes is tried before: it takes as much memory as connections and what is
// remembered of unknown codes do.
const scanWarm = 3 * time.Second

// try scans one kind of codes, with an edge that had so many files open before anybody came.
func (l *lab) try(ctx context.Context, edge *target, idle openFiles, codes load, length time.Duration) (t tried, err error) {
	if _, err := l.visit(ctx, edge, codes, scanWarm); err != nil {
		return t, err
	}
	if t.before, err = l.steadyMemory(ctx, edge); err != nil {
		return t, err
	}
	asked, err := edge.questions()
	if err != nil {
		return t, err
	}
	begun, watch := time.Now(), watchFiles(edge)
	r, err := l.visit(ctx, edge, codes, length)
	most, watchErr := watch()
	if err := errors.Join(err, watchErr); err != nil {
		return t, err
	}
	if t.questions, err = edge.questions(); err != nil {
		return t, err
	}
	t.questions, t.took, t.requests = t.questions-asked, time.Since(begun), r.Requests
	t.sockets, t.files = max(0, most.sockets-idle.sockets-l.o.Connections), max(0, most.all-idle.all-l.o.Connections)
	t.after, err = l.steadyMemory(ctx, edge)
	return t, err
}

func (t *tried) report(name, what string) bench.Case {
	one := func(name string, figure float64) bench.Measure {
		return bench.Measure{Name: name, Rounds: []float64{figure}}
	}
	return bench.Case{Name: name, What: what, Requests: t.requests, Measures: []bench.Measure{
		one("questions", float64(t.questions)),
		one("seconds", t.took.Seconds()),
		one("memory before, MB", float64(t.before)/1e6),
		one("memory after, MB", float64(t.after)/1e6),
		one("kept, bytes per code", t.perCode()),
		one("connections to others", float64(t.sockets)),
		one("files and sockets more", float64(t.files)),
	}}
}

// questions tells how many times an edge has asked the control plane.
func (t *target) questions() (int64, error) {
	text, err := t.ask("questions")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// watchFiles counts what a target has open until the function that it gives is
// called, which gives the largest numbers.
func watchFiles(t *target) func() (openFiles, error) {
	var (
		watching sync.WaitGroup
		stop     = make(chan struct{})
		most     openFiles
		failed   error
	)
	watching.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			n, err := t.openFiles()
			most = openFiles{max(most.all, n.all), max(most.sockets, n.sockets)}
			failed = errors.Join(failed, err)
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	return func() (openFiles, error) {
		close(stop)
		watching.Wait()
		return most, failed
	}
}
