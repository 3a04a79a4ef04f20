package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net/netip"
)

// MaxHeader bounds a header of the PROXY protocol, in bytes. The format would allow
// 65,551; proxies send less than a tenth of this.
const MaxHeader = 4 << 10

var (
	// ErrShort says that the header goes on behind the given bytes.
	ErrShort = errors.New("the PROXY header is not complete")

	// ErrHeader says that it is none.
	ErrHeader = errors.New("no PROXY header")
)

// signature begins a header of version 2.
const signature = "\r\n\r\n\x00\r\nQUIT\n"

// ParseHeader reads the header of the PROXY protocol, version 1 or 2, that b begins
// with, as haproxy.org's proxy-protocol.txt defines it. It returns the address from
// which the proxy has accepted the connection, and the length of the header. The address
// is the zero Addr when the connection is the proxy's own (LOCAL), or of a family other
// than IP (UNKNOWN). The error is ErrShort as long as b can still become a header, and
// ErrHeader otherwise.
func ParseHeader(b []byte) (source netip.Addr, length int, err error) {
	switch {
	case begins(b, "PROXY "):
		return parseText(b)
	case begins(b, signature):
		return parseBinary(b)
	}
	return netip.Addr{}, 0, ErrHeader
}

// begins reports whether b begins with prefix, as far as it goes.
func begins(b []byte, prefix string) bool {
	n := min(len(b), len(prefix))
	return string(b[:n]) == prefix[:n]
}

// parseText reads version 1: one line of at most 107 bytes.
func parseText(b []byte) (netip.Addr, int, error) {
	const longest = 107
	line, _, found := bytes.Cut(b[:min(len(b), longest)], []byte("\r\n"))
	if !found {
		if len(b) >= longest || bytes.IndexByte(b, '\n') >= 0 {
			return netip.Addr{}, 0, ErrHeader
		}
		return netip.Addr{}, 0, ErrShort
	}
	length := len(line) + len("\r\n")
	rest := line[len("PROXY "):]
	family, rest, _ := bytes.Cut(rest, []byte(" "))
	if string(family) == "UNKNOWN" {
		return netip.Addr{}, length, nil
	}
	source, rest, _ := bytes.Cut(rest, []byte(" "))
	destination, rest, _ := bytes.Cut(rest, []byte(" "))
	sourcePort, destinationPort, _ := bytes.Cut(rest, []byte(" "))
	from, ok := addrOf(string(family), source)
	_, ok2 := addrOf(string(family), destination)
	if !ok || !ok2 || !isNumber(sourcePort) || !isNumber(destinationPort) {
		return netip.Addr{}, 0, ErrHeader
	}
	return from.Unmap(), length, nil
}

func addrOf(family string, text []byte) (netip.Addr, bool) {
	colon := bytes.IndexByte(text, ':') >= 0
	if family != "TCP4" && family != "TCP6" || colon != (family == "TCP6") {
		return netip.Addr{}, false
	}
	return parseAddr(text)
}

// isNumber takes a port as version 1 has it: without zeros in front.
func isNumber(text []byte) bool {
	if len(text) == 0 || len(text) > 5 || text[0] == '0' && len(text) > 1 {
		return false
	}
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
		n = n*10 + int(c-'0')
	}
	return n <= 65535
}

// parseBinary reads version 2: the signature, the command, the family, a length, two
// addresses with ports, and typed values; only the checksum among them matters here.
func parseBinary(b []byte) (netip.Addr, int, error) {
	const fixed = len(signature) + 4
	if len(b) < fixed {
		return netip.Addr{}, 0, ErrShort
	}
	command, family := b[len(signature)], b[len(signature)+1]
	length := fixed + int(binary.BigEndian.Uint16(b[len(signature)+2:]))
	if command != 0x20 && command != 0x21 || length > MaxHeader {
		return netip.Addr{}, 0, ErrHeader
	}
	if len(b) < length {
		return netip.Addr{}, 0, ErrShort
	}
	header, body := b[:length], b[fixed:length]
	if command == 0x20 { // LOCAL: whatever else it says is to be ignored
		return netip.Addr{}, length, nil
	}
	size := addressSize(family)
	if size == 0 {
		return netip.Addr{}, length, nil
	}
	if len(body) < 2*size+4 || !sound(header, fixed+2*size+4) {
		return netip.Addr{}, 0, ErrHeader
	}
	source, _ := netip.AddrFromSlice(body[:size])
	return source.Unmap(), length, nil
}

// addressSize returns the length of an address of TCP over IPv4 or IPv6, 0 for others.
func addressSize(family byte) int {
	switch family {
	case 0x11:
		return 4
	case 0x21:
		return 16
	}
	return 0
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sound judges the typed values from at on, and the checksum if one is there: it is
// of the whole header, taken with zeros in its own place.
func sound(header []byte, at int) bool {
	const checksum = 0x03
	for at < len(header) {
		if len(header)-at < 3 {
			return false
		}
		kind, size := header[at], int(binary.BigEndian.Uint16(header[at+1:]))
		at += 3
		if size > len(header)-at {
			return false
		}
		if kind == checksum {
			if size != 4 {
				return false
			}
			sum := crc32.Update(0, castagnoli, header[:at])
			sum = crc32.Update(sum, castagnoli, make([]byte, 4))
			sum = crc32.Update(sum, castagnoli, header[at+4:])
			if sum != binary.BigEndian.Uint32(header[at:]) {
				return false
			}
		}
		at += size
	}
	return true
}
