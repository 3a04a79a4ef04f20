package waypost

import "strings"

// Code is the last path segment of a short URL. A generated code is base62 and has the
// cluster's code length (5 to 10). A custom code has 4 to 32 characters of [A-Za-z0-9_-].
// Codes are case-sensitive and unique per domain.
type Code string

// Lengths of a code in bytes, custom or generated.
const (
	MinCodeLength = 4
	MaxCodeLength = 32
)

// reservedCodes are paths that the servers answer themselves, and paths that browsers and
// operators do not expect to be links.
var reservedCodes = map[string]bool{
	"admin": true, "api": true, "assets": true, "bulk": true, "console": true, "dashboard": true, "debug": true, "export": true,
	"docs": true, "favicon": true, "health": true, "healthz": true, "internal": true,
	"livez": true, "login": true, "logout": true, "metrics": true, "openapi": true,
	"readyz": true, "replication": true, "robots": true, "shorten": true,
	"static": true, "stats": true, "version": true, "waypost": true, "well-known": true,
}

// ValidCode reports whether s has the shape of a code. It does not allocate. A redirect
// calls it before it looks anything up.
func ValidCode[T string | []byte](s T) bool {
	if len(s) < MinCodeLength || len(s) > MaxCodeLength {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !codeByte[s[i]] {
			return false
		}
	}
	return true
}

var codeByte = func() (t [256]bool) {
	for _, c := range []byte("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-") {
		t[c] = true
	}
	return t
}()

// ReservedCode reports whether s is a word that no user can choose as a code.
func ReservedCode(s string) bool { return reservedCodes[strings.ToLower(s)] }

// ParseCustomCode checks a code that a user chose. Its error is EInvalid, with a message
// for the user.
func ParseCustomCode(s string) (Code, error) {
	if !ValidCode(s) {
		return "", Errorf(EInvalid, "custom_code must be %d to %d characters of A-Z, a-z, 0-9, _ and -", MinCodeLength, MaxCodeLength)
	}
	if ReservedCode(s) {
		return "", Errorf(EInvalid, "custom_code %q is a reserved word", s)
	}
	return Code(s), nil
}
