// Package proxy decides what a node believes of the proxies in front of it: which peers
// are trusted, what their X-Forwarded-For says, and the PROXY protocol. Nothing in it
// allocates, and nothing in it is believed of anyone else.
package proxy

import (
	"net"
	"net/netip"
)

// Trusted are the networks of the proxies whose word counts. Nil: there are none.
type Trusted []netip.Prefix

// Has reports whether an address is a trusted proxy's.
func (t Trusted) Has(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("") // no prefix has a zone
	for _, p := range t {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// Peer returns the address of a TCP peer, without a zone, and IPv4 as such; the zero
// Addr for any other kind of peer.
func Peer(addr net.Addr) netip.Addr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip, _ := netip.AddrFromSlice(tcp.IP)
	return ip.Unmap()
}
