package codes

import (
	"bytes"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/cases"

	"waypost"
)

// folder maps letters to the form that they have without case: the full case folding of
// Unicode, of the same version as the normal form, and of no language.
var folder = cases.Fold()

// Fold returns the key of a code, in its normal form, on a domain that ignores case. A
// code is its own key if the form without case is none: an emoji or a length could get
// lost.
func Fold(code waypost.Code) waypost.Code {
	for i := range len(code) {
		if c := code[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			return waypost.Code(AppendFold(nil, []byte(code)))
		}
	}
	return code
}

// AppendFold appends the key of a code. It does not allocate once dst is large enough.
func AppendFold(dst, code []byte) []byte {
	if key, valid := appendFolded(dst, code); valid {
		return key
	}
	return append(dst, code...)
}

// The UTF-8 of À to ÿ: the first byte, and the second bytes of ×, which is no letter, and
// of ß, which becomes two.
const (
	latin  = 0xc3
	times  = 0x97
	sharpS = 0x9f
)

// appendFolded appends a code in its form without case, and reports whether that form is
// a code too.
func appendFolded(dst, code []byte) (folded []byte, valid bool) {
	begin := len(dst)
	dst = append(dst, code...)
	for text := dst[begin:]; len(text) > 0; text = text[1:] {
		switch c := text[0]; {
		case 'A' <= c && c <= 'Z':
			text[0] += 'a' - 'A'
		case c < utf8.RuneSelf:
		case c == latin && len(text) > 1 && text[1]>>6 == 0b10 && text[1] != sharpS: // needs no tables
			if text = text[1:]; text[0] < sharpS && text[0] != times {
				text[0] += 'à' - 'À'
			}
		default:
			return appendFoldedText(dst[:begin], code)
		}
	}
	return dst, true
}

// foldings has memory for each folding under way.
var foldings = sync.Pool{New: func() any { return new([maxDecoded + utf8.UTFMax]byte) }}

// appendFoldedText is appendFolded for a code with characters beyond ASCII.
func appendFoldedText(dst, code []byte) (folded []byte, valid bool) {
	f, _ := foldings.Get().(*[maxDecoded + utf8.UTFMax]byte)
	defer foldings.Put(f)
	n, read, _ := folder.Transform(f[:], code, true)
	text := f[:n]
	foldCherokee(text)
	text = normalise(text)
	return append(dst, text...), bytes.Equal(text, code) || read == len(code) && waypost.ValidCode(text)
}

// foldCherokee maps the small letters of Cherokee to the capital ones, as Unicode does.
// Package cases exchanges both, so that a second folding would undo the first.
func foldCherokee(text []byte) {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case 0xab70 <= r && r <= 0xabbf:
			utf8.EncodeRune(text[i:], r-0xab70+0x13a0)
		case 0x13f8 <= r && r <= 0x13fd:
			utf8.EncodeRune(text[i:], r-8)
		}
		i += size
	}
}
