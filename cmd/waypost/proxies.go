package main

import (
	"net"
	"net/http"
	"net/netip"
)

// forwardedHost takes the host that a trusted proxy says it was asked for, and
// nobody else's word.
func forwardedHost(trusted []netip.Prefix, next http.Handler) http.Handler {
	if len(trusted) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hosts := r.Header.Values("X-Forwarded-Host"); len(hosts) == 1 && fromAny(trusted, r.RemoteAddr) {
			r.Host = hosts[0]
		}
		next.ServeHTTP(w, r)
	})
}

func fromAny(networks []netip.Prefix, remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	addr = addr.Unmap().WithZone("")
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}
