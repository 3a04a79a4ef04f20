package audience

import (
	"bytes"
	"net/netip"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// appendHost appends the host of a Referer: in lower case, with www., without a port, and
// names in other scripts as punycode, as browsers send them. IP addresses stay as they
// are; the packages of Android apps are hosts too. It appends nothing unless the text is
// a URL of http, https or android-app with a valid host.
func appendHost(dst, referrer []byte) []byte {
	scheme, rest, ok := bytes.Cut(referrer, []byte("://"))
	if !ok || !schemeWithHost(scheme) {
		return dst
	}
	if i := bytes.IndexAny(rest, "/?#\\"); i >= 0 {
		rest = rest[:i]
	}
	if i := bytes.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	if len(rest) > 0 && rest[0] == '[' {
		return appendIPv6(dst, rest)
	}
	host, port, _ := bytes.Cut(rest, []byte(":"))
	host = bytes.TrimSuffix(host, []byte("."))
	if !digits(port) || len(host) == 0 || len(host) > 2*MaxName {
		return dst
	}
	return appendName(dst, host)
}

func schemeWithHost(scheme []byte) bool {
	return bytes.EqualFold(scheme, []byte("https")) || bytes.EqualFold(scheme, []byte("http")) || bytes.EqualFold(scheme, []byte("android-app"))
}

func appendIPv6(dst, rest []byte) []byte {
	address, port, ok := bytes.Cut(rest[1:], []byte("]"))
	if !ok || len(port) > 0 && (port[0] != ':' || !digits(port[1:])) {
		return dst
	}
	addr, err := netip.ParseAddr(string(address))
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return dst
	}
	return append(addr.AppendTo(append(dst, '[')), ']')
}

// appendName appends a host's name if it can be one.
func appendName(dst, host []byte) []byte {
	start, ascii := len(dst), true
	for _, c := range host {
		ascii = ascii && c < utf8.RuneSelf
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	if !ascii {
		if !utf8.Valid(host) {
			return dst[:start]
		}
		name, err := idna.Lookup.ToASCII(string(host))
		if err != nil {
			return dst[:start]
		}
		dst = append(dst[:start], name...)
	}
	if !isName(dst[start:]) {
		return dst[:start]
	}
	return dst
}

// isName allows the characters of names in use: non-empty labels of letters, digits, -
// and _.
func isName(name []byte) bool {
	if len(name) == 0 || len(name) > MaxName {
		return false
	}
	label := 0
	for _, c := range name {
		switch {
		case c == '.':
			if label == 0 {
				return false
			}
			label = 0
			continue
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
			label++
		default:
			return false
		}
		if label > 63 {
			return false
		}
	}
	return label > 0
}

func digits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) <= 5
}
