package controlplane

import "time"

// rounds is what the last commit tells of the next: how many callers there seem to be,
// and how long it is worth to wait for them.
type rounds struct {
	callers  int
	patience time.Duration
	idle     int // batches that nobody is waited for, since it was in vain
}

const (
	maxPatience  = 3 * time.Millisecond
	idleAfterAll = 16 // batches
)

// ended notes a commit: how many it had and who came meanwhile, and how long it took.
func (r *rounds) ended(callers int, took time.Duration) {
	r.callers, r.patience = callers, min(took/4, maxPatience)
	r.idle = max(r.idle-1, 0)
}

// worthwhile reports whether more than those who are here can be expected.
func (r *rounds) worthwhile(here int) bool { return r.idle == 0 && here < r.callers && r.patience > 0 }

// missed notes that not all came who were waited for. When it was far from all, they
// do not come in rounds.
func (r *rounds) missed(here int) {
	if here < r.callers*3/4 {
		r.idle = idleAfterAll
	}
}
