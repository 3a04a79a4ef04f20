package main

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// forwardedHost takes the host that a trusted proxy says it was asked for, and
// nobody else's word. Of a list the last entry counts, the nearest proxy's; a
// repeated header is ambiguous and refused. Edges do the same.
func forwardedHost(trusted []netip.Prefix, next http.Handler) http.Handler {
	if len(trusted) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts := r.Header.Values("X-Forwarded-Host")
		if len(hosts) > 0 && fromAny(trusted, r.RemoteAddr) {
			if len(hosts) > 1 {
				http.Error(w, "X-Forwarded-Host is given more than once", http.StatusBadRequest)
				return
			}
			r.Host = strings.TrimSpace(hosts[0][strings.LastIndexByte(hosts[0], ',')+1:])
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
