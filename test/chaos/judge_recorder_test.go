package chaos

import (
	"slices"
	"sync"
	"time"
)

// Recorder collects a history. Its methods may be called by many goroutines.
type Recorder struct {
	began time.Time

	mu sync.Mutex
	h  History
}

// NewRecorder begins a history.
func NewRecorder(seed uint64, edges []string) *Recorder {
	return &Recorder{began: time.Now(), h: History{
		Seed: seed, Edges: edges, Stable: make(map[string]string), Budgets: make(map[string]Budget),
	}}
}

// Now returns the time since the beginning.
func (r *Recorder) Now() time.Duration { return time.Since(r.began) }

// Add records a request that has ended.
func (r *Recorder) Add(op Operation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Operations = append(r.h.Operations, op)
}

// Begin records that an incident begins at a node, and returns the function to call at
// its end.
func (r *Recorder) Begin(what What, node string) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.h.Incidents)
	r.h.Incidents = append(r.h.Incidents, Incident{What: what, Node: node, Begin: r.Now(), End: forever})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.h.Incidents[n].End = r.Now()
	}
}

// Struck records a fault that is over.
func (r *Recorder) Struck(f Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Faults = append(r.h.Faults, f)
}

// Change changes the part of the history that describes the whole system.
func (r *Recorder) Change(f func(*History)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.h)
}

// History returns the history recorded so far.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.h
	h.Operations, h.Incidents, h.Faults = slices.Clone(h.Operations), slices.Clone(h.Incidents), slices.Clone(h.Faults)
	return &h
}
