package upstream

import (
	"time"

	"waypost"
)

// holding is the answers that are ahead of the replica. It is never changed, but
// replaced.
type holding struct {
	answers map[key]heldAnswer
	last    waypost.Position // the furthest
	until   time.Time        // all have had their time
}

// heldAnswer stands until the replica has passed it. Whoever could answer with a position that
// the replica never comes to would keep a link as it is for good: so it also has its time.
type heldAnswer struct {
	raw   []byte
	at    waypost.Position
	until time.Time
}

// passed reports whether the replica shows what was so at a position. Another history
// shows something else, and answers of this one are of no use there, nor while a replica is
// repaired, which has no sequence then: it may show what is newer.
func passed(replica, at waypost.Position) bool {
	return replica.Epoch != at.Epoch || replica.Seq == 0 || replica.Seq >= at.Seq
}

// over reports whether an answer does not stand any more.
func (a *heldAnswer) over(replica waypost.Position, now time.Time) bool {
	return passed(replica, a.at) || !now.Before(a.until)
}

// over reports whether none stands any more.
func (h *holding) over(replica waypost.Position, now time.Time) bool {
	return passed(replica, h.last) || !now.Before(h.until)
}

// ahead finds the answer for a link that is ahead of the replica, which was at least at
// a position when it was asked: until it has passed the answer it shows nothing newer.
func (l *Links) ahead(h *holding, at waypost.Position, domain waypost.DomainID, code []byte) ([]byte, bool) {
	now := l.cfg.Clock()
	if h.over(at, now) {
		l.release(now)
		return nil, false
	}
	if len(code) > len(key{}.code) {
		return nil, false
	}
	a, ok := h.answers[newKey(domain, code)]
	return a.raw, ok && !a.over(at, now)
}

// hold keeps an answer until the replica has passed it, or its time is over; false when there are too many.
func (l *Links) hold(k key, raw []byte, at waypost.Position) bool {
	now := l.cfg.Clock()
	until := now.Add(l.cfg.HoldFor)
	l.mu.Lock()
	defer l.mu.Unlock()
	next := &holding{answers: make(map[key]heldAnswer), last: at, until: until}
	if h := l.held.Load(); h != nil {
		replica := l.cfg.Replica.Position()
		for k, a := range h.answers {
			if a.over(replica, now) {
				continue
			}
			next.answers[k] = a
			if a.at.Epoch == at.Epoch && a.at.Seq > next.last.Seq {
				next.last = a.at
			}
			if a.until.After(next.until) { // of who looked at the clock after this one
				next.until = a.until
			}
		}
	}
	if len(next.answers) >= l.cfg.Hold {
		return false
	}
	next.answers[k] = heldAnswer{raw: raw, at: at, until: until}
	l.held.Store(next)
	return true
}

// release lets go of everything, once none stands any more.
func (l *Links) release(now time.Time) {
	if !l.mu.TryLock() {
		return // somebody else will
	}
	defer l.mu.Unlock()
	if h := l.held.Load(); h != nil && h.over(l.cfg.Replica.Position(), now) {
		l.held.Store(nil)
	}
}

// heldCount is called with the lock held. What does not stand any more counts until it is let go of.
func (l *Links) heldCount(now time.Time) int {
	h := l.held.Load()
	if h == nil {
		return 0
	}
	if h.over(l.cfg.Replica.Position(), now) {
		l.held.Store(nil)
		return 0
	}
	return len(h.answers)
}
