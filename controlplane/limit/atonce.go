package limit

import (
	"net/netip"
	"sync"
)

// AtOnce bounds what networks have under way at the same moment: so much from one
// address, as [Network] has it, and four times as much from the network around that,
// since whoever has many addresses has them side by side. Its memory is bounded by what is
// under way. Its methods may be called by many goroutines at once; nil allows everything.
type AtOnce struct {
	most int

	mu      sync.Mutex
	running map[netip.Prefix]int
}

// aroundShare is how many times as much may come from the network around an address.
const aroundShare = 4

// NewAtOnce allows an address so much at a time.
func NewAtOnce(most int) *AtOnce {
	return &AtOnce{most: most, running: make(map[netip.Prefix]int)}
}

// Enter reports whether one more may begin; then the caller calls leave when it is over.
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
	a.add(one, wide, 1)
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.add(one, wide, -1)
	}), true
}

func (a *AtOnce) add(one, wide netip.Prefix, n int) {
	for _, p := range []netip.Prefix{one, wide} {
		if a.running[p] += n; a.running[p] == 0 {
			delete(a.running, p)
		}
	}
}

// around is the /24 or /48 that an address is in. Those who have no address are their own.
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
