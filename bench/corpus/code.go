package corpus

import "math/bits"

// CodeLength is the length of every code.
const CodeLength = 7

const (
	codeSpace  = 62 * 62 * 62 * 62 * 62 * 62 * 62
	codeStep   = 1_000_003       // prime, so that no two numbers below codeSpace meet
	codeBack   = 388_520_965_867 // codeStep times this is 1, modulo codeSpace
	codeDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// AppendCode appends the code of link number n, below 3.5e12. Links of different numbers have
// different codes, and neighbours are not alike.
func AppendCode(dst []byte, n uint64) []byte {
	n = n * codeStep % codeSpace
	for range CodeLength {
		dst = append(dst, codeDigits[n%62])
		n /= 62
	}
	return dst
}

// PrefixLength is how many characters of a code are its prefix, as key ranges have it.
const PrefixLength = 2

const (
	prefixes  = 62 * 62
	suffixes  = codeSpace / prefixes
	issued    = 8   // prefixes
	issueStep = 480 // from one of them to the next
)

// Issued gives the ordinals of the prefixes of which key ranges issue codes. Links have codes of all
// prefixes, so that what is asked for does not tell by its beginning whether it is one.
func Issued() (ordinals []int) {
	for i := range issued {
		ordinals = append(ordinals, i*issueStep)
	}
	return ordinals
}

// isIssued reports whether number n's code is of one of those prefixes.
func isIssued(n uint64) bool {
	scrambled := n * codeStep % codeSpace
	ordinal := scrambled%62*62 + scrambled/62%62
	return ordinal%issueStep == 0 && ordinal/issueStep < issued
}

// numberWith gives the number whose code has a prefix and a suffix, of which all are another.
func numberWith(ordinal, suffix uint64) uint64 {
	scrambled := ordinal/62 + ordinal%62*62 + suffix*prefixes
	hi, lo := bits.Mul64(scrambled, codeBack)
	return bits.Rem64(hi, lo, codeSpace)
}
