// Package codes reads codes from people and from requests: it knows their normal form
// and the codes that a visitor may mean. Edges and the control plane share it, so that
// they cannot disagree. It looks nothing up.
//
// The normal form is NFC by the Unicode tables of Go and of golang.org/x/text, which are
// of the same version (TestNormalForm_HasOneUnicodeVersion).
package codes

import (
	"slices"
	"sync"

	"golang.org/x/text/unicode/norm"

	"waypost"
)

// NormalForm returns a code in its normal form. Of a text that is no code it returns a
// text that is no code either.
func NormalForm(s string) waypost.Code {
	if waypost.PlainCode(s) || len(s) > maxDecoded {
		return waypost.Code(s)
	}
	return waypost.Code(norm.NFC.String(s))
}

// maxDecoded bounds the texts with a code as their normal form, in bytes, because
// decomposed characters are up to three times as long as composed ones.
const maxDecoded = 3 * waypost.MaxCodeLength

// normalForms has a buffer for each normalisation under way.
var normalForms = sync.Pool{New: func() any { return &normalForm{out: make([]byte, 0, 2*maxDecoded)} }}

type normalForm struct {
	iter norm.Iter
	out  []byte
}

// firstMark begins the UTF-8 of U+0300, the first combining mark. A text of characters
// before it is in its normal form.
const firstMark = 0xcc

// normalise replaces a text by its normal form, and returns it. It leaves out the end of
// a normal form that is longer than any code and the punctuation behind it.
func normalise(text []byte) []byte {
	if len(text) == 0 || slices.Max(text) < firstMark || norm.NFC.QuickSpan(text) == len(text) {
		return text
	}
	n, _ := normalForms.Get().(*normalForm)
	defer normalForms.Put(n)
	n.out = n.out[:0]
	for n.iter.Init(norm.NFC, text); !n.iter.Done() && len(n.out) <= waypost.MaxCodeLength+maxTrimmed*len("%00"); {
		n.out = append(n.out, n.iter.Next()...)
	}
	return append(text[:0], n.out...)
}
