package edge

import (
	"bytes"
	"errors"
)

var errAmbiguousLine = errors.New("a line that ends in LF alone, or is folded")

// lineGuard ends a connection at the first line that parsers read differently: one
// that ends in LF without CR, or one that begins with a space or tab and so goes on
// with the line before (RFC 9112, sections 2.2 and 5.2). fasthttp takes both. Since
// no request has a body here, everything that is read is lines.
type lineGuard struct {
	last byte
	bad  bool
}

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

// fault gives the index of the byte at which b goes wrong, or -1.
func (g *lineGuard) fault(b []byte) int {
	if len(b) == 0 {
		return -1
	}
	if g.last == '\n' && isBlank(b[0]) {
		return 0
	}
	for i := 0; ; i++ {
		next := bytes.IndexByte(b[i:], '\n')
		if next < 0 {
			break
		}
		i += next
		before := g.last
		if i > 0 {
			before = b[i-1]
		}
		if before != '\r' {
			return i
		}
		if i+1 < len(b) && isBlank(b[i+1]) {
			return i + 1
		}
	}
	g.last = b[len(b)-1]
	return -1
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
