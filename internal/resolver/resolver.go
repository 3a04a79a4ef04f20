// Package resolver makes clients of DNS that ask chosen servers.
package resolver

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
)

// Resolver is a [net.Resolver] with errors of LookupTXT that name the server and its
// answer.
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
		last, _ := ctx.Value(lastAnswer{}).(*answer)
		if last != nil {
			*last = answer{server: server}
		}
		var d net.Dialer
		c, err := d.DialContext(ctx, network, server)
		if packets, ok := c.(*net.UDPConn); ok && last != nil {
			return &observed{packets, last}, nil
		}
		return c, err
	}}}
}

// answer is the last answer in a lookup.
type answer struct {
	server string
	code   byte // 0: no error, or no answer
}

type lastAnswer struct{}

// LookupTXT looks up texts. In an error, Server is the server that was asked last, and
// Err its answer, such as REFUSED.
func (r Resolver) LookupTXT(ctx context.Context, name string) ([]string, error) {
	var last answer
	found, err := r.Resolver.LookupTXT(context.WithValue(ctx, lastAnswer{}, &last), name)
	if wrong, ok := errors.AsType[*net.DNSError](err); ok && last.server != "" {
		wrong.Server = last.server
		if last.code != 0 && !wrong.IsNotFound {
			wrong.Err = codeText(last.code)
		}
	}
	return found, err
}

// codeText returns the name of a response code (RFC 1035).
func codeText(code byte) string {
	switch code {
	case 1:
		return "FORMERR"
	case 2:
		return "SERVFAIL"
	case 4:
		return "NOTIMP"
	case 5:
		return "REFUSED"
	}
	return "response code " + strconv.Itoa(int(code))
}

// observed notes the response codes of the packets that are read.
type observed struct {
	*net.UDPConn

	last *answer
}

func (o *observed) Read(b []byte) (int, error) {
	n, err := o.UDPConn.Read(b)
	if n > 3 {
		o.last.code = b[3] & 0xf
	}
	return n, err
}
