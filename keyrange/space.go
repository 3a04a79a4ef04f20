package keyrange

import (
	"fmt"

	"waypost"
)

// Bounds of a space. Three suffix characters are 238,328 codes a prefix: fewer
// would make a prefix too small to lease from.
const (
	MinCodeLength   = 5
	MaxCodeLength   = 10
	MinPrefixLength = 1
	MaxPrefixLength = 3
	MinSuffixLength = 3
)

// alphabet in the order of the digits' values. It never changes: codes in
// circulation are written in it.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const base = len(alphabet)

// digit holds the value of each alphabet byte, and notDigit for every other.
var digit = func() (t [256]uint8) {
	for i := range t {
		t[i] = notDigit
	}
	for i := range base {
		t[alphabet[i]] = uint8(i)
	}
	return t
}()

const notDigit = 0xff

// Space is the set of all generated codes of a cluster. A code has a prefix and a suffix,
// which encodes a counter; ranges consist of the counters of a prefix. A cluster never
// changes its space. Use [NewSpace].
type Space struct {
	codeLength   int
	prefixLength int
	prefixes     int
	suffixes     int64
}

// NewSpace checks the lengths, in characters. The error is waypost.EInvalid.
func NewSpace(codeLength, prefixLength int) (Space, error) {
	if codeLength < MinCodeLength || codeLength > MaxCodeLength {
		return Space{}, waypost.Errorf(waypost.EInvalid, "the code length must be %d to %d, not %d", MinCodeLength, MaxCodeLength, codeLength)
	}
	if prefixLength < MinPrefixLength || prefixLength > MaxPrefixLength {
		return Space{}, waypost.Errorf(waypost.EInvalid, "the prefix length must be %d to %d, not %d", MinPrefixLength, MaxPrefixLength,
			prefixLength)
	}
	if codeLength-prefixLength < MinSuffixLength {
		return Space{}, waypost.Errorf(waypost.EInvalid, "a prefix length of %d leaves fewer than %d of %d characters to count in",
			prefixLength, MinSuffixLength, codeLength)
	}
	return Space{
		codeLength:   codeLength,
		prefixLength: prefixLength,
		prefixes:     int(power(prefixLength)),
		suffixes:     power(codeLength - prefixLength),
	}, nil
}

func power(exponent int) int64 {
	n := int64(1)
	for range exponent {
		n *= int64(base)
	}
	return n
}

// CodeLength is the length of every generated code, in characters.
func (s Space) CodeLength() int { return s.codeLength }

// PrefixLength is the length of every prefix, in characters.
func (s Space) PrefixLength() int { return s.prefixLength }

// Prefixes is the number of prefixes; their ordinals are 0 to Prefixes-1.
func (s Space) Prefixes() int { return s.prefixes }

// Suffixes is the number of codes of each prefix; counters are 0 to Suffixes-1.
func (s Space) Suffixes() int64 { return s.suffixes }

// Prefix returns the text of a prefix: its ordinal in base62, with leading zeros.
// It panics when there is no such prefix.
func (s Space) Prefix(ordinal int) string {
	s.mustHold(ordinal, 0)
	var text [MaxPrefixLength]byte
	write(text[:s.prefixLength], int64(ordinal))
	return string(text[:s.prefixLength])
}

// Holds reports whether all of a block, which must not be empty, lies in the space.
// Callers check a block from a database with it before they mint from it.
func (s Space) Holds(b Block) bool {
	return b.Prefix >= 0 && b.Prefix < s.prefixes && b.Lo >= 0 && b.Lo < b.Hi && b.Hi <= s.suffixes
}

// Split returns the ordinal of a code's prefix and its suffix as a number, which is not
// its counter. It needs no key. A code that cannot have been generated in this space is
// not ok.
func (s Space) Split(code waypost.Code) (prefix int, suffix int64, ok bool) {
	if len(code) != s.codeLength || s.codeLength == 0 {
		return 0, 0, false
	}
	head, ok := read(code[:s.prefixLength])
	if !ok {
		return 0, 0, false
	}
	suffix, ok = read(code[s.prefixLength:])
	if !ok {
		return 0, 0, false
	}
	return int(head), suffix, true
}

// mustHold panics when a prefix or counter is outside of the space, because the code
// would belong to another counter.
func (s Space) mustHold(prefix int, counter int64) {
	if prefix < 0 || prefix >= s.prefixes || counter < 0 || counter >= s.suffixes {
		panic(fmt.Sprintf("keyrange: prefix %d, counter %d is outside of a space of %d prefixes with %d codes each",
			prefix, counter, s.prefixes, s.suffixes))
	}
}

// write fills text with n in base62, with leading zeros.
func write(text []byte, n int64) {
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = alphabet[n%int64(base)]
		n /= int64(base)
	}
}

// read is the inverse of write.
func read(text waypost.Code) (n int64, ok bool) {
	for i := range len(text) {
		d := digit[text[i]]
		if d == notDigit {
			return 0, false
		}
		n = n*int64(base) + int64(d)
	}
	return n, true
}
