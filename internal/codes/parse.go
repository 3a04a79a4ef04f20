package codes

import (
	"fmt"
	"unicode"

	"waypost"
)

// Lengths of a code that a user chose on a domain that strangers share.
const (
	minShared = 4
	maxShared = 32
)

// Parse checks a code or a pattern that a user chose, and returns it in its normal form.
// Shared means that strangers share the domain, so that its codes are longer, plain, and
// no reserved words or patterns. Its error is EInvalid, with a message for the user.
func Parse(s string, shared bool) (waypost.Code, error) {
	invalid := func(format string, args ...any) (waypost.Code, error) {
		return "", waypost.Errorf(waypost.EInvalid, "custom_code "+format, args...)
	}
	if shared {
		switch {
		case !waypost.PlainCode(s) || len(s) < minShared || len(s) > maxShared:
			return invalid("must be %d to %d characters of A-Z, a-z, 0-9, _ and - on the shared domain", minShared, maxShared)
		case waypost.ReservedCode(s):
			return invalid("%q is a reserved word", s)
		}
		return waypost.Code(s), nil
	}
	code := NormalForm(s)
	_, fault := waypost.CheckCode(string(code))
	if waypost.IsPattern(s) {
		fault = waypost.CheckPattern(string(code))
	}
	if fault.Rune != 0 {
		return invalid("%s: %s", fault.Reason, named(fault.Rune))
	} else if fault.Reason != "" {
		return invalid("%s", fault.Reason)
	}
	if waypost.OwnPath(string(code)) {
		return invalid("%.64q is a path that Waypost answers itself", s)
	}
	return code, nil
}

// named returns a character and its number, or the number alone if it cannot be seen.
func named(r rune) string {
	if unicode.IsPrint(r) {
		return fmt.Sprintf("%q (U+%04X)", string(r), r)
	}
	return fmt.Sprintf("U+%04X", r)
}
