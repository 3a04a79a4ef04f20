package proxy

import (
	"bytes"
	"net/netip"
	"unsafe"
)

// maxHops bounds how far a chain of proxies is followed.
const maxHops = 16

// Client returns the address of the client behind peer. Of a peer that is no trusted
// proxy that is its own, whatever it sends. Otherwise it is the right-most address in
// the lines of X-Forwarded-For that is no trusted proxy's, because each proxy adds on
// the right whom it has seen itself, and a stranger may have invented everything to his
// left. An entry that is no address ends the search at the proxy that sent it on;
// with trusted proxies only, it is the farthest of them.
func (t Trusted) Client(peer netip.Addr, forwardedFor [][]byte) netip.Addr {
	if !t.Has(peer) {
		return peer
	}
	hops := 0
	for i := len(forwardedFor) - 1; i >= 0; i-- {
		for line, more := forwardedFor[i], true; more; {
			var entry []byte
			if comma := bytes.LastIndexByte(line, ','); comma >= 0 {
				line, entry = line[:comma], line[comma+1:]
			} else {
				entry, more = line, false
			}
			addr, ok := parseHop(bytes.Trim(entry, " \t"))
			if hops++; !ok || hops > maxHops {
				return peer
			}
			if peer = addr; !t.Has(addr) {
				return addr
			}
		}
	}
	return peer
}

// parseHop takes an address, as some proxies write it also with a port or in
// brackets: 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1], [2001:db8::1]:80.
func parseHop(s []byte) (netip.Addr, bool) {
	if len(s) > 0 && s[0] == '[' {
		end := bytes.IndexByte(s, ']')
		if end < 0 || !isPort(s[end+1:]) {
			return netip.Addr{}, false
		}
		addr, ok := parseAddr(s[1:end])
		return addr, ok && bytes.IndexByte(s[1:end], ':') >= 0
	}
	if colon := bytes.IndexByte(s, ':'); colon >= 0 && bytes.LastIndexByte(s, ':') == colon {
		if !isPort(s[colon:]) {
			return netip.Addr{}, false
		}
		s = s[:colon]
	}
	return parseAddr(s)
}

// isPort takes nothing, or a colon and one to five digits.
func isPort(s []byte) bool {
	if len(s) == 0 {
		return true
	}
	if s[0] != ':' || len(s) < 2 || len(s) > 6 {
		return false
	}
	for _, c := range s[1:] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// parseAddr takes an address without a zone. It looks at the bytes first, because
// netip allocates for the error about other text.
func parseAddr(s []byte) (netip.Addr, bool) {
	const longest = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")
	if len(s) < len("::") || len(s) > longest {
		return netip.Addr{}, false
	}
	for _, c := range s {
		if (c < '0' || c > ':') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') && c != '.' {
			return netip.Addr{}, false
		}
	}
	addr, err := netip.ParseAddr(unsafe.String(&s[0], len(s))) // which keeps nothing of it but in the error
	if err != nil {
		return netip.Addr{}, false
	}
	return addr.Unmap(), true
}
