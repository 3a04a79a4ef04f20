// Package codestest makes paths for tests that compare the look-ups of edges and of the
// control plane.
package codestest

import "strings"

// Codes are the codes of a domain, and whether their links forward paths.
var Codes = map[string]bool{
	"spring": false, "sale": false, "sale.": false, "sale..": true, "a": true, "a/b": false, "a/b.": false, "a/b/c": true, "a/...": false,
	"café": false, "é/🦣": true, "...": true, "~": false, "1\ufe0f\u20e3": false, "v1.2-b_c": true,
}

// pieces are the parts of the paths: of codes, and of all that may be behind them.
var pieces = []string{
	"spring", "sale", "sp%72ing", "a", "b", "c", "caf", "é", "%C3%A9", "e%CC%81", "🦣", "%f0%9f%a6%a3", "1%EF%B8%8F%E2%83%A3", "v1%2e2-b%5Fc",
	"/", "/", "/", ".", ".", "..", "%2E", ",", ";", ":", "!", ")", "]", "'",
	"%29", "%22", "%3e", "%2F", "%25", "%2B", "+", "~", "%7E", "x", "%20",
	"SPRING", "Sale", "%C3%89", "A",
	"%00", "%ff", "*", "//evil.example", "%5C", "%2e%2e", "$", "@",
}

// Path makes a path of pieces, each named by a byte. It has no first slash.
func Path(choice []byte) string {
	var b strings.Builder
	for _, c := range choice {
		b.WriteString(pieces[int(c)%len(pieces)])
	}
	return b.String()
}
