package listener

import (
	"net"
	"net/netip"
)

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
