package server

import (
	"net/netip"
	"sync"
	"sync/atomic"
)

// roster has every open connection, so that limits can be kept and those that wait
// can be ended. It is locked when a connection comes and goes, never for a request.
type roster struct {
	metrics    *metrics
	most       int // connections in all
	mostOfOne  int // connections of one address
	open       atomic.Int64
	ending     atomic.Bool
	mu         sync.Mutex
	first      *visitor
	byAddress  map[netip.Addr]int32 // has no more entries than there are connections
	empty      chan struct{}        // closed when all have left after end
	emptyKnown bool
}

// place is a connection's in the roster.
type place struct {
	in             bool
	address        netip.Addr // by which it is counted; zero: it is not
	previous, next *visitor
}

func newRoster(m *metrics, most, mostOfOne int) *roster {
	return &roster{metrics: m, most: most, mostOfOne: mostOfOne, byAddress: map[netip.Addr]int32{}, empty: make(chan struct{})}
}

// enter takes a connection in, unless it is one too many.
func (r *roster) enter(v *visitor) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open.Load() >= int64(r.most) {
		r.metrics.refused[refusedTotal].Add(1)
		return false
	}
	if !r.count(v) {
		return false
	}
	v.place.in = true
	if v.place.next = r.first; r.first != nil {
		r.first.place.previous = v
	}
	r.first = v
	r.open.Add(1)
	if r.ending.Load() {
		v.end() // it was accepted just before its listener was closed
	}
	return true
}

// count counts a connection by its address, unless that has too many. Trusted
// proxies, and peers without an address, may have as many as they like.
func (r *roster) count(v *visitor) bool {
	address := network(v.peer)
	if v.trusted || !address.IsValid() {
		return true
	}
	if r.byAddress[address] >= int32(r.mostOfOne) {
		r.metrics.refused[refusedAddress].Add(1)
		return false
	}
	r.byAddress[address]++
	v.place.address = address
	return true
}

// recount is for a connection whose address has become another one. When that has
// too many it is false, and the connection has to be closed.
func (r *roster) recount(v *visitor) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !v.place.in {
		return false
	}
	r.uncount(v)
	return r.count(v)
}

func (r *roster) uncount(v *visitor) {
	address := v.place.address
	if !address.IsValid() {
		return
	}
	v.place.address = netip.Addr{}
	if r.byAddress[address]--; r.byAddress[address] == 0 {
		delete(r.byAddress, address)
	}
}

// leave lets a connection go; again does no harm.
func (r *roster) leave(v *visitor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !v.place.in {
		return
	}
	v.place.in = false
	r.uncount(v)
	if v.place.previous != nil {
		v.place.previous.place.next = v.place.next
	} else {
		r.first = v.place.next
	}
	if v.place.next != nil {
		v.place.next.place.previous = v.place.previous
	}
	v.place.previous, v.place.next = nil, nil
	r.open.Add(-1)
	r.tellEmpty()
}

// end ends all connections that wait, now and whenever one begins to. The channel
// is closed when none is left.
func (r *roster) end() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending.Store(true)
	for v := r.first; v != nil; v = v.place.next {
		v.end()
	}
	r.tellEmpty()
	return r.empty
}

func (r *roster) tellEmpty() {
	if r.ending.Load() && r.first == nil && !r.emptyKnown {
		r.emptyKnown = true
		close(r.empty)
	}
}

// network gives what one subscriber has: an IPv4 address, or the /64 of an IPv6 one.
func network(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	prefix, err := addr.WithZone("").Prefix(64)
	if err != nil {
		return addr
	}
	return prefix.Addr()
}
