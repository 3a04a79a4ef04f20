// Package resolver makes clients of DNS that ask chosen servers.
package resolver

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
)

// Resolver is a [net.Resolver] with errors of LookupTXT that name the server.
type Resolver struct{ *net.Resolver }

// New returns a resolver that asks some servers, HOST or HOST:PORT, in turn. Without any
// it asks the system's servers.
func New(servers []string) Resolver {
	if len(servers) == 0 {
		return Resolver{net.DefaultResolver}
	}
	var tries atomic.Uint64
	return Resolver{&net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		server := servers[tries.Add(1)%uint64(len(servers))]
		if _, _, err := net.SplitHostPort(server); err != nil {
			server = net.JoinHostPort(server, "53")
		}
		if asked, ok := ctx.Value(askedKey{}).(*string); ok {
			*asked = server
		}
		var d net.Dialer
		return d.DialContext(ctx, network, server)
	}}}
}

type askedKey struct{}

// LookupTXT looks up texts. In an error, Server is the server that was asked last.
func (r Resolver) LookupTXT(ctx context.Context, name string) ([]string, error) {
	var asked string
	found, err := r.Resolver.LookupTXT(context.WithValue(ctx, askedKey{}, &asked), name)
	if wrong, ok := errors.AsType[*net.DNSError](err); ok && asked != "" {
		wrong.Server = asked
	}
	return found, err
}
