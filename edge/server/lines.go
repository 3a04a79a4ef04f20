package server

import (
	"bytes"
	"errors"
)

var errAmbiguousLine = errors.New("a line that ends in LF alone, is folded, is no header, or speaks of a transfer coding")

// lineGuard ends a connection at the first line that parsers read differently: one
// that ends in LF without CR, one that begins with a space or tab and so goes on
// with the line before, one whose name is no token or has no colon (RFC 9112,
// sections 2.2, 5.1 and 5.2), and any Transfer-Encoding, of which fasthttp would pass
// over "identity". Since no request has a body here, everything that is read is
// lines, whose bytes come in whatever pieces.
type lineGuard struct {
	state lineState
	last  byte  // before the piece
	coded uint8 // how much of transferEncoding the name is so far
	bad   bool
}

type lineState uint8

const (
	beforeRequest lineState = iota // where an empty line may be
	emptyLine                      // of which CR was there
	inRequestLine
	lineStart
	inName
	inValue
)

const (
	transferEncoding = "transfer-encoding"
	anotherName      = uint8(len(transferEncoding) + 1)
)

// tokenBytes gives the lower case of the bytes that a header's name may have.
var tokenBytes = lowerCase("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")

// check looks at what a read gave. It takes away what begins with the fault, so
// that the request that holds it stays incomplete.
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

// between reports whether what was read so far are whole requests, or nothing.
func (g *lineGuard) between() bool { return g.state == beforeRequest && !g.bad }

// fault gives the index of the byte at which b goes wrong, or -1.
func (g *lineGuard) fault(b []byte) int {
	for i := 0; i < len(b); {
		switch g.state {
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
				g.state = inRequestLine
			default:
				g.state, g.coded = inName, 0
			}
		case emptyLine:
			if b[i] != '\n' {
				return i
			}
			g.state = beforeRequest
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

// name passes over the bytes of a name and the colon behind it. When it stops at
// the fault it is false.
func (g *lineGuard) name(b []byte) (n int, ok bool) {
	for n < len(b) && tokenBytes[b[n]] != 0 {
		n++
	}
	if g.coded != 0 || n == len(b) {
		g.follow(b[:n]) // one of the few names that a read has cut
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

// follow compares one more piece of a name.
func (g *lineGuard) follow(piece []byte) {
	for _, c := range piece {
		if int(g.coded) < len(transferEncoding) && transferEncoding[g.coded] == tokenBytes[c] {
			g.coded++
		} else {
			g.coded = anotherName
		}
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
