package target

import (
	"strings"
	"unicode/utf8"
)

// locate gives the Location of a URL whose host is original[start:end]: the host as
// written, and the rest escaped. It allocates only when they differ.
func locate(original string, start, end int, written string) string {
	extra := 0
	for i := end; i < len(original); i++ {
		if escaped(original[i]) {
			extra += len("%20") - 1
		}
	}
	if extra == 0 && written == original[start:end] {
		return original
	}
	var b strings.Builder
	b.Grow(start + len(written) + len(original) - end + extra)
	b.WriteString(original[:start])
	b.WriteString(written)
	for i := end; i < len(original); i++ {
		c := original[i]
		if !escaped(c) {
			b.WriteByte(c)
			continue
		}
		const hex = "0123456789ABCDEF"
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

// escaped reports whether a byte of a URL without control characters must not stand
// in a header as it is.
func escaped(c byte) bool { return c == ' ' || c >= utf8.RuneSelf }
