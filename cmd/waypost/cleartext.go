package main

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
)

// inClear reports whether requests to a URL leave this machine without TLS.
func inClear(base string) bool {
	u, err := url.Parse(base)
	return err == nil && u.Scheme == "http" && leavesMachine(u.Host)
}

// leavesMachine reports whether other machines may reach a host, or a listener at
// HOST:PORT.
func leavesMachine(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	ip, err := netip.ParseAddr(host)
	return host != "localhost" && (err != nil || !ip.Unmap().IsLoopback())
}

// warnOfClear names on standard error an address or a URL of another machine that is used
// without TLS.
func (p *program) warnOfClear(setting, place string) {
	_, _ = fmt.Fprintf(p.stderr, "waypost: warning: %s: credentials and links travel to and from %s without encryption; see docs/operations/tls.md\n",
		setting, place)
}
