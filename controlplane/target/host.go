package target

import (
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"waypost"
)

// Limits of a host's name in bytes of its ASCII form, by RFC 1035.
const (
	maxName  = 253
	maxLabel = 63
)

// host is the host of a URL in its two forms.
type host struct {
	name    string     // as in Target.Host
	written string     // as it belongs into Location
	address netip.Addr // valid when the host is an address
}

// profile is what the URL standard makes of names: UTS #46 without transitional
// processing. Lengths and hyphens are judged here, not by it.
var profile = idna.New(
	idna.MapForLookup(),
	idna.BidiRule(),
	idna.CheckJoiners(true),
	idna.CheckHyphens(false),
	idna.Transitional(false),
	idna.VerifyDNSLength(false),
)

// parseHost reads a host that is not empty. Each notation of an address that is not
// the usual one is refused, whatever the address: to a browser http://0x7f.1/ is
// 127.0.0.1, to others a name.
func parseHost(s string) (host, error) {
	if s[0] == '[' {
		return parseIPv6(s)
	}
	if strings.IndexByte(s, '%') >= 0 {
		return host{}, waypost.Errorf(waypost.EMalformed, "the host %s must not be percent-encoded", quote(s))
	}
	if strings.IndexByte(s, ':') >= 0 {
		return host{}, waypost.Errorf(waypost.EMalformed, "the host %s holds a colon, and an IPv6 address must be in brackets", quote(s))
	}
	written, err := toASCII(s)
	if err != nil {
		return host{}, err
	}
	name := strings.TrimSuffix(strings.ToLower(written), ".")
	if err := checkName(name); err != nil {
		return host{}, err
	}
	h := host{name: name, written: written}
	if looksNumeric(name) {
		h.address, err = netip.ParseAddr(written)
		if err != nil {
			return host{}, waypost.Errorf(waypost.EInvalid, "the host %s can be read as an IPv4 address, which must be written as four decimal numbers", quote(s))
		}
	}
	return h, nil
}

func parseIPv6(s string) (host, error) {
	text := s[1 : len(s)-1]
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is6() || address.Zone() != "" {
		return host{}, waypost.Errorf(waypost.EMalformed, "the host %s is not an IPv6 address", quote(s))
	}
	return host{name: address.String(), written: s, address: address}, nil
}

// toASCII turns an internationalised name into punycode and leaves every other as
// it is. A name that comes in punycode must decode to one that is encoded so, or
// browsers would refuse it, or take it for another.
func toASCII(s string) (string, error) {
	ascii := isASCII(s)
	if ascii && !hasPunycode(s) {
		return s, nil
	}
	name, err := profile.ToASCII(s)
	if err != nil || name == "" {
		return "", waypost.Errorf(waypost.EMalformed, "the host %s is not a valid internationalised domain name", quote(s))
	}
	if ascii {
		return s, nil
	}
	return name, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// hasPunycode reports whether a label begins with xn--, in whatever case.
func hasPunycode(s string) bool {
	const mark = "xn--"
	for i := 0; i+len(mark) <= len(s); i++ {
		if (i == 0 || s[i-1] == '.') && s[i]|0x20 == 'x' && s[i+1]|0x20 == 'n' && s[i+2:i+4] == mark[2:] {
			return true
		}
	}
	return false
}

// checkName checks the characters and lengths of a name in lower-case ASCII. The
// underscore is in use, though not for hosts by the letter of RFC 1123.
func checkName(name string) error {
	if len(name) > maxName {
		return waypost.Errorf(waypost.EInvalid, "the host is %d bytes long, but a name has at most %d", len(name), maxName)
	}
	label := 0
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			label++
		case c != '.':
			return waypost.Errorf(waypost.EMalformed, "the host %s holds %q, which no host may hold", quote(name), c)
		case label == 0:
			return emptyLabel(name)
		default:
			label = 0
		}
		if label > maxLabel {
			return waypost.Errorf(waypost.EInvalid, "the host %s has a part longer than %d bytes between its dots", quote(name), maxLabel)
		}
	}
	if label == 0 {
		return emptyLabel(name)
	}
	return nil
}

func emptyLabel(name string) error {
	return waypost.Errorf(waypost.EMalformed, "the host %s has an empty part before, after or between its dots", quote(name))
}

// looksNumeric reports whether somebody may read a name as an IPv4 address. The URL
// standard asks whether the last label is a number, decimal, octal or hexadecimal;
// readers differ in what they make of a sign, of overflow and of letters in it. By
// RFC 1123, 2.1, no top-level domain begins with a digit, so whatever does is taken
// for a number here.
func looksNumeric(name string) bool {
	first := name[strings.LastIndexByte(name, '.')+1]
	return first >= '0' && first <= '9' || first == '-'
}
