package server

import (
	"net/netip"
	"sync"
	"sync/atomic"

	listeners "waypost/internal/listener"
	"waypost/internal/semaphore"
)

// registry holds every open connection, so that limits are kept and waiting connections
// can be ended. It is locked when a connection opens and closes, never for a request.
type registry struct {
	metrics   *metrics
	limit     int // connections in all
	byAddress *semaphore.Keyed[netip.Addr]

	open   atomic.Int64
	ending atomic.Bool // a connection ends after its answer

	mu struct {
		sync.Mutex
		first       *conn
		ended       uint32        // bits of the phases in which a connection ends
		empty       chan struct{} // closed when no connection is left after end
		emptyClosed bool
	}
}

// registryEntry is the place of a connection in the registry.
type registryEntry struct {
	in             bool
	address        netip.Addr // the counted address; zero: none is counted
	previous, next *conn
}

func newRegistry(m *metrics, limit, perAddress int) *registry {
	r := &registry{metrics: m, limit: limit, byAddress: semaphore.NewKeyed[netip.Addr](limit, perAddress)}
	r.mu.empty = make(chan struct{})
	return r
}

// addConn adds a connection, and reports false for one above a limit.
func (r *registry) addConn(c *conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open.Load() >= int64(r.limit) {
		r.metrics.refused[refusedTotal].Add(1)
		return false
	}
	if !r.count(c) {
		return false
	}
	c.entry.in = true
	if c.entry.next = r.mu.first; r.mu.first != nil {
		r.mu.first.entry.previous = c
	}
	r.mu.first = c
	r.open.Add(1)
	if phase := c.phase.Load(); r.mu.ended&(1<<phase) != 0 {
		c.endIdle(phase) // it was accepted just before its listener was closed
	}
	return true
}

// count counts a connection by its address, and reports false if the address has too
// many. Trusted proxies and peers without an address are not limited.
func (r *registry) count(c *conn) bool {
	address := listeners.Network(c.peer)
	if c.trusted || !address.IsValid() {
		return true
	}
	if !r.byAddress.TryAcquire(address, 1) {
		r.metrics.refused[refusedAddress].Add(1)
		return false
	}
	c.entry.address = address
	return true
}

// recount counts a connection again after its address has changed. After false the
// connection has to be closed, because its new address has too many.
func (r *registry) recount(c *conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !c.entry.in {
		return false
	}
	r.uncount(c)
	return r.count(c)
}

func (r *registry) uncount(c *conn) {
	if c.entry.address.IsValid() {
		r.byAddress.Release(c.entry.address, 1)
		c.entry.address = netip.Addr{}
	}
}

// remove removes a connection. A second call does nothing.
func (r *registry) remove(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !c.entry.in {
		return
	}
	c.entry.in = false
	r.uncount(c)
	if c.entry.previous != nil {
		c.entry.previous.entry.next = c.entry.next
	} else {
		r.mu.first = c.entry.next
	}
	if c.entry.next != nil {
		c.entry.next.entry.previous = c.entry.previous
	}
	c.entry.previous, c.entry.next = nil, nil
	r.open.Add(-1)
	r.closeEmpty()
}

// endConns ends all connections in a phase in which they wait, now and whenever one comes
// into it. The channel is closed when no connection is left.
func (r *registry) endConns(phase uint32) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending.Store(true)
	r.mu.ended |= 1 << phase
	for c := r.mu.first; c != nil; c = c.entry.next {
		c.endIdle(phase)
	}
	r.closeEmpty()
	return r.mu.empty
}

// endHandshake notes that a connection waits for nothing but its first request.
func (r *registry) endHandshake(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.phase.CompareAndSwap(phaseHandshake, phaseNew) && r.mu.ended&(1<<phaseNew) != 0 {
		c.endIdle(phaseNew)
	}
}

func (r *registry) closeEmpty() {
	if r.ending.Load() && r.mu.first == nil && !r.mu.emptyClosed {
		r.mu.emptyClosed = true
		close(r.mu.empty)
	}
}
