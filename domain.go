package waypost

import (
	"encoding/json"
	"errors"
	"strings"
)

// MaxDomainURL bounds each of a domain's targets, in bytes, so that all three fit into a
// record's payload even if JSON escapes every byte.
const MaxDomainURL = 4000

// Domain is a host under which codes are unique.
type Domain struct {
	ID        DomainID
	Workspace WorkspaceID // 0: shared by all
	Host      string      // in the form of HostName; "" until the shared domain has a name
	Traits    DomainTraits
	DomainTargets
}

// DomainTraits has what a visit must know of its domain before its link is looked up.
type DomainTraits uint8

const (
	Maintained DomainTraits = 1 << 0 // there is a target for maintenance
	ExactPaths DomainTraits = 1 << 1 // neither a slash nor punctuation behind a code is forgiven

	IgnoresCase   DomainTraits = 1 << 2 // the key of a link is its code without case
	CaseSwitching DomainTraits = 1 << 3 // some links do not have the key yet that IgnoresCase asks for
)

// With returns the traits with a trait, or without it.
func (t DomainTraits) With(trait DomainTraits, has bool) DomainTraits {
	if has {
		return t | trait
	}
	return t &^ trait
}

// DomainTargets lead visitors of a domain in place of its links, and say what is counted
// of the links. Targets are Locations: printable ASCII, http or https.
type DomainTargets struct {
	Root        []byte // from the root; empty: the root shows the service's name
	NotFound    []byte // in place of 404; empty: 404 is answered
	Maintenance []byte // from the root and from all links; empty: there is no maintenance

	// CountUTM says that some workspace counts the utm parameters of its links here.
	CountUTM bool
}

// AtRoot returns the answer to the root of the domain, and false if the root has no
// target.
func (t DomainTargets) AtRoot() (Resolution, bool) {
	to := t.Root
	if len(t.Maintenance) > 0 {
		to = t.Maintenance
	}
	return Resolution{Status: 302, Location: to}, len(to) > 0
}

// InsteadOf returns the answer that replaces r, which is no click. A 404 is replaced and,
// during maintenance, the redirect of a link and the question of a form.
func (t DomainTargets) InsteadOf(r Resolution) Resolution {
	var to []byte
	switch {
	case r.Link, r.Asks():
		to = t.Maintenance
	case r.Status == 404:
		to = t.NotFound
	}
	if len(to) == 0 {
		return r
	}
	return Resolution{Status: 302, Location: to}
}

// DecodeDomain decodes the payload of a domain's record. With an error it returns the
// part that is usable: a host without its targets, or nothing.
func DecodeDomain(payload []byte) (Domain, error) {
	var body struct {
		Workspace   WorkspaceID `json:"workspace_id"` // null: shared
		Host        string      `json:"host"`
		Root        string      `json:"root_url"`
		NotFound    string      `json:"not_found_url"`
		Maintenance string      `json:"maintenance_url"`
		CountUTM    bool        `json:"count_utm"`
		ExactPaths  bool        `json:"exact_paths"`
		IgnoresCase bool        `json:"ignores_case"`
		Switching   bool        `json:"case_switching"`
	}
	if err := json.Unmarshal(payload, &body); err != nil {
		return Domain{}, err
	}
	d := Domain{Workspace: body.Workspace, Host: HostName(body.Host)}
	d.Traits = d.Traits.With(ExactPaths, body.ExactPaths).With(IgnoresCase, body.IgnoresCase).With(CaseSwitching, body.Switching)
	if d.Host == "" {
		return d, errors.New("the domain names no host")
	}
	for _, t := range []struct {
		text string
		to   *[]byte
	}{{body.Root, &d.Root}, {body.NotFound, &d.NotFound}, {body.Maintenance, &d.Maintenance}} {
		if t.text == "" {
			continue
		}
		if !ValidLocation(t.text) || len(t.text) > MaxDomainURL {
			return Domain{Workspace: d.Workspace, Host: d.Host, Traits: d.Traits}, errors.New("a target of the domain is no URL to redirect to")
		}
		*t.to = []byte(t.text)
	}
	d.CountUTM = body.CountUTM
	d.Traits = d.Traits.With(Maintained, len(d.Maintenance) > 0)
	return d, nil
}

// ValidLocation reports whether s can be the Location of a redirect without a change: an
// absolute http or https URL of printable ASCII. Browsers may still reject the URL, and
// the control plane may refuse it as a target.
func ValidLocation[T string | []byte](s T) bool {
	colon := 0
	for colon < len(s) && s[colon] != ':' {
		colon++
	}
	if !foldsTo(s[:colon], "http") && !foldsTo(s[:colon], "https") {
		return false
	}
	if len(s) <= colon+3 || s[colon+1] != '/' || s[colon+2] != '/' {
		return false
	}
	for i := colon; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// foldsTo reports whether s equals lower, which is in lower case, without regard to case.
func foldsTo[T string | []byte](s T, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i := range len(lower) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// StrictTransport is the Strict-Transport-Security header (RFC 6797) of every answer over
// TLS: browsers use TLS alone for that host for a year.
const StrictTransport = "max-age=31536000"

// HostName returns the canonical form of a Host header: lower case, without a port and
// without the dot of a rooted name.
func HostName(host string) string {
	if strings.HasPrefix(host, "[") {
		if end := strings.IndexByte(host, ']'); end > 0 {
			host = host[:end+1]
		}
	} else if i := strings.IndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
