package waypost

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Code names a link in its domain: the path of a short URL without its first slash. It
// has up to [MaxCodeSegments] segments between slashes, of letters, digits, marks, emoji,
// and - _ . and ~. It is in Unicode NFC, and case-sensitive. A generated code is base62
// and has the cluster's code length (5 to 10). The code of a link that leads from many
// addresses is a pattern, see [IsPattern]. Package codes reads codes from people and from
// requests.
type Code string

// Lengths of a code in bytes, custom or generated, and its most segments.
const (
	MinCodeLength   = 1
	MaxCodeLength   = 128
	MaxCodeSegments = 16
)

// ValidCode reports whether s has the shape of a code, or of a pattern, which is the code
// of a link as well. It does not judge the normal form. It does not allocate.
func ValidCode[T string | []byte](s T) bool {
	if PlainCode(s) {
		return true
	}
	if IsPattern(s) {
		return CheckPattern(s).Reason == ""
	}
	_, fault := CheckCode(s)
	return fault.Reason == ""
}

// PlainCode reports whether s is a code of one segment with ASCII letters, digits, - and
// _ only, as most codes are. A redirect calls it before it looks anything up.
func PlainCode[T string | []byte](s T) bool {
	if len(s) < MinCodeLength || len(s) > MaxCodeLength {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !plainByte[s[i]] {
			return false
		}
	}
	return true
}

var plainByte = func() (t [256]bool) {
	for _, c := range []byte("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-") {
		t[c] = true
	}
	return t
}()

// CodeFault says why a text is no code.
type CodeFault struct {
	Reason string // with a lower-case verb first; "": there is no fault
	Rune   rune   // that the fault is about; 0: it is about the text
}

// The faults of codes.
const (
	FaultLength   = "must have 1 to 128 bytes"
	FaultSegments = "has more than 16 segments between slashes"
	FaultEmpty    = "has an empty segment: no slash may begin or end it, or follow another one"
	FaultDots     = "has a segment . or .., which browsers remove"
	FaultUTF8     = "is not UTF-8"
	FaultMark     = "has a segment that begins with a mark, which would change the slash before it"
	FaultSequence = "has an emoji that is not complete"

	FaultASCII      = "has a character with a meaning of its own in a URL"
	FaultPlus       = "has a plus sign, which asks for the preview of a link"
	FaultControl    = "has a control character"
	FaultSpace      = "has a space"
	FaultBidi       = "has a mark that changes the direction of text"
	FaultInvisible  = "has a character that cannot be seen"
	FaultUnassigned = "has a character that Unicode " + unicode.Version + " does not know"
	FaultSymbol     = "has a character that is no letter, digit or emoji"
)

// CheckCode returns the length of the longest prefix of s that is a code and a whole
// number of segments, and why s itself is no code. It does not allocate.
func CheckCode[T string | []byte](s T) (prefix int, fault CodeFault) {
	segment, segments := 0, 0 // where the segment begins, and the segments before it
	var seen sequence
	for i := 0; ; {
		switch {
		case i > MaxCodeLength:
			return prefix, CodeFault{Reason: FaultLength}
		case i == len(s) || s[i] == '/':
			if fault := checkSegment(s[segment:i], &seen); fault != "" {
				if len(s) == 0 {
					fault = FaultLength
				}
				return prefix, CodeFault{Reason: fault}
			}
			if segments++; segments > MaxCodeSegments {
				return prefix, CodeFault{Reason: FaultSegments}
			}
			if prefix = i; i == len(s) {
				return prefix, CodeFault{}
			}
			i++
			segment, seen = i, sequence{}
		case s[i] < utf8.RuneSelf:
			if fault := faultOfASCII(s[i]); fault != "" {
				return prefix, CodeFault{fault, rune(s[i])}
			}
			if !seen.addASCII(s[i]) {
				return prefix, CodeFault{Reason: FaultSequence}
			}
			i++
		default:
			var b [utf8.UTFMax]byte
			r, size := utf8.DecodeRune(b[:copy(b[:], s[i:])])
			if r == utf8.RuneError && size == 1 {
				return prefix, CodeFault{Reason: FaultUTF8}
			}
			if fault := seen.addRune(r); fault != "" {
				if fault == FaultMark || fault == FaultSequence {
					return prefix, CodeFault{Reason: fault}
				}
				return prefix, CodeFault{fault, r}
			}
			i += size
		}
	}
}

func checkSegment[T string | []byte](s T, seen *sequence) string {
	switch {
	case len(s) == 0:
		return FaultEmpty
	case s[0] == '.' && (len(s) == 1 || len(s) == 2 && s[1] == '.'):
		return FaultDots
	case seen.isOpen():
		return FaultSequence
	}
	return ""
}

func faultOfASCII(c byte) string {
	switch {
	case plainByte[c] || c == '.' || c == '~':
		return ""
	case c < ' ' || c == 0x7f:
		return FaultControl
	case c == ' ':
		return FaultSpace
	case c == '+':
		return FaultPlus
	}
	return FaultASCII
}

// sequence holds the end of an emoji sequence (UTS #51), because the invisible characters
// that join emoji are possible within such a sequence only.
type sequence struct{ last rune }

// Marks of the end of a sequence in place of a character.
const (
	afterPicture = -1 - iota // a picture, with or without its variation selector
	afterDigit               // a digit, and a variation selector: a keycap must follow
	afterFlag                // the black flag, which tags may follow
	afterTag                 // a tag, which must not be the last one
)

const (
	zwj         = 0x200d
	keycap      = 0x20e3
	information = 0x2139
	textStyle   = 0xfe0e
	emoji       = 0xfe0f
	blackFlag   = 0x1f3f4
	firstTag    = 0xe0020
	lastTag     = 0xe007f
)

// isOpen reports whether the sequence is not complete.
func (q *sequence) isOpen() bool {
	return q.last == zwj || q.last == afterDigit || q.last == afterTag
}

func (q *sequence) addASCII(c byte) bool {
	if q.isOpen() {
		return false
	}
	q.last = rune(c)
	return true
}

// addRune adds a character beyond ASCII and returns a fault, or "".
func (q *sequence) addRune(r rune) string {
	last := q.last
	switch {
	case !q.isOpen() && r != information && unicode.IsLetter(r) && !unicode.Is(ignorable, r): // as most are
	case r == zwj && (last == afterPicture || last == afterFlag):
		q.last = zwj
		return ""
	case (r == emoji || r == textStyle) && (last == afterPicture || last == afterFlag):
		q.last = afterPicture
		return ""
	case r == emoji && '0' <= last && last <= '9':
		q.last = afterDigit
		return ""
	case r == keycap && last == afterDigit:
		q.last = r
		return ""
	case r == lastTag && last == afterTag:
		q.last = afterPicture
		return ""
	case firstTag <= r && r < lastTag && (last == afterFlag || last == afterTag):
		q.last = afterTag
		return ""
	case last == zwj && !isPicture(r), last == afterDigit, last == afterTag:
		return FaultSequence
	case r == blackFlag:
		q.last = afterFlag
		return ""
	case isPicture(r):
		q.last = afterPicture
		return ""
	case unicode.Is(ignorable, r):
		return FaultInvisible
	case unicode.Is(unicode.M, r):
		if last == 0 {
			return FaultMark
		}
	case !unicode.IsLetter(r) && !unicode.Is(unicode.Nd, r):
		return faultOf(r)
	}
	q.last = r
	return ""
}

// faultOf says why a character beyond ASCII that is no letter, digit, mark or emoji
// cannot be in a code.
func faultOf(r rune) string {
	switch {
	case unicode.Is(unicode.Bidi_Control, r):
		return FaultBidi
	case unicode.Is(unicode.Cc, r):
		return FaultControl
	case unicode.Is(unicode.Z, r):
		return FaultSpace
	case unicode.Is(unicode.Cf, r):
		return FaultInvisible
	case unicode.In(r, unicode.P, unicode.S, unicode.N, unicode.Co):
		return FaultSymbol
	}
	return FaultUnassigned
}

// ignorable has letters and marks that are not seen (Default_Ignorable_Code_Point of
// DerivedCoreProperties.txt; Go has the rest of it as the category Cf).
var ignorable = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x034f, 0x034f, 1},
		{0x115f, 0x1160, 1},
		{0x17b4, 0x17b5, 1},
		{0x180b, 0x180d, 1},
		{0x180f, 0x180f, 1},
		{0x3164, 0x3164, 1},
		{0xfe00, 0xfe0f, 1},
		{0xffa0, 0xffa0, 1},
	},
	R32: []unicode.Range32{{0xe0100, 0xe01ef, 1}},
}

// isPicture reports whether a character is an emoji, or a part of one that can be seen:
// pictures, flags and skin tones. One emoji is a letter: information.
func isPicture(r rune) bool {
	return r == information || unicode.Is(pictures, r) && unicode.In(r, unicode.S, unicode.P)
}

// pictures has the ranges with emoji (the property Emoji of emoji-data.txt). Among the
// symbols that they hold besides are only others of the same kind, such as dingbats.
var pictures = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x00a9, 0x00a9, 1},
		{0x00ae, 0x00ae, 1},
		{0x203c, 0x203c, 1},
		{0x2049, 0x2049, 1},
		{0x2122, 0x2122, 1},
		{0x2194, 0x2199, 1},
		{0x21a9, 0x21aa, 1},
		{0x231a, 0x231b, 1},
		{0x2328, 0x2328, 1},
		{0x23cf, 0x23cf, 1},
		{0x23e9, 0x23f3, 1},
		{0x23f8, 0x23fa, 1},
		{0x24c2, 0x24c2, 1},
		{0x25aa, 0x25ab, 1},
		{0x25b6, 0x25b6, 1},
		{0x25c0, 0x25c0, 1},
		{0x25fb, 0x25fe, 1},
		{0x2600, 0x2767, 1},
		{0x2794, 0x27bf, 1},
		{0x2934, 0x2935, 1},
		{0x2b05, 0x2b07, 1},
		{0x2b1b, 0x2b1c, 1},
		{0x2b50, 0x2b50, 1},
		{0x2b55, 0x2b55, 1},
		{0x3030, 0x3030, 1},
		{0x303d, 0x303d, 1},
		{0x3297, 0x3297, 1},
		{0x3299, 0x3299, 1},
	},
	R32:         []unicode.Range32{{0x1f000, 0x1faff, 1}},
	LatinOffset: 2,
}

// reservedCodes are words that no user can choose on the default domain: strangers share
// it, and do not expect links there.
var reservedCodes = map[string]bool{
	"admin": true, "api": true, "assets": true, "bulk": true, "console": true, "dashboard": true, "debug": true, "export": true,
	"docs": true, "favicon": true, "health": true, "healthz": true, "internal": true,
	"livez": true, "login": true, "logout": true, "metrics": true, "openapi": true,
	"readyz": true, "replication": true, "robots": true, "shorten": true,
	"static": true, "stats": true, "version": true, "waypost": true, "well-known": true,
}

// ReservedCode reports whether s is a word that no user can choose as a code of the
// default domain.
func ReservedCode(s string) bool { return reservedCodes[strings.ToLower(s)] }

// OwnPath reports whether an edge answers a code itself on every domain, in any case of
// its letters.
func OwnPath(s string) bool {
	first, _, _ := strings.Cut(s, "/")
	for _, own := range []string{"health", "robots.txt", "favicon.ico"} {
		if strings.EqualFold(s, own) {
			return true
		}
	}
	return strings.EqualFold(first, ".well-known")
}
