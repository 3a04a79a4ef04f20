// Package corpus makes the links and requests of benchmarks: links by number, with codes
// and targets of real shapes, the order in which they are visited, and the headers of
// browsers. All of it follows from numbers, so that a program need not keep ten million
// links in memory to know the target of each.
package corpus

// CodeLength is the length of every code.
const CodeLength = 7

const (
	codeSpace  = 62 * 62 * 62 * 62 * 62 * 62 * 62
	codeStep   = 1_000_003 // prime, so that no two numbers below codeSpace meet
	codeDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// AppendCode appends the code of link number n, below 3.5e12. Links of different numbers
// have different codes, and the codes of neighbours are not similar.
func AppendCode(dst []byte, n uint64) []byte {
	n = n * codeStep % codeSpace
	for range CodeLength {
		dst = append(dst, codeDigits[n%62])
		n /= 62
	}
	return dst
}
