// Package fastpath reads plain GET requests straight from a TCP socket and hands them to
// a [Handler], before an HTTP library sees them.
//
// The contract: Parse accepts a strict subset of the requests that the library accepts,
// and a handler that declines has had no effect. So every declined request can be read
// again by the library, which answers it as if the fast path did not exist, and the fast
// path never has to refuse anything. The package knows neither links nor answers.
package fastpath

import (
	"encoding/binary"
	"math/bits"
)

// MaxTarget bounds a request target, in bytes.
const MaxTarget = 8 << 10

// Request holds the parts of a plain GET that an answer may depend on. The slices refer
// to the bytes that were parsed. A header that is absent is nil.
type Request struct {
	Target         []byte // in origin form
	Host           []byte
	Agent          []byte
	Accept         []byte
	AcceptLanguage []byte
	Cookie         []byte
	Referrer       []byte
	ForwardedFor   []byte // X-Forwarded-For
	ForwardedHost  []byte // X-Forwarded-Host
}

// Parse reports whether b is one whole plain GET and nothing else: HTTP/1.1, a target in
// origin form of at most MaxTarget bytes, one non-empty Host, no body, and no header
// that would change the answer. It makes one pass and does not allocate. After false
// the fields have no meaning.
func (r *Request) Parse(b []byte) bool {
	const begin, version = "GET /", " HTTP/1.1\r\n"
	if len(b) < len(begin)+len(version) || string(b[:len(begin)]) != begin {
		return false
	}
	i := len(begin)
	for i < len(b) && b[i] > ' ' && b[i] < 0x7f {
		i++
	}
	if i > len("GET ")+MaxTarget || len(b)-i < len(version) || string(b[i:i+len(version)]) != version {
		return false
	}
	r.Target = b[len(begin)-1 : i]
	for i += len(version); ; {
		if len(b)-i == len("\r\n") {
			return b[i] == '\r' && b[i+1] == '\n' && r.Host != nil
		}
		name := i
		for i < len(b) && TokenBytes[b[i]] != 0 {
			i++
		}
		if i == name || i == len(b) || b[i] != ':' {
			return false
		}
		value := i + 1
		i = endOfText(b, value)
		if len(b)-i < len("\r\n") || b[i] != '\r' || b[i+1] != '\n' || !r.header(b[name:value-1], trimSpaces(b[value:i])) {
			return false
		}
		i += len("\r\n")
	}
}

// header keeps the value of a header that matters. It reports false for a header that
// only the library may judge. Names are told apart by their length first.
func (r *Request) header(name, value []byte) bool {
	switch len(name) {
	case len("Host"):
		// The library judges addresses in brackets.
		return !isNamed(name, "host") || keepOnce(&r.Host, value) && value[0] != '['
	case len("X-Moz"):
		return !isNamed(name, "x-moz")
	case len("Accept"):
		switch {
		case isNamed(name, "accept"):
			return keepOnce(&r.Accept, value)
		case isNamed(name, "cookie"):
			return keepOnce(&r.Cookie, value)
		}
		return !isNamed(name, "expect")
	case len("Purpose"):
		if isNamed(name, "referer") {
			return keepOnce(&r.Referrer, value)
		}
		return !isNamed(name, "purpose") && !isNamed(name, "trailer")
	case len("X-Purpose"):
		return !isNamed(name, "x-purpose")
	case len("User-Agent"):
		if isNamed(name, "user-agent") {
			return keepOnce(&r.Agent, value)
		}
		return !isNamed(name, "connection") || EqualFold(value, "keep-alive")
	case len("Sec-Purpose"):
		return !isNamed(name, "sec-purpose")
	case len("Content-Length"):
		return !isNamed(name, "content-length")
	case len("X-Forwarded-For"):
		if isNamed(name, "accept-language") {
			return keepOnce(&r.AcceptLanguage, value)
		}
		return !isNamed(name, "x-forwarded-for") || keepOnce(&r.ForwardedFor, value)
	case len("X-Forwarded-Host"):
		return !isNamed(name, "x-forwarded-host") || keepOnce(&r.ForwardedHost, value)
	case len("Transfer-Encoding"):
		return !isNamed(name, "transfer-encoding")
	}
	return true
}

// isNamed is EqualFold for names of headers, which consist of TokenBytes. Lower consists
// of at least four letters and hyphens. It compares eight bytes at a time: the bit that
// makes letters small turns no other byte of a name into a letter or a hyphen.
func isNamed(name []byte, lower string) bool {
	const bit = 0x2020202020202020
	n := len(lower)
	if len(name) != n {
		return false
	}
	le := binary.LittleEndian
	if n < 8 {
		return le.Uint32(name)|bit>>32 == load32(lower) && le.Uint32(name[n-4:])|bit>>32 == load32(lower[n-4:])
	}
	for i := 0; i < n-8; i += 8 {
		if le.Uint64(name[i:])|bit != load64(lower[i:]) {
			return false
		}
	}
	return le.Uint64(name[n-8:])|bit == load64(lower[n-8:])
}

func load32(s string) uint32 {
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func load64(s string) uint64 { return uint64(load32(s)) | uint64(load32(s[4:]))<<32 }

// keepOnce keeps a value. It reports false for an empty one and for a second one.
func keepOnce(field *[]byte, value []byte) bool {
	if *field != nil || len(value) == 0 {
		return false
	}
	*field = value
	return true
}

// EqualFold reports whether s equals lower, which is ASCII in lower case, without regard
// to the case of s. It does not allocate.
func EqualFold(s []byte, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i, c := range s {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// TokenBytes maps each byte that a header name may hold (RFC 9110, section 5.6.2) to its
// lower case, and every other byte to 0.
var TokenBytes = LowerCase("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")

// LowerCase returns a table that maps the allowed bytes, given in lower case, and their
// upper case to lower case, and every other byte to 0.
func LowerCase(allowed string) (lower [256]byte) {
	for _, c := range []byte(allowed) {
		lower[c] = c
		if 'a' <= c && c <= 'z' {
			lower[c-'a'+'A'] = c
		}
	}
	return lower
}

// endOfText returns the index of the first control character from i on, or len(b). A tab
// counts as one.
//
// It looks at eight bytes at a time. For bytes below 0x80, x-0x20 borrows from the
// highest bit only if the byte is below 0x20 or a byte before it is, which is found
// first.
func endOfText(b []byte, i int) int {
	const low, high = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		deleted := x ^ 0x7f*low
		if found := ((x-' '*low)&^x | (deleted-low)&^deleted) & high; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != 0x7f {
		i++
	}
	return i
}

func trimSpaces(s []byte) []byte {
	for len(s) > 0 && s[0] == ' ' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] == ' ' {
		s = s[:len(s)-1]
	}
	return s
}
