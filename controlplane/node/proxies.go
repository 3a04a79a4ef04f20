package node

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"waypost/controlplane/httpapi"
	"waypost/edge/proxy"
)

// forwardedHost takes the requested host from X-Forwarded-Host of trusted proxies only.
// In a list the last entry counts, which is the nearest proxy's; a repeated header is
// ambiguous and refused. Edges do the same.
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
			r = httpapi.WithHost(r, strings.TrimSpace(hosts[0][strings.LastIndexByte(hosts[0], ',')+1:]))
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

// clientOf returns a function that finds the address of a request's client: the address
// of the connection, or the one in X-Forwarded-For of trusted proxies.
func clientOf(trusted []netip.Prefix) func(*http.Request) netip.Addr {
	return func(r *http.Request) netip.Addr {
		at, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil {
			return netip.Addr{}
		}
		var lines [][]byte
		for _, line := range r.Header.Values("X-Forwarded-For") {
			lines = append(lines, []byte(line))
		}
		return proxy.Trusted(trusted).Client(at.Addr().Unmap().WithZone(""), lines)
	}
}
