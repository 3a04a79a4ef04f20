package server

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// splitTarget takes a request target apart as it was sent, without decoding or
// normalising anything: path is what follows the authority, with the query. A target
// in absolute form (RFC 9112, section 3.2.2) names the authority as well; otherwise
// that is nil.
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

// hostOf gives the host that the request is for, in lower case and without a port;
// empty when an HTTP/1.0 client names none, and false when it is malformed. The
// bytes are good until the connection's next request.
func hostOf(ctx *fasthttp.RequestCtx, v *visitor, authority []byte) ([]byte, bool) {
	raw := authority
	if raw == nil {
		raw = ctx.Request.Header.Host()
	}
	host, ok := parseHost(v.host[:0], raw)
	if !ok || !v.trusted {
		return host, ok
	}
	switch forwarded := ctx.Request.Header.PeekAll("X-Forwarded-Host"); {
	case len(forwarded) == 0 || len(forwarded[0]) == 0:
		return host, true
	case len(forwarded) > 1:
		return nil, false
	default:
		return v.forwardedHost(forwarded[0])
	}
}

// forwardedHost gives the host that a trusted proxy says it was asked for. In a list
// the last is what the proxy itself has seen; those before it may be the client's
// invention.
func (v *visitor) forwardedHost(list []byte) ([]byte, bool) {
	if comma := bytes.LastIndexByte(list, ','); comma >= 0 {
		list = list[comma+1:]
	}
	last := bytes.TrimSpace(list)
	if len(last) == 0 {
		return nil, false
	}
	return parseHost(v.host[:0], last)
}

// parseHost appends the host of a Host header to dst: lower case, without a port
// or the root's dot. It takes names as DNS has them, IPv4, and IPv6 in brackets.
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

// nameBytes and literalBytes give the lower case of the bytes that a name or an
// address in brackets may have, and 0 for all others.
var (
	nameBytes    = lowerCase("abcdefghijklmnopqrstuvwxyz0123456789.-_")
	literalBytes = lowerCase("abcdef0123456789:.[]")
)

func lowerCase(allowed string) (lower [256]byte) {
	for _, c := range []byte(allowed) {
		lower[c] = c
		if 'a' <= c && c <= 'z' {
			lower[c-'a'+'A'] = c
		}
	}
	return lower
}

// validPort takes nothing, or a colon and up to five digits.
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
