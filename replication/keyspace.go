package replication

import (
	"fmt"

	"waypost/keyrange"
)

// keySpaceHeader is the value of [HeaderKeySpace], empty for a space that is not known.
func keySpaceHeader(s keyrange.Space) string {
	if s.CodeLength() == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.CodeLength(), s.PrefixLength())
}

// parseKeySpace reads what keySpaceHeader writes, and nothing else.
func parseKeySpace(text string) (keyrange.Space, bool) {
	var code, prefix int
	if n, err := fmt.Sscanf(text, "%d/%d", &code, &prefix); err != nil || n != 2 {
		return keyrange.Space{}, false
	}
	s, err := keyrange.NewSpace(code, prefix)
	return s, err == nil && keySpaceHeader(s) == text
}
