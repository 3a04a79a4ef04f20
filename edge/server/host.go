package server

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"waypost/edge/fastpath"
)

// splitTarget divides a request target without decoding or normalising it. path follows
// the authority and includes the query. authority is nil unless the target is in absolute
// form (RFC 9112, section 3.2.2).
func splitTarget(target []byte) (authority, path []byte, ok bool) {
	if len(target) > 0 && target[0] == '/' {
		return nil, target, true
	}
	scheme, rest, found := bytes.Cut(target, []byte("://"))
	if !found || !bytes.EqualFold(scheme, []byte("http")) && !bytes.EqualFold(scheme, []byte("https")) {
		return nil, nil, false
	}
	end := bytes.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if end == 0 {
		return nil, nil, false
	}
	return rest[:end], rest[end:], true
}

// hostOf returns the host of a request, in lower case and without a port. The host is
// empty if an HTTP/1.0 client names none. False means that it is malformed. The bytes are
// good until the connection's next request.
func hostOf(ctx *fasthttp.RequestCtx, c *conn, authority []byte) ([]byte, bool) {
	raw := authority
	if raw == nil {
		raw = ctx.Request.Header.Host()
	}
	host, ok := parseHost(c.host[:0], raw)
	if !ok || !c.trusted {
		return host, ok
	}
	switch forwarded := ctx.Request.Header.PeekAll("X-Forwarded-Host"); {
	case len(forwarded) == 0 || len(forwarded[0]) == 0:
		return host, true
	case len(forwarded) > 1:
		return nil, false
	default:
		return c.forwardedHost(forwarded[0])
	}
}

// forwardedHost returns the host that a trusted proxy was asked for. In a list the proxy
// itself has added the last element. The client may have invented the others.
func (c *conn) forwardedHost(list []byte) ([]byte, bool) {
	if comma := bytes.LastIndexByte(list, ','); comma >= 0 {
		list = list[comma+1:]
	}
	last := bytes.TrimSpace(list)
	if len(last) == 0 {
		return nil, false
	}
	return parseHost(c.host[:0], last)
}

// overTLS reports whether the visitor has sent a request over TLS: to this server, or to
// a trusted proxy that says so. In a list the proxy itself has added the last element.
func overTLS(ctx *fasthttp.RequestCtx, c *conn) bool {
	if c.secure || !c.trusted {
		return c.secure
	}
	lists := ctx.Request.Header.PeekAll("X-Forwarded-Proto")
	if len(lists) == 0 {
		return false
	}
	last := lists[len(lists)-1]
	return fastpath.EqualFold(bytes.TrimSpace(last[bytes.LastIndexByte(last, ',')+1:]), "https")
}

// parseHost appends the host of a Host header to dst, in lower case, without a port or
// the dot of the DNS root. It accepts DNS names, IPv4, and IPv6 in brackets.
func parseHost(dst, raw []byte) ([]byte, bool) {
	if len(raw) == 0 {
		return dst, true
	}
	if len(raw) > maxHost {
		return nil, false
	}
	lower, end := &nameBytes, len(raw)
	if raw[0] == '[' {
		lower, end = &literalBytes, bytes.IndexByte(raw, ']')+1
	} else if colon := bytes.IndexByte(raw, ':'); colon >= 0 {
		end = colon
	}
	if end == 0 || !validPort(raw[end:]) {
		return nil, false
	}
	for _, c := range raw[:end] {
		c = lower[c]
		if c == 0 {
			return nil, false
		}
		dst = append(dst, c)
	}
	return bytes.TrimSuffix(dst, []byte(".")), true
}

// nameBytes and literalBytes map the bytes that a name or an address in brackets may hold
// to lower case, and all others to 0.
var (
	nameBytes    = fastpath.LowerCase("abcdefghijklmnopqrstuvwxyz0123456789.-_")
	literalBytes = fastpath.LowerCase("abcdef0123456789:.[]")
)

// validPort accepts nothing, or a colon and up to five digits.
func validPort(s []byte) bool {
	if len(s) == 0 {
		return true
	}
	if s[0] != ':' || len(s) > 6 {
		return false
	}
	for _, c := range s[1:] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
