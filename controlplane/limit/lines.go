package limit

import (
	"context"
	"net/netip"
	"slices"
	"sync"
)

// Lines lets a few callers run at a time. Others wait in a line for each network, and the
// lines are served in turns, so that a network with many callers delays others by one
// caller at a time. When too many wait, the last of the longest line is turned away. Its
// methods may be called by many goroutines at once.
type Lines struct {
	most, places int

	mu      sync.Mutex
	running int
	waiting int
	lines   map[netip.Prefix][]*turn // none is empty
	next    []netip.Prefix           // of the lines, in the order in which they are served
}

// turn is that of a caller who waits.
type turn struct {
	ready chan struct{} // closed when it has come, or never will
	come  bool          // set before
}

// NewLines lets most callers run at a time, and places wait.
func NewLines(most, places int) *Lines {
	return &Lines{most: most, places: places, lines: make(map[netip.Prefix][]*turn)}
}

// Enter waits until ctx ends, and reports whether it is the turn of a caller from the
// network around an address. If so, the caller calls leave at its end.
func (l *Lines) Enter(ctx context.Context, from netip.Addr) (leave func(), ok bool) {
	key := around(Network(from))
	l.mu.Lock()
	if l.running < l.most {
		l.running++
		l.mu.Unlock()
		return l.leave, true
	}
	if l.waiting >= l.places && !l.turnAway(key) {
		l.mu.Unlock()
		return nil, false
	}
	t := &turn{ready: make(chan struct{})}
	if l.lines[key] == nil {
		l.next = append(l.next, key)
	}
	l.lines[key] = append(l.lines[key], t)
	l.waiting++
	l.mu.Unlock()
	select {
	case <-t.ready:
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		if i := slices.Index(l.lines[key], t); i >= 0 {
			l.remove(key, i)
			return nil, false
		}
	}
	return l.leave, t.come
}

// turnAway makes a place for a caller whose line is shorter than the longest. It reports
// false if there is none.
func (l *Lines) turnAway(key netip.Prefix) bool {
	longest := key
	for other, line := range l.lines {
		if len(line) > len(l.lines[longest]) {
			longest = other
		}
	}
	last := len(l.lines[longest]) - 1
	if longest == key || last <= len(l.lines[key]) {
		return false
	}
	t := l.lines[longest][last]
	l.remove(longest, last)
	close(t.ready)
	return true
}

// remove takes a caller out of a line.
func (l *Lines) remove(key netip.Prefix, i int) {
	l.waiting--
	if l.lines[key] = slices.Delete(l.lines[key], i, i+1); len(l.lines[key]) == 0 {
		delete(l.lines, key)
		l.next = slices.DeleteFunc(l.next, func(other netip.Prefix) bool { return other == key })
	}
}

// leave lets the first of the next line run.
func (l *Lines) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.next) == 0 {
		l.running--
		return
	}
	key := l.next[0]
	l.next = append(l.next[1:], key)
	t := l.lines[key][0]
	l.remove(key, 0)
	t.come = true
	close(t.ready)
}
