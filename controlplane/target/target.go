package target

import (
	"strings"

	"waypost"
)

// Rules are what an operator can decide about targets. The zero value is the
// strictest, without domains of our own. Rules may be used by many goroutines at
// once if OwnHosts may.
type Rules struct {
	// AllowPrivate accepts local names and addresses that are not public, for
	// internal deployments.
	AllowPrivate bool

	// OwnHosts reports whether a host is one of ours, so that a link to it could
	// redirect in a circle. The host is as in [Target]. Nil means that none is.
	OwnHosts func(host string) bool

	// MaxLength bounds the original, in bytes; 0 means waypost.MaxURLLength.
	MaxLength int
}

func (r Rules) maxLength() int {
	if r.MaxLength == 0 {
		return waypost.MaxURLLength
	}
	return r.MaxLength
}

// Target is an accepted URL.
type Target struct {
	// Original is the text as it was sent, byte for byte.
	Original string

	// Location is what the redirect answers: printable ASCII without a space, at
	// most waypost.MaxPayload bytes. A browser reads it as the same URL as Original.
	Location string

	// Host is in lower-case ASCII, without a port or a final dot; an IPv6 address is
	// in its shortest form, without brackets.
	Host string
}

// Check judges a URL. The error is a *waypost.Error whose message says in one
// sentence what is wrong: EMalformed for text that is no http or https URL, or that
// not everyone would read as the same one; EInvalid for a URL that must not be a
// target; ETooLarge for one that is too long. Messages quote only a little of the
// URL, and no control characters.
func (r Rules) Check(original string) (Target, error) {
	if len(original) > r.maxLength() {
		return Target{}, waypost.Errorf(waypost.ETooLarge, "the URL is %d bytes long, but at most %d are allowed", len(original), r.maxLength())
	}
	if err := checkText(original); err != nil {
		return Target{}, err
	}
	start, end, err := findHost(original)
	if err != nil {
		return Target{}, err
	}
	h, err := parseHost(original[start:end])
	if err != nil {
		return Target{}, err
	}
	if err := r.checkHost(h); err != nil {
		return Target{}, err
	}
	location := locate(original, start, end, h.written)
	if len(location) > waypost.MaxPayload {
		return Target{}, waypost.Errorf(waypost.ETooLarge, "the URL is %d bytes long once it is percent-encoded, but at most %d are allowed", len(location), waypost.MaxPayload)
	}
	return Target{Original: original, Location: location, Host: h.name}, nil
}

func (r Rules) checkHost(h host) error {
	if r.OwnHosts != nil && r.OwnHosts(h.name) {
		return waypost.Errorf(waypost.EInvalid, "the host %s is a domain of this service, so the link could redirect in a circle", quote(h.name))
	}
	if r.AllowPrivate {
		return nil
	}
	if h.address.IsValid() {
		if kind := reservedKind(h.address); kind != "" {
			return waypost.Errorf(waypost.EInvalid, "the host %s is %s, not a public one", h.name, kind)
		}
		return nil
	}
	if localName(h.name) {
		return waypost.Errorf(waypost.EInvalid, "the host %s is a local name, not a public one", quote(h.name))
	}
	return nil
}

// localName knows the names that RFC 6761 and RFC 6762 keep for one's own machine
// and network, and the one that Unix systems give themselves.
func localName(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost") ||
		name == "localdomain" || strings.HasSuffix(name, ".localdomain") ||
		name == "local" || strings.HasSuffix(name, ".local")
}
