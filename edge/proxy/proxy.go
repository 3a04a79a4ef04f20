// Package proxy finds the visitor's address behind proxies: which peers are trusted, and
// the meaning of X-Forwarded-For. A peer that is not trusted is believed nothing. The
// package does not allocate.
package proxy

import (
	"net"
	"net/netip"
)

// Trusted are the networks of the proxies that are believed. Nil: no proxy is.
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
