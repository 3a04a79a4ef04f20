package listener

import (
	"net"
	"net/netip"
)

// Addresses counts connections by [Network], up to a limit for each. It has no more
// entries than there are connections. Its user guards it with a lock.
type Addresses struct {
	most int
	open map[netip.Addr]int
}

// NewAddresses allows an address most connections.
func NewAddresses(most int) Addresses {
	return Addresses{most: most, open: make(map[netip.Addr]int)}
}

// Add counts a connection of a network, and reports false if it has too many. The zero
// Addr is not counted.
func (a *Addresses) Add(network netip.Addr) bool {
	if !network.IsValid() {
		return true
	}
	if a.open[network] >= a.most {
		return false
	}
	a.open[network]++
	return true
}

// Remove takes back an Add.
func (a *Addresses) Remove(network netip.Addr) {
	if !network.IsValid() {
		return
	}
	if a.open[network]--; a.open[network] == 0 {
		delete(a.open, network)
	}
}

// Network returns the addresses that one subscriber has: an IPv4 address, or the /64 of
// an IPv6 address.
func Network(addr netip.Addr) netip.Addr {
	if addr = addr.Unmap(); !addr.Is6() {
		return addr
	}
	prefix, err := addr.WithZone("").Prefix(64)
	if err != nil {
		return addr
	}
	return prefix.Addr()
}

// Refuse ends a connection at the least cost: with a reset, which leaves no state to wait
// for.
func Refuse(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
