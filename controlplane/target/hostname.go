package target

import (
	"strings"

	"golang.org/x/net/publicsuffix"

	"waypost"
)

// HostName gives the name of a host as a Host header has it: lower-case ASCII, an IDN in
// punycode, without a final dot. The error is EInvalid for what is no name, such as an
// address, a name with a port, or a URL.
func HostName(s string) (string, error) {
	switch {
	case s == "" || len(s) > 4*maxName:
		return "", waypost.Errorf(waypost.EInvalid, "the host is empty or too long")
	case strings.ContainsAny(s, "[]"):
		return "", waypost.Errorf(waypost.EInvalid, "the host %s is an address, and not a name", quote(s))
	case checkText(s) != nil:
		return "", waypost.Errorf(waypost.EInvalid, "the host %s holds what no name may hold", quote(s))
	}
	h, err := parseHost(s)
	if err != nil {
		return "", waypost.WrapError(waypost.EInvalid, waypost.MessageOf(err), err)
	}
	if h.address.IsValid() {
		return "", waypost.Errorf(waypost.EInvalid, "the host %s is an address, and not a name", quote(s))
	}
	return h.name, nil
}

// DomainName is HostName for a host that is to be a domain of short links: one that
// somebody can have for themselves. Local names, names without a dot, and those under
// which others register theirs (com, co.uk, github.io) are EInvalid.
func DomainName(s string) (string, error) {
	name, err := HostName(s)
	if err != nil {
		return "", err
	}
	switch {
	case strings.Contains(name, "_"):
		return "", waypost.Errorf(waypost.EInvalid, "the host %s holds an underscore, which certificates do not allow", quote(s))
	case localName(name):
		return "", waypost.Errorf(waypost.EInvalid, "the host %s is a local name", quote(s))
	case !strings.Contains(name, "."):
		return "", waypost.Errorf(waypost.EInvalid, "the host %s has no dot, so nobody can have it for themselves", quote(s))
	case strings.HasSuffix(name, ".invalid"), strings.HasSuffix(name, ".arpa"), strings.HasSuffix(name, ".onion"):
		return "", waypost.Errorf(waypost.EInvalid, "the host %s is under a name that is kept for something else", quote(s))
	}
	for label := range strings.SplitSeq(name, ".") {
		if label[0] == '-' || label[len(label)-1] == '-' {
			return "", waypost.Errorf(waypost.EInvalid, "the host %s has a part that begins or ends with a hyphen", quote(s))
		}
	}
	if suffix, _ := publicsuffix.PublicSuffix(name); suffix == name {
		return "", waypost.Errorf(waypost.EInvalid, "the host %s is one under which others have their names", quote(s))
	}
	return name, nil
}
