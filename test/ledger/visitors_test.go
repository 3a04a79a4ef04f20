package ledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"waypost/test/devtest"
)

// life is one start of an edge, as visitors see it.
type life struct {
	edge *devtest.Edge
	name string
	busy int // one of that many visits takes place
}

// visitors follow links, and keep the ledger: the redirects that came whole, and the
// requests of which they cannot know whether they were answered.
type visitors struct {
	mu            sync.Mutex
	received, cut map[string]int64 // by code
	led           map[string]int64 // those that came whole, by code, rule and variant
	wrong         []string
}

func newVisitors() *visitors {
	return &visitors{received: make(map[string]int64), cut: make(map[string]int64), led: make(map[string]int64)}
}

// visit follows links on the edge that at returns until ctx ends.
func (v *visitors) visit(ctx context.Context, at func() *life) {
	var f devtest.Follower
	defer f.Close()
	pace := time.NewTicker(4 * time.Millisecond)
	defer pace.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		<-pace.C
		l := at()
		if l == nil || n%l.busy > 0 {
			continue
		}
		code := codeOf(min(rand.IntN(links), rand.IntN(links))) // some are followed more than others
		asked := code
		if rand.IntN(2) == 0 {
			asked += "?first"
		}
		status, sent, err := f.Follow(l.edge.Addr, asked)
		switch {
		case err == nil && status/100 == 3:
			v.note(v.received, code)
			v.note(v.led, code+" "+answered(f.Location))
		case err == nil:
			v.complain("%s of %s was answered %d", code, l.name, status)
		case sent:
			v.note(v.cut, code)
			v.requireEnd(l, err)
		}
	}
}

// requireEnd complains about a request that was cut off, unless its edge was killed.
func (v *visitors) requireEnd(l *life, err error) {
	select {
	case <-l.edge.Exited():
	case <-time.After(time.Minute):
		v.complain("a request to %s, which lives, was cut off: %v", l.name, err)
	}
}

func (v *visitors) note(to map[string]int64, code string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	to[code]++
}

func (v *visitors) complain(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

func (v *visitors) String() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return fmt.Sprintf("%d redirects, %d requests cut off", sum(v.received), sum(v.cut))
}

func sum(counts map[string]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}
