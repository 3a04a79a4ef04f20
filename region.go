package waypost

// Region names a location with its own key ranges and edges, such as "us-east-1": 1 to 32
// characters of [a-z0-9-], beginning and ending with a letter or digit.
type Region string

// ParseRegion parses the name of a region.
func ParseRegion(s string) (Region, error) {
	ok := len(s) >= 1 && len(s) <= 32 && s[0] != '-' && s[len(s)-1] != '-'
	for i := 0; ok && i < len(s); i++ {
		c := s[i]
		ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-'
	}
	if !ok {
		return "", Errorf(EInvalid, "region %q must be 1 to 32 characters of a-z, 0-9 and -, not beginning or ending with -", s)
	}
	return Region(s), nil
}
