package main

// maxLinks bounds the replica that a run makes.
const maxLinks = 50_000_000

const (
	codeLength    = 7
	codeSpace     = 62 * 62 * 62 * 62 * 62 * 62 * 62
	codeStep      = 1_000_003 // prime, so that no two numbers below codeSpace meet
	codeDigits    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	locationHead  = "https://www.example.org/articles/2026/"
	locationTail  = "/a-title-of-the-usual-length?utm_source=newsletter&utm_medium=email"
	constantCode  = "0000000"
	constantReply = locationHead + constantCode + locationTail
)

// appendCode appends the code of link number n.
func appendCode(dst []byte, n uint64) []byte {
	n = n * codeStep % codeSpace
	for range codeLength {
		dst = append(dst, codeDigits[n%62])
		n /= 62
	}
	return dst
}

// appendLocation appends where the link of a code leads.
func appendLocation(dst, code []byte) []byte {
	dst = append(dst, locationHead...)
	dst = append(dst, code...)
	return append(dst, locationTail...)
}
