package server

import (
	"bytes"
	"errors"

	"waypost/edge/fastpath"
)

var errAmbiguousLine = errors.New("a line ends in LF alone, is folded, is no header, or names a transfer coding")

// lineGuard ends a connection at the first line that parsers read differently: a line
// that ends in LF without CR, a line that begins with a space or tab and so continues
// the line before, a name that is no token or has no colon (RFC 9112, sections 2.2, 5.1
// and 5.2), and any Transfer-Encoding, because fasthttp ignores "identity". Lines
// arrive in pieces of any size. No request but a POST has a body here, and a POST is
// the last request of its connection, so that no two parsers have to agree about its
// length: bytes behind its header belong to no line and to no other request.
type lineGuard struct {
	state  lineState
	last   byte  // of the piece before
	coded  uint8 // bytes of transferEncoding that the name has matched
	method uint8 // bytes of methodPost that the request line has matched
	bad    bool
}

type lineState uint8

const (
	beforeRequest lineState = iota // an empty line may come
	emptyLine                      // its CR has come
	inMethod
	inRequestLine
	lineStart
	inName
	inValue
	inForm // the body of a POST, and the end of the connection
)

const (
	methodPost       = "POST "
	transferEncoding = "transfer-encoding"
	anotherName      = uint8(len(transferEncoding) + 1)
)

// check inspects the bytes of a read. It cuts them off at a fault, so that the request
// with the fault stays incomplete.
func (g *lineGuard) check(p []byte, n int, err error) (int, error) {
	if g.bad {
		return 0, errAmbiguousLine
	}
	if end := g.fault(p[:n]); end >= 0 {
		g.bad = true
		return end, errAmbiguousLine
	}
	return n, err
}

// betweenRequests reports whether the bytes so far are whole requests, or none.
func (g *lineGuard) betweenRequests() bool { return g.state == beforeRequest && !g.bad }

// posted reports whether the request in progress is a POST.
func (g *lineGuard) posted() bool { return int(g.method) == len(methodPost) }

// fault returns the index of the first faulty byte of b, or -1.
func (g *lineGuard) fault(b []byte) int {
	for i := 0; i < len(b); {
		switch g.state {
		case inForm:
			return -1
		case inMethod:
			if b[i] != methodPost[g.method] {
				g.state, g.method = inRequestLine, 0
				continue
			}
			i++
			if g.method++; g.posted() {
				g.state = inRequestLine
			}
		case inRequestLine, inValue:
			end := bytes.IndexByte(b[i:], '\n')
			if end < 0 {
				g.last = b[len(b)-1]
				return -1
			}
			before := g.last
			if i += end; i > 0 {
				before = b[i-1]
			}
			if before != '\r' {
				return i
			}
			g.state = lineStart
			i++
		case lineStart, beforeRequest:
			switch {
			case b[i] == '\r':
				g.state = emptyLine
				i++
			case isBlank(b[i]) || b[i] == '\n':
				return i
			case g.state == beforeRequest:
				g.state, g.method = inMethod, 0
			default:
				g.state, g.coded = inName, 0
			}
		case emptyLine:
			if b[i] != '\n' {
				return i
			}
			g.state = beforeRequest
			if g.posted() {
				g.state = inForm
			}
			i++
		case inName:
			n, ok := g.name(b[i:])
			if i += n; !ok {
				return i
			}
		}
	}
	if len(b) > 0 {
		g.last = b[len(b)-1]
	}
	return -1
}

// name passes over the bytes of a name and the colon behind it. It reports false if it
// stopped at a fault.
func (g *lineGuard) name(b []byte) (n int, ok bool) {
	for n < len(b) && fastpath.TokenBytes[b[n]] != 0 {
		n++
	}
	if g.coded != 0 || n == len(b) {
		g.follow(b[:n]) // the name was cut by a read
	} else if n == len(transferEncoding) && bytes.EqualFold(b[:n], []byte(transferEncoding)) {
		return n, false
	}
	if n == len(b) {
		return n, true
	}
	if b[n] != ':' || g.coded == uint8(len(transferEncoding)) {
		return n, false
	}
	g.state = inValue
	return n + 1, true
}

// follow compares one more piece of a name with transferEncoding.
func (g *lineGuard) follow(piece []byte) {
	for _, c := range piece {
		if int(g.coded) < len(transferEncoding) && transferEncoding[g.coded] == fastpath.TokenBytes[c] {
			g.coded++
		} else {
			g.coded = anotherName
		}
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
