// Package target checks the URLs that links point at, and prepares the Location that a
// redirect answers.
//
// A target is accepted only when RFC 3986, the WHATWG URL standard that browsers follow,
// and a human reader understand the same URL. A target that they read differently is
// refused, and never repaired. Location is the target as it was sent, made fit for a
// header: bytes that no URI may hold are percent-encoded, an internationalised host is in
// punycode, and nothing else is altered.
//
// The package looks at the text alone. It resolves no names and fetches nothing, so it
// accepts a public name that leads to a private address; that is harmless to Waypost,
// which never follows a target.
package target

import (
	"crypto/sha256"
	"slices"
	"strings"

	"waypost"
)

// Rules holds the choices of an operator about targets. The zero value is the strictest,
// without own hosts. Rules may be used by many goroutines at
// once if OwnHosts may.
type Rules struct {
	// AllowPrivate accepts local names and addresses that are not public, for
	// internal deployments.
	AllowPrivate bool

	// OwnHosts reports whether a host is one of ours, so that a link to it could
	// redirect in a circle. The host is as in [Target]. Nil means that no host is.
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
	// Original is the text as it was sent, byte for byte, behind https:// if the text began
	// with a host.
	Original string

	// Location is the header of the redirect: bytes that a URI may hold, at most
	// waypost.MaxPayload. A browser reads it as the same URL as Original, with the
	// percent-encoding of characters that browsers send as they are.
	Location string

	// Host is in lower-case ASCII, without a port or a final dot; an IPv6 address is
	// in its shortest form, without brackets.
	Host string
}

// Check checks a URL. The error is a *waypost.Error. Its message names the fault in one
// sentence: EMalformed for text that is no http or https URL, or that readers understand
// differently; EInvalid for a URL that must not be a target; ETooLarge for one that is
// too long. Messages quote only a little of the URL, and no control characters.
func (r Rules) Check(original string) (Target, error) {
	if lacksScheme(original) {
		original = "https://" + original
	}
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
		return Target{}, waypost.Errorf(waypost.ETooLarge,
			"the URL is %d bytes long once it is percent-encoded, but at most %d are allowed", len(location), waypost.MaxPayload)
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
	if localName(h.name) || privateName(h.name) {
		return waypost.Errorf(waypost.EInvalid, "the host %s is a local name, not a public one", quote(h.name))
	}
	return nil
}

// localName reports whether RFC 6761 or RFC 6762 reserves a name for the own machine or
// network, or Unix systems use it for themselves.
func localName(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost") ||
		name == "localdomain" || strings.HasSuffix(name, ".localdomain") ||
		name == "local" || strings.HasSuffix(name, ".local")
}

// privateName reports whether only the resolvers of one network can know a name: it has
// no dot, or ends in a top-level domain that is reserved for private use (RFC 6761, 6762
// appendix G, 8375, and ICANN's .internal), or that leads nowhere.
func privateName(name string) bool {
	top := name[strings.LastIndexByte(name, '.')+1:]
	return len(top) == len(name) || slices.Contains(privateTops, top) || strings.HasSuffix(name, ".home.arpa")
}

var privateTops = []string{"corp", "home", "internal", "intranet", "invalid", "lan", "mail", "onion", "private", "test"}

// locate returns the Location of a URL. It replaces the host, original[start:end], by
// written, and encodes the rest. It allocates only when the Location differs from the
// original.
func locate(original string, start, end int, written string) string {
	rest := original[end:]
	length := waypost.EncodedLen(rest)
	if length == len(rest) && written == original[start:end] {
		return original
	}
	b := make([]byte, 0, start+len(written)+length)
	b = append(append(b, original[:start]...), written...)
	return string(waypost.AppendEncoded(b, rest))
}

// Normal returns the form by which two targets count as the same one: scheme and host in
// lower case, without the scheme's own port, without slashes at the end of the path, with
// the query parameters sorted by name and without trackers. Everything else is as in
// Location, because a difference may lead a browser to another page; so the fragment
// stays, and the order of parameters with the same name.
//
// It is for comparison alone: no visitor is redirected to it. The normal form of a normal
// form is itself.
func (t Target) Normal() string {
	scheme, rest, _ := strings.Cut(t.Location, "://")
	scheme = strings.ToLower(scheme)
	rest, fragment, hasFragment := strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	host, path, _ := strings.Cut(rest, "/")

	var b strings.Builder
	b.Grow(len(t.Location))
	b.WriteString(scheme)
	b.WriteString("://")
	b.WriteString(withoutPort(strings.ToLower(host), scheme))
	if path = strings.TrimRight(path, "/"); path != "" {
		b.WriteByte('/')
		b.WriteString(path)
	}
	separator := byte('?')
	for _, p := range parameters(query) {
		b.WriteByte(separator)
		b.WriteString(p)
		separator = '&'
	}
	if hasFragment {
		b.WriteByte('#')
		b.WriteString(fragment)
	}
	return b.String()
}

// Sum is the SHA-256 of the normal form.
func (t Target) Sum() [32]byte { return sha256.Sum256([]byte(t.Normal())) }

// withoutPort drops the default port of the scheme, also with leading zeros, and an empty
// one.
func withoutPort(host, scheme string) string {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.IndexByte(host[colon:], ']') >= 0 {
		return host
	}
	usual := "80"
	if scheme == "https" {
		usual = "443"
	}
	switch port := strings.TrimLeft(host[colon+1:], "0"); port {
	case "", usual:
		return host[:colon]
	default:
		return host[:colon+1] + port
	}
}

// parameters returns the parameters of a query, sorted by name, without empty ones and
// trackers.
func parameters(query string) []string {
	if query == "" {
		return nil
	}
	all := strings.Split(query, "&")
	all = slices.DeleteFunc(all, func(p string) bool { return p == "" || tracking(nameOf(p)) })
	slices.SortStableFunc(all, func(a, b string) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return all
}

func nameOf(parameter string) string {
	name, _, _ := strings.Cut(parameter, "=")
	return name
}

// trackers holds the parameters that only report where a visitor came from, as their
// vendors document. Campaign parameters (utm_ and similar) are known by their beginning.
var trackers = map[string]bool{
	"_ga": true, "_gl": true, "_hsenc": true, "_hsmi": true, "_openstat": true, "dclid": true, "epik": true,
	"fb_action_ids": true, "fb_action_types": true, "fb_source": true, "fbclid": true, "gad_source": true,
	"gbraid": true, "gclid": true, "gclsrc": true, "igsh": true, "igshid": true, "li_fat_id": true, "mc_cid": true,
	"mc_eid": true, "mkt_tok": true, "msclkid": true, "oly_anon_id": true, "oly_enc_id": true, "rdt_cid": true,
	"s_kwcid": true, "sccid": true, "srsltid": true, "ttclid": true, "twclid": true, "vero_conv": true,
	"vero_id": true, "wbraid": true, "wickedid": true, "yclid": true, "ysclid": true,
}

func tracking(name string) bool {
	return strings.HasPrefix(name, "utm_") || strings.HasPrefix(name, "hsa_") || strings.HasPrefix(name, "mtm_") ||
		strings.HasPrefix(name, "pk_") || trackers[name]
}
