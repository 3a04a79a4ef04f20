package upstream

import "time"

// negatives remembers, for a short time, a bounded number of links that are unknown
// upstream as well. The oldest make place.
type negatives struct {
	until map[key]time.Time
	order []key // a ring
	next  int
}

func newNegatives(n int) negatives {
	return negatives{until: make(map[key]time.Time), order: make([]key, n)}
}

func (n *negatives) has(k key, now time.Time) bool { return now.Before(n.until[k]) }

func (n *negatives) add(k key, until time.Time) {
	if _, known := n.until[k]; !known {
		delete(n.until, n.order[n.next])
		n.order[n.next] = k
		n.next = (n.next + 1) % len(n.order)
	}
	n.until[k] = until
}

// breaker keeps from asking somebody who does not answer.
type breaker struct {
	failures int
	min, max time.Duration

	row   int           // failures in a row
	pause time.Duration // the last one
	until time.Time     // nothing is asked before
}

// allows reports whether a question may be asked. After a pause one is, and the next
// when that has had an answer.
func (b *breaker) allows(now time.Time) bool {
	if b.row < b.failures {
		return true
	}
	if now.Before(b.until) {
		return false
	}
	b.until = now.Add(b.pause) // for all but this one
	return true
}

// note takes the outcome of a question, and gives the pause that begins with it.
func (b *breaker) note(ok bool, now time.Time) (opened time.Duration) {
	if ok {
		b.row, b.pause = 0, 0
		return 0
	}
	if b.row++; b.row < b.failures {
		return 0
	}
	b.pause = min(max(2*b.pause, b.min), b.max)
	b.until = now.Add(b.pause)
	return b.pause
}
