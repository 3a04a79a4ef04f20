package target

import (
	"cmp"
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"

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
	written string     // as in Location
	address netip.Addr // valid when the host is an address
}

// profile converts names as the URL standard does: UTS #46 without transitional
// processing. It checks neither lengths nor hyphens; checkName does.
var profile = idna.New(
	idna.MapForLookup(),
	idna.BidiRule(),
	idna.CheckJoiners(true),
	idna.CheckHyphens(false),
	idna.Transitional(false),
	idna.VerifyDNSLength(false),
)

// parseHost reads a host that is not empty. It refuses every unusual notation of an
// address: http://0x7f.1/ is 127.0.0.1 to a browser, and a name to other programs.
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
			return host{}, waypost.Errorf(waypost.EInvalid,
				"the host %s can be read as an IPv4 address, which must be written as four decimal numbers", quote(s))
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

// toASCII converts an internationalised name to punycode and leaves every other name as
// it is. A name in punycode must decode to a name that is encoded the same way, or
// browsers would refuse it, or take it for another.
func toASCII(s string) (string, error) {
	ascii := isASCII(s)
	if ascii && !hasPunycode(s) {
		return s, nil
	}
	name, err := profile.ToASCII(s)
	if err != nil || name == "" || vanishes(s, name) {
		return "", waypost.Errorf(waypost.EMalformed, "the host %s is not a valid internationalised domain name", quote(s))
	}
	if ascii {
		return s, nil
	}
	return name, nil
}

// vanishes reports whether a label of a name is empty in the form of profile alone, as
// xn-- is, which UTS #46, 4 (step 4.1) refuses and profile does not.
func vanishes(s, ascii string) bool {
	return strings.HasPrefix(ascii, ".") || strings.Contains(ascii, "..") ||
		strings.HasSuffix(ascii, ".") && strings.TrimRight(s, ".\u3002\uff0e\uff61") == s
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// hasPunycode reports whether a label begins with xn--, in any case.
func hasPunycode(s string) bool { return strings.Contains("."+strings.ToLower(s), ".xn--") }

// checkName checks the characters and lengths of a name in lower-case ASCII. It accepts
// the underscore, which is in use although RFC 1123 does not allow it for hosts.
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

// looksNumeric reports whether a reader may take a name for an IPv4 address. The URL
// standard asks whether the last label is a number, decimal, octal or hexadecimal;
// programs read signs, overflow and letters in it differently. By RFC 1123, 2.1, no
// top-level domain begins with a digit, so every label that does counts as a number.
func looksNumeric(name string) bool {
	first := name[strings.LastIndexByte(name, '.')+1]
	return first >= '0' && first <= '9' || first == '-'
}

// HostName returns the name of a host as a Host header has it: lower-case ASCII, an IDN
// in punycode, without a final dot. The error is EInvalid for text that is no name, such
// as an address, a name with a port, or a URL.
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

// DomainName is HostName for a host that is to be a domain of short links, which one
// owner can have. Local names, names without a dot, and public suffixes (com, co.uk,
// github.io) are EInvalid.
func DomainName(s string) (string, error) {
	if before, after, is := strings.Cut(s, "://"); is || strings.Contains(s, "/") {
		host, _, _ := strings.Cut(cmp.Or(after, before), "/")
		return "", waypost.Errorf(waypost.EInvalid, "a domain is a host without a scheme and a path, here %s", quote(host))
	}
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
		return "", waypost.Errorf(waypost.EInvalid, "the host %s has no dot, so no owner can have it", quote(s))
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

// block is a part of the address space that is not public.
type block struct {
	prefix netip.Prefix
	kind   string
}

const (
	private       = "a private address"
	loopback      = "a loopback address"
	linkLocal     = "a link-local address"
	multicast     = "a multicast address"
	unspecified   = "an unspecified address"
	documentation = "an address for documentation"
	reserved      = "a reserved address"
)

// blocks4 and blocks6 follow the IANA special-purpose address registries. The first block
// that holds an address names it.
var (
	blocks4 = []block{
		{netip.MustParsePrefix("0.0.0.0/32"), unspecified},
		{netip.MustParsePrefix("0.0.0.0/8"), reserved},
		{netip.MustParsePrefix("10.0.0.0/8"), private},
		{netip.MustParsePrefix("100.64.0.0/10"), "a shared address of carrier-grade NAT"},
		{netip.MustParsePrefix("127.0.0.0/8"), loopback},
		{netip.MustParsePrefix("169.254.0.0/16"), linkLocal},
		{netip.MustParsePrefix("172.16.0.0/12"), private},
		{netip.MustParsePrefix("192.0.0.0/24"), reserved},
		{netip.MustParsePrefix("192.0.2.0/24"), documentation},
		{netip.MustParsePrefix("192.88.99.0/24"), reserved}, // anycast of 6to4 relays, withdrawn
		{netip.MustParsePrefix("192.168.0.0/16"), private},
		{netip.MustParsePrefix("198.18.0.0/15"), "an address for benchmarks"},
		{netip.MustParsePrefix("198.51.100.0/24"), documentation},
		{netip.MustParsePrefix("203.0.113.0/24"), documentation},
		{netip.MustParsePrefix("224.0.0.0/4"), multicast},
		{netip.MustParsePrefix("240.0.0.0/4"), reserved},
	}
	blocks6 = []block{
		{netip.MustParsePrefix("::/128"), unspecified},
		{netip.MustParsePrefix("::1/128"), loopback},
		{netip.MustParsePrefix("::ffff:0:0/96"), "an IPv4 address in the form of IPv6"},
		{netip.MustParsePrefix("::/96"), "an IPv4 address in the form of IPv6"},
		{netip.MustParsePrefix("2001::/23"), reserved}, // protocols, among them Teredo and ORCHID
		{netip.MustParsePrefix("2001:db8::/32"), documentation},
		{netip.MustParsePrefix("3fff::/20"), documentation},
		{netip.MustParsePrefix("fc00::/7"), private},
		{netip.MustParsePrefix("fe80::/10"), linkLocal},
		{netip.MustParsePrefix("ff00::/8"), multicast},
	}
	global6   = netip.MustParsePrefix("2000::/3") // all that IANA has allocated
	sixToFour = netip.MustParsePrefix("2002::/16")
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
)

// reservedKind returns the kind of an address that is not public, with its article, and
// "" for a public one.
func reservedKind(a netip.Addr) string {
	if a.Is4() {
		return kindIn(blocks4, a)
	}
	bytes := a.As16()
	switch {
	case nat64.Contains(a):
		return kindIn(blocks4, netip.AddrFrom4([4]byte(bytes[12:16])))
	case sixToFour.Contains(a):
		return kindIn(blocks4, netip.AddrFrom4([4]byte(bytes[2:6])))
	}
	if kind := kindIn(blocks6, a); kind != "" {
		return kind
	}
	if !global6.Contains(a) {
		return reserved
	}
	return ""
}

func kindIn(blocks []block, a netip.Addr) string {
	for _, b := range blocks {
		if b.prefix.Contains(a) {
			return b.kind
		}
	}
	return ""
}
