package target

import "net/netip"

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

// blocks4 and blocks6 follow the IANA special-purpose address registries. The first
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
	global6   = netip.MustParsePrefix("2000::/3") // all that IANA gives out so far
	sixToFour = netip.MustParsePrefix("2002::/16")
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
)

// reservedKind says what an address is when it is not a public one, with its
// article, and "" otherwise.
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
