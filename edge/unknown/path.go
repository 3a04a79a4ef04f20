package unknown

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"waypost"
	"waypost/internal/codes"
)

// pathBuffer holds a path while it is decoded.
type pathBuffer struct{ code, text, again []byte }

// fitPath returns a path as the key of a link would be written, and false for a path that
// is not kept: one that may be private, or that programs ask for.
//
// Escapes of characters that a code may have are decoded; other escapes stay. A plus
// sign, a slash and punctuation at the end are left out, because a link without them
// would have answered.
func (b *pathBuffer) fitPath(sent []byte, traits waypost.DomainTraits) (path string, ok bool) {
	sent = bytes.TrimSuffix(sent, []byte("+"))
	b.code, b.text = b.code[:0], b.text[:0]
	for i := 0; i < len(sent); i++ {
		c, escaped := unescape(sent[i:])
		b.text = append(b.text, c)
		if escaped && c < utf8.RuneSelf && c != '.' && c != '~' && !waypost.PlainCode([]byte{c}) {
			b.code = append(b.code, bytes.ToUpper(sent[i:i+3])...)
		} else {
			b.code = append(b.code, c)
		}
		if escaped {
			i += 2
		}
	}
	b.again = b.again[:0]
	for i := 0; i < len(b.text); i++ { // some programs encode twice
		c, escaped := unescape(b.text[i:])
		if b.again = append(b.again, c); escaped {
			i += 2
		}
	}
	bare := b.code
	if traits&waypost.ExactPaths == 0 {
		bare = codes.Bare(bare)
	}
	key := codes.NormalForm(string(bare))
	if traits&waypost.IgnoresCase != 0 {
		key = codes.Fold(key)
	}
	path = string(key)
	switch {
	case path == "", path[0] == '/', !waypost.ValidClickName(path), !waypost.ValidClickName(string(b.text)), hasAt(b.text), hasAt(b.again):
		return "", false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if looksRandom(segment) || isNoise(segment) {
			return "", false
		}
	}
	return path, true
}

// unescape returns the byte that an escape at the beginning of b means, or the first
// byte.
func unescape(b []byte) (c byte, escaped bool) {
	if c, escaped = waypost.Unescape(b); !escaped {
		c = b[0]
	}
	return c, escaped
}

// hasAt finds the sign of e-mail addresses, also in its wide form.
func hasAt(text []byte) bool { return bytes.ContainsAny(text, "@＠") }

// Bounds of a segment that people read.
const (
	maxReadable = 40 // characters; a longer segment may be random
	maxWord     = 32 // ASCII letters and digits in a row
	mostDigits  = 5  // one in five characters is a digit or a capital letter: too many for words
)

// looksRandom reports whether a segment may be a token: it has more than 40 characters,
// and a fifth of them are ASCII digits and capitals, or more than 32 ASCII letters and
// digits follow each other. Slugs have words, tokens have neither words nor few digits.
func looksRandom(segment string) bool {
	all, signs, word, longest := 0, 0, 0, 0
	for _, c := range segment {
		all++
		switch {
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z':
			signs++
			word++
		case 'a' <= c && c <= 'z':
			word++
		default:
			word = 0
		}
		longest = max(longest, word)
	}
	return all > maxReadable && (signs*mostDigits >= all || longest > maxWord)
}

// isNoise reports whether browsers and scanners ask for a segment everywhere, without a
// person who wants it.
func isNoise(segment string) bool {
	switch segment {
	case "wp-login.php", "wp-admin", "wp-includes", "xmlrpc.php":
		return true
	}
	return strings.HasPrefix(segment, ".") || strings.HasPrefix(segment, "favicon.") || strings.HasPrefix(segment, "apple-touch-icon")
}
