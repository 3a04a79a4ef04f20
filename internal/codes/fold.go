package codes

import (
	"bytes"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

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

// folds maps letters below U+0800 to letters of as many bytes; 0 for what takes more than
// that, and for marks, which may join a letter that was folded.
var folds = func() (to [0x800]uint16) {
	for r := rune(utf8.RuneSelf); int(r) < len(to); r++ {
		key := folder.String(string(r))
		if p := norm.NFC.PropertiesString(key); len(key) == utf8.RuneLen(r) && p.Size() == len(key) && p.BoundaryBefore() &&
			norm.NFC.IsNormalString(key) && norm.NFC.PropertiesString(string(r)).BoundaryBefore() {
			only, _ := utf8.DecodeRuneInString(key)
			to[r] = uint16(only)
		}
	}
	return to
}()

// appendFolded appends a code in its form without case, and reports whether that form is
// a code too. Most letters need no tables of Unicode.
func appendFolded(dst, code []byte) (folded []byte, valid bool) {
	begin := len(dst)
	dst = append(dst, code...)
	for text := dst[begin:]; len(text) > 0; {
		r, size := utf8.DecodeRune(text)
		switch {
		case 'A' <= r && r <= 'Z':
			text[0] += 'a' - 'A'
		case r < utf8.RuneSelf, 0x3000 <= r && r < 0xa000: // Chinese and Japanese
		case int(r) < len(folds) && folds[r] != 0:
			utf8.EncodeRune(text, rune(folds[r]))
		default:
			return appendFoldedText(dst[:begin], code)
		}
		text = text[size:]
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
