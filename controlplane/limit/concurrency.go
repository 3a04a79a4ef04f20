package limit

import (
	"net/netip"
	"sync"
)

// AtOnce limits the requests under way at one moment: those from one address, as
// [Network] defines it, and four times as many from the network around it, because a
// client with many addresses has adjacent ones. Its memory is bounded by the requests
// under way. Its methods may be called by many goroutines at once; nil allows everything.
type AtOnce struct {
	most int

	mu      sync.Mutex
	running map[netip.Prefix]int
}

// aroundShare multiplies the limit of an address for the network around it.
const aroundShare = 4

// NewAtOnce allows an address most requests at a time.
func NewAtOnce(most int) *AtOnce {
	return &AtOnce{most: most, running: make(map[netip.Prefix]int)}
}

// Enter reports whether a request may begin. If so, the caller calls leave at its end.
func (a *AtOnce) Enter(from netip.Addr) (leave func(), ok bool) {
	if a == nil {
		return func() {}, true
	}
	one := Network(from)
	wide := around(one)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running[one] >= a.most || a.running[wide] >= a.most*aroundShare {
		return nil, false
	}
	a.addRequests(one, wide, 1)
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.addRequests(one, wide, -1)
	}), true
}

func (a *AtOnce) addRequests(one, wide netip.Prefix, n int) {
	for _, p := range []netip.Prefix{one, wide} {
		if a.running[p] += n; a.running[p] == 0 {
			delete(a.running, p)
		}
	}
}

// around returns the /24 or /48 of an address. Clients without an address share one.
func around(one netip.Prefix) netip.Prefix {
	bits := 24
	if one.Addr().Is6() {
		bits = 48
	}
	if p, err := one.Addr().Prefix(bits); err == nil {
		return p
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}
