package replication

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// queue lets requests in, so many at once, and the others in the order in which they came. A node
// has one turn at a time, and one place among those that wait: a request of a node that waits already takes
// the place of the one before. A node that comes back soon after it was cut off goes on from its old place,
// since it has waited for it.
type queue struct {
	limit   int           // at once
	most    int           // that wait
	long    time.Duration // that a node may have its turn while others wait
	metrics queueMetrics

	mu      sync.Mutex
	running map[*place]struct{}
	waiting []*place // in the order of their numbers
	last    uint64   // number that was given
	left    map[string]former
	kept    map[string]*time.Timer // turns that are kept for nodes, until these end
}

// place is that of one request.
type place struct {
	queue  *queue
	node   string // "": nobody knows
	number uint64
	backs  int           // times that the node came back with this number after it had its turn
	had    bool          // its turn has come
	since  time.Time     // when it came
	used   time.Duration // of turns with this number, before this one
	sent   bool          // it has had something in this turn
	again  bool          // its turn was kept for it, and it has had nothing since
	ends   ending        // why it leaves
	turn   chan struct{} // closed when its turn has come
	taken  chan struct{} // closed when another request of its node has its place
}

// ending is why a request leaves its place.
type ending int

const (
	cutOff  ending = iota
	allSent        // of what was asked for
	gaveWay        // to those who wait
	ousted         // by another request of its node
)

// former is the place of a node that has left.
type former struct {
	number uint64
	backs  int
	had    bool // its turn had come
	used   time.Duration
	again  bool // a turn was kept for it, as for a place
	whole  bool // it had all that it asked for
	until  time.Time
}

const (
	// keptPlace is how long a node may be away until it has lost its place: longer than followers
	// pause between connections.
	keptPlace = 30 * time.Second
	// keptTurn is how long a turn is kept for a node that leaves before it has had anything. A follower that
	// goes on with a restore learns of the head what to ask for, and asks again at once.
	keptTurn = time.Second
	// comebacks is how often a node goes on from one place after a turn. One that fails
	// again and again must not be the next for ever. Who is cut off while it waits keeps nobody away.
	comebacks = 8
)

var errQueueFull = errors.New("too many wait already")

func newQueue(limit, most int, long time.Duration, metrics queueMetrics) *queue {
	return &queue{limit: limit, most: most, long: long, metrics: metrics, running: map[*place]struct{}{}, left: map[string]former{}, kept: map[string]*time.Timer{}}
}

// enter takes a place, whose turn may have come already. Whoever has one calls leave. A request is anew when
// it is not the continuation of another one.
func (q *queue) enter(node string, anew bool) (*place, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.measure()
	p := &place{queue: q, node: node, turn: make(chan struct{}), taken: make(chan struct{})}
	before, known := q.place(p, anew)
	room := q.most
	if known { // it had its place before those who have filled the queue
		room += q.limit
	}
	kept := known && q.kept[node] != nil
	if before == nil && len(q.waiting) >= room && !kept && !q.free(p) {
		q.metrics.refused.Inc()
		return nil, errQueueFull
	}
	if before != nil {
		q.waiting = slices.DeleteFunc(q.waiting, func(o *place) bool { return o == before })
		before.ends = ousted
		close(before.taken)
	}
	delete(q.left, node)
	q.release(node)
	if kept {
		q.begin(p)
		return p, nil
	}
	i, _ := slices.BinarySearchFunc(q.waiting, p, byNumber)
	q.waiting = slices.Insert(q.waiting, i, p)
	q.call()
	return p, nil
}

// place gives a request its number, and the place that it takes from another request of its node. It is known when
// the number is an old one.
func (q *queue) place(p *place, anew bool) (before *place, known bool) {
	now := time.Now()
	maps.DeleteFunc(q.left, func(_ string, f former) bool { return now.After(f.until) })
	if p.node != "" {
		for _, o := range q.waiting {
			if o.node == p.node {
				p.number, p.backs, p.used, p.again = o.number, o.backs, o.used, o.again
				return o, true
			}
		}
		f, found := q.left[p.node]
		for o := range q.running { // whose connection is cut, which was not noticed yet
			if o.node == p.node {
				f, found = former{number: o.number, backs: o.backs, had: true, used: o.spent(), again: o.again}, true
			}
		}
		another := f.whole && anew // and not more of the same
		if found && f.backs < comebacks && !another && !q.tooLong(p.node, f.used) {
			p.number, p.backs, p.used, p.again = f.number, f.backs, f.used, f.again
			if f.had {
				p.backs++
			}
			return nil, true
		}
	}
	q.last++
	p.number = q.last
	return nil, false
}

// tooLong reports whether a node has had its turn for so long that it goes on behind the others who wait.
func (q *queue) tooLong(node string, used time.Duration) bool { return used > q.long && q.others(node) }

// others reports whether another node waits.
func (q *queue) others(node string) bool {
	return slices.ContainsFunc(q.waiting, func(o *place) bool { return o.node == "" || o.node != node })
}

// spent is how long the node has had its turn with this number.
func (p *place) spent() time.Duration {
	if !p.had {
		return p.used
	}
	return p.used + time.Since(p.since)
}

// carry counts the time of a turn that has ended for what the node has asked for meanwhile, and reports
// whether it has.
func (q *queue) carry(p *place) bool {
	i := slices.IndexFunc(q.waiting, func(o *place) bool { return p.node != "" && o.node == p.node })
	if i < 0 {
		return false
	}
	if q.waiting[i].number != p.number {
		return true
	}
	o := q.waiting[i]
	o.used = p.spent()
	if q.tooLong(o.node, o.used) {
		q.last++
		o.number, o.backs, o.used = q.last, 0, 0
		q.waiting = append(slices.Delete(q.waiting, i, i+1), o)
	}
	return true
}

func byNumber(a, b *place) int { return cmp.Compare(a.number, b.number) }

// free reports whether a place has its turn at once.
func (q *queue) free(p *place) bool {
	return q.room() && !q.runs(p.node)
}

// room reports whether there is a turn that nobody has and none is kept for.
func (q *queue) room() bool { return len(q.running)+len(q.kept) < q.limit }

// keep keeps the turn of a node that comes back at once.
func (q *queue) keep(node string) {
	var timer *time.Timer
	timer = time.AfterFunc(keptTurn, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		defer q.measure()
		if q.kept[node] == timer {
			delete(q.kept, node)
			q.call()
		}
	})
	q.kept[node] = timer
}

// release keeps no turn for a node any longer.
func (q *queue) release(node string) {
	if timer, found := q.kept[node]; found {
		timer.Stop()
		delete(q.kept, node)
	}
}

// runs reports whether a node has a turn.
func (q *queue) runs(node string) bool {
	for o := range q.running {
		if node != "" && o.node == node {
			return true
		}
	}
	return false
}

// call gives turns to those who are next, while there are any.
func (q *queue) call() {
	for i := 0; i < len(q.waiting) && q.room(); {
		p := q.waiting[i]
		if q.runs(p.node) {
			i++
			continue
		}
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.begin(p)
	}
}

// begin gives a place its turn.
func (q *queue) begin(p *place) {
	q.running[p] = struct{}{}
	p.had, p.since = true, time.Now()
	close(p.turn)
}

// progress notes that something was sent.
func (p *place) progress() {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	p.sent, p.again = true, false
}

// leave frees a place, and lets the next one in.
func (p *place) leave() {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.measure()
	delete(q.running, p)
	q.waiting = slices.DeleteFunc(q.waiting, func(o *place) bool { return o == p })
	asks := q.carry(p)
	if p.node != "" && p.had && p.ends == cutOff && !p.sent && !p.again && !asks {
		p.again = true
		q.keep(p.node)
	}
	if p.node != "" && (p.ends == cutOff || p.ends == allSent) && len(q.left) < q.limit+q.most {
		q.left[p.node] = former{p.number, p.backs, p.had, p.spent(), p.again, p.ends == allSent, time.Now().Add(keptPlace)}
	}
	q.call()
}

// standing is which of those who wait a place is, from 1 on, and how many these are; 0 when it does not wait.
func (p *place) standing() (at, of int) {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	i, found := slices.BinarySearchFunc(p.queue.waiting, p, byNumber)
	if !found || p.queue.waiting[i] != p {
		return 0, 0
	}
	return i + 1, len(p.queue.waiting)
}

// end notes why a place is going to be left, unless that is known.
func (p *place) end(why ending) {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	if p.ends == cutOff {
		p.ends = why
	}
}

// before is how many would go before a newcomer; 0: it would have a turn at once.
func (q *queue) before() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.room() {
		return 0
	}
	return len(q.waiting) + 1
}

// givesWay gives a turn up when it has taken too long while another node waits, and reports whether it does.
func (p *place) givesWay() bool {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	if !p.queue.tooLong(p.node, p.spent()) {
		return false
	}
	p.ends = gaveWay
	return true
}

// turns is how many have their turn.
func (q *queue) turns() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.running)
}

type queueMetrics struct {
	running, waiting prometheus.Gauge
	refused          prometheus.Counter
}

func (q *queue) measure() {
	q.metrics.running.Set(float64(len(q.running)))
	q.metrics.waiting.Set(float64(len(q.waiting)))
}
