package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
)

// turns says at which place somebody is killed next: where it has happened least.
type turns struct {
	who string

	mu    sync.Mutex
	queue []place
	kills map[string]int
	other int // killed at random moments
}

func newTurns(who string, places []place) *turns {
	return &turns{who: who, queue: slices.Clone(places), kills: make(map[string]int)}
}

// next returns a place, with how often it is to be passed first.
func (t *turns) next() place {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(t.queue, func(a, b place) int { return t.kills[a.name] - t.kills[b.name] })
	p := t.queue[0]
	t.queue = append(t.queue[1:], p)
	p.passes = rand.IntN(p.passes + 1)
	return p
}

// killed notes a kill; at "", if the moment was random.
func (t *turns) killed(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if name == "" {
		t.other++
	} else {
		t.kills[name]++
	}
}

// missing is the places at which no one was killed yet.
func (t *turns) missing() (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.queue {
		if t.kills[p.name] == 0 {
			names = append(names, t.who+" at "+p.name)
		}
	}
	return names
}

func (t *turns) total() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.kills {
		n += k
	}
	return n + t.other
}

// list reports often somebody was killed where.
func (t *turns) list() (lines []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, n := range t.kills {
		lines = append(lines, fmt.Sprintf("%s at %s: %d", t.who, name, n))
	}
	slices.Sort(lines)
	return append(lines, fmt.Sprintf("%s at any moment: %d", t.who, t.other))
}
