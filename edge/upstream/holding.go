package upstream

import (
	"maps"

	"waypost"
)

// holding is the answers that are ahead of the replica. It is never changed, but
// replaced.
type holding struct {
	answers map[key]heldAnswer
	last    waypost.Position // the furthest
}

type heldAnswer struct {
	raw []byte
	at  waypost.Position
}

// passed reports whether the replica shows what was so at a position. Another history
// shows something else, and answers of this one are of no use there, nor while a replica is
// repaired, which has no sequence then: it may show what is newer.
func passed(replica, at waypost.Position) bool {
	return replica.Epoch != at.Epoch || replica.Seq == 0 || replica.Seq >= at.Seq
}

// ahead finds the answer for a link that is ahead of the replica, which was at least at
// a position when it was asked: until it has passed the answer it shows nothing newer.
func (l *Links) ahead(h *holding, at waypost.Position, domain waypost.DomainID, code []byte) ([]byte, bool) {
	if passed(at, h.last) {
		l.release()
		return nil, false
	}
	if len(code) > len(key{}.code) {
		return nil, false
	}
	a, ok := h.answers[newKey(domain, code)]
	return a.raw, ok && !passed(at, a.at)
}

// hold keeps an answer until the replica has passed it; false when there are too many.
func (l *Links) hold(k key, raw []byte, at waypost.Position) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := &holding{answers: make(map[key]heldAnswer), last: at}
	if h := l.held.Load(); h != nil {
		replica := l.cfg.Replica.Position()
		maps.Copy(next.answers, h.answers)
		maps.DeleteFunc(next.answers, func(_ key, a heldAnswer) bool { return passed(replica, a.at) })
		if h.last.Epoch == at.Epoch && h.last.Seq > at.Seq {
			next.last = h.last
		}
	}
	if len(next.answers) >= l.cfg.Hold {
		return false
	}
	next.answers[k] = heldAnswer{raw: raw, at: at}
	l.held.Store(next)
	return true
}

// release lets go of everything, once the replica has passed it all.
func (l *Links) release() {
	if !l.mu.TryLock() {
		return // somebody else will
	}
	defer l.mu.Unlock()
	if h := l.held.Load(); h != nil && passed(l.cfg.Replica.Position(), h.last) {
		l.held.Store(nil)
	}
}

// heldCount is called with the lock held. What is passed counts until it is let go of.
func (l *Links) heldCount() int {
	h := l.held.Load()
	if h == nil {
		return 0
	}
	if passed(l.cfg.Replica.Position(), h.last) {
		l.held.Store(nil)
		return 0
	}
	return len(h.answers)
}
