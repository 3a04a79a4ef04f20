package rules

import (
	"bytes"
	"sync"

	"golang.org/x/text/unicode/norm"

	"waypost"
)

// hasQuery reports whether a query has a parameter. Escapes and plus signs in names and
// values are decoded, and both are compared in Unicode's form NFC, in which the condition
// is.
func hasQuery(query []byte, mode byte, key, value []byte) bool {
	for len(query) > 0 {
		pair := query
		if i := bytes.IndexByte(query, '&'); i >= 0 {
			pair, query = query[:i], query[i+1:]
		} else {
			query = nil
		}
		name, text := pair, []byte(nil)
		if i := bytes.IndexByte(pair, '='); i >= 0 {
			name, text = pair[:i], pair[i+1:]
		}
		if !decodesTo(name, key) {
			continue
		}
		switch mode {
		case queryAny:
			return true
		case queryEmpty:
			if len(text) == 0 {
				return true
			}
		case queryEquals:
			if decodesTo(text, value) {
				return true
			}
		}
	}
	return false
}

// decodesTo reports whether a part of a query means a text, which is in NFC.
func decodesTo(part, text []byte) bool {
	if decodesExactly(part, text) {
		return true
	}
	for i, c := range part {
		if escaped, _ := waypost.Unescape(part[i:]); c >= 0x80 || escaped >= 0x80 {
			return composesTo(part, text)
		}
	}
	return false
}

func decodesExactly(part, text []byte) bool {
	n := 0
	for len(part) > 0 {
		c, size := decodeByte(part)
		if n == len(text) || text[n] != c {
			return false
		}
		part, n = part[size:], n+1
	}
	return n == len(text)
}

// decodeByte returns the byte that a part of a query begins with, and the size of its
// escape.
func decodeByte(part []byte) (c byte, size int) {
	if part[0] == '+' {
		return ' ', 1
	}
	if c, ok := waypost.Unescape(part); ok {
		return c, len("%00")
	}
	return part[0], 1
}

// composer brings text to NFC. Composers are kept, because a norm.Iter allocates.
type composer struct {
	iter    norm.Iter
	decoded [8 * maxQueryText]byte
}

var composers = sync.Pool{New: func() any { return new(composer) }}

// composesTo is decodesTo for a part with characters beyond ASCII.
func composesTo(part, text []byte) bool {
	c := composers.Get().(*composer) //nolint:forcetypeassert // see New
	defer composers.Put(c)
	n := 0
	for len(part) > 0 {
		if n == len(c.decoded) {
			return false
		}
		var size int
		c.decoded[n], size = decodeByte(part)
		part, n = part[size:], n+1
	}
	for c.iter.Init(norm.NFC, c.decoded[:n]); !c.iter.Done(); {
		next := c.iter.Next()
		if !bytes.HasPrefix(text, next) {
			return false
		}
		text = text[len(next):]
	}
	return len(text) == 0
}
