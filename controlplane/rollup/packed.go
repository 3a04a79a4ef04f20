package rollup

import (
	"encoding/binary"
	"unicode/utf8"

	"waypost"
)

// MaxNameLength bounds names in bytes: a country, a slash and a city of 128 bytes, each.
const MaxNameLength = 2*128 + 1

// version is the first byte of every packed form.
const version = 1

// reader decodes a packed form. After a fault, which why describes, it returns zeros.
type reader struct {
	rest []byte
	all  string // from the first text on; all texts are parts of it: a copy of each would take most of the time
	why  string
}

func newReader(b []byte) *reader { return &reader{rest: b} }

func (r *reader) fail(why string) {
	if r.why == "" {
		r.why = why
	}
	r.rest = nil
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.rest) {
		r.fail("it is cut")
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	b := r.bytes(1)
	if b == nil {
		return 0
	}
	return b[0]
}

// number reads a varint of the shortest form.
func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || n > 1 && r.rest[n-1] == 0 {
		r.fail("a number is broken")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// length reads the number of elements that follow, of at least size bytes each.
func (r *reader) length(most, size int) int {
	n := r.number()
	if n > uint64(most) || n > uint64(len(r.rest)/size) {
		r.fail("it states more elements than it can hold")
		return 0
	}
	return int(n)
}

func (r *reader) text() string {
	if r.all == "" {
		r.all = string(r.rest)
	}
	n := len(r.bytes(r.length(MaxNameLength, 1)))
	if r.why != "" {
		return ""
	}
	end := len(r.all) - len(r.rest)
	text := r.all[end-n : end]
	if !utf8.ValidString(text) {
		r.fail("a name is no text")
		return ""
	}
	return text
}

// readVersion reads the version.
func (r *reader) readVersion() {
	if r.byte() != version {
		r.fail("its version is unknown")
	}
}

// checkEnd returns the error of a broken form.
func (r *reader) checkEnd(what string) error {
	if r.why == "" && len(r.rest) > 0 {
		r.fail("it is longer than it states")
	}
	if r.why != "" {
		return waypost.Errorf(waypost.EInvalid, "not %s: %s", what, r.why)
	}
	return nil
}

func appendText(dst []byte, s string) []byte {
	s = s[:min(len(s), MaxNameLength)]
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}
