package proxy_test

import (
	"encoding/binary"
	"hash/crc32"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/edge/proxy"
)

var trusted = proxy.Trusted{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}

func TestAPeerIsItsAddressWithoutAZoneAndIPv4AsSuch(t *testing.T) {
	for peer, want := range map[net.Addr]string{
		&net.TCPAddr{IP: net.ParseIP("192.0.2.1")}:             "192.0.2.1",
		&net.TCPAddr{IP: net.ParseIP("::ffff:192.0.2.1")}:      "192.0.2.1",
		&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}: "fe80::1",
		&net.UnixAddr{Name: "/x"}:                              "invalid IP",
		&net.TCPAddr{}:                                         "invalid IP",
	} {
		require.Equal(t, want, proxy.Peer(peer).String())
	}
	require.True(t, trusted.Has(netip.MustParseAddr("::ffff:10.1.2.3")))
	require.False(t, trusted.Has(netip.MustParseAddr("11.1.2.3")))
	require.False(t, trusted.Has(netip.Addr{}))
}

func TestTheClientIsTheRightMostHopThatIsNotTrusted(t *testing.T) {
	for name, c := range map[string]struct {
		peer, want string
		lines      []string
	}{
		"a stranger's own, whatever it sends":              {"192.0.2.1", "192.0.2.1", []string{"203.0.113.9"}},
		"a proxy that says nothing is the client":          {"10.0.0.1", "10.0.0.1", nil},
		"whom the proxy has seen":                          {"10.0.0.1", "203.0.113.9", []string{"203.0.113.9"}},
		"what a client has invented is passed over":        {"10.0.0.1", "203.0.113.9", []string{"1.2.3.4, 203.0.113.9"}},
		"a chain of trusted proxies is followed":           {"10.0.0.1", "203.0.113.9", []string{"1.2.3.4, 203.0.113.9, 10.9.9.9,fd00::2"}},
		"several lines are one list":                       {"10.0.0.1", "203.0.113.9", []string{"1.2.3.4", "203.0.113.9", "10.9.9.9"}},
		"trusted proxies only: the farthest":               {"10.0.0.1", "10.7.7.7", []string{"10.7.7.7, 10.9.9.9"}},
		"a trusted proxy over IPv6":                        {"fd00::1", "2001:db8::7", []string{"2001:db8::7"}},
		"IPv4 mapped into IPv6 is IPv4":                    {"::ffff:10.0.0.1", "203.0.113.9", []string{"::ffff:203.0.113.9"}},
		"a port is passed over":                            {"10.0.0.1", "203.0.113.9", []string{"203.0.113.9:4711"}},
		"brackets are passed over":                         {"10.0.0.1", "2001:db8::7", []string{"[2001:db8::7]"}},
		"brackets and a port are passed over":              {"10.0.0.1", "2001:db8::7", []string{"[2001:DB8::7]:443"}},
		"tabs and spaces are passed over":                  {"10.0.0.1", "203.0.113.9", []string{" \t203.0.113.9\t "}},
		"what is no address ends at the proxy":             {"10.0.0.1", "10.9.9.9", []string{"203.0.113.9, unknown, 10.9.9.9"}},
		"an empty entry ends at the proxy":                 {"10.0.0.1", "10.0.0.1", []string{"203.0.113.9,"}},
		"an empty line ends at the proxy":                  {"10.0.0.1", "10.0.0.1", []string{"203.0.113.9", ""}},
		"a zone is no address":                             {"10.0.0.1", "10.0.0.1", []string{"fe80::1%eth0"}},
		"a port that is none ends at the proxy":            {"10.0.0.1", "10.0.0.1", []string{"203.0.113.9:http"}},
		"an open bracket ends at the proxy":                {"10.0.0.1", "10.0.0.1", []string{"[2001:db8::7"}},
		"IPv4 in brackets ends at the proxy":               {"10.0.0.1", "10.0.0.1", []string{"[203.0.113.9]"}},
		"a chain without end is not followed for ever":     {"10.0.0.1", "10.0.0.2", []string{"203.0.113.9" + strings.Repeat(",10.0.0.2", 500)}},
		"an entry of great length ends at the proxy":       {"10.0.0.1", "10.0.0.1", []string{strings.Repeat("1", 9000)}},
		"an address of too many groups ends at the proxy":  {"10.0.0.1", "10.0.0.1", []string{"1:2:3:4:5:6:7:8:9"}},
		"an octal address is none":                         {"10.0.0.1", "10.0.0.1", []string{"0203.0.113.9"}},
		"a name is no address":                             {"10.0.0.1", "10.0.0.1", []string{"localhost"}},
		"a quoted address of another header is no address": {"10.0.0.1", "10.0.0.1", []string{`"203.0.113.9"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var lines [][]byte
			for _, l := range c.lines {
				lines = append(lines, []byte(l))
			}
			require.Equal(t, c.want, trusted.Client(netip.MustParseAddr(c.peer), lines).Unmap().String())
		})
	}
}

func TestFindingTheClientDoesNotAllocate(t *testing.T) {
	lines := [][]byte{[]byte("1.2.3.4, [2001:db8::7]:443, 10.9.9.9"), []byte("10.1.1.1")}
	bad := [][]byte{[]byte("unknown, 10.9.9.9")}
	peer := netip.MustParseAddr("10.0.0.1")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		trusted.Client(peer, lines)
		trusted.Client(peer, bad)
	}))
}

func FuzzTheClientIsAlwaysAnAddress(f *testing.F) {
	f.Add([]byte("1.2.3.4, 203.0.113.9"))
	f.Add([]byte("[::1]:80,::,,"))
	f.Fuzz(func(t *testing.T, line []byte) {
		got := trusted.Client(netip.MustParseAddr("10.0.0.1"), [][]byte{line})
		require.True(t, got.IsValid())
		require.Empty(t, got.Zone())
		require.False(t, got.Is4In6())
	})
}

// version2 makes a header of version 2 with the checksum that crc says it has; nil:
// without one.
func version2(command, family byte, addresses []byte, values ...[]byte) []byte {
	body := addresses
	for _, v := range values {
		body = append(body, v...)
	}
	b := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), command, family)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(body))), body...)
}

var (
	addresses4 = []byte{203, 0, 113, 9, 10, 0, 0, 1, 0x12, 0x34, 0, 80}
	addresses6 = append(append(netip.MustParseAddr("2001:db8::7").AsSlice(), netip.MustParseAddr("fd00::1").AsSlice()...), 0x12, 0x34, 0, 80)
)

func withChecksum(b []byte, wrong uint32) []byte {
	binary.BigEndian.PutUint32(b[len(b)-4:], 0)
	sum := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	binary.BigEndian.PutUint32(b[len(b)-4:], sum+wrong)
	return b
}

func TestAHeaderTellsTheSource(t *testing.T) {
	for name, c := range map[string]struct {
		header, source string
	}{
		"version 1 over IPv4":               {"PROXY TCP4 203.0.113.9 10.0.0.1 4711 80\r\n", "203.0.113.9"},
		"version 1 over IPv6":               {"PROXY TCP6 2001:db8::7 fd00::1 65535 0\r\n", "2001:db8::7"},
		"version 1 unknown":                 {"PROXY UNKNOWN\r\n", "invalid IP"},
		"version 1 unknown, with addresses": {"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "invalid IP"},
		"version 2 over IPv4":               {string(version2(0x21, 0x11, addresses4)), "203.0.113.9"},
		"version 2 over IPv6":               {string(version2(0x21, 0x21, addresses6)), "2001:db8::7"},
		"version 2 with values":             {string(version2(0x21, 0x11, addresses4, []byte{1, 0, 2, 'h', '2'}, []byte{4, 0, 0})), "203.0.113.9"},
		"version 2 with a checksum":         {string(withChecksum(version2(0x21, 0x11, addresses4, []byte{3, 0, 4, 0, 0, 0, 0}), 0)), "203.0.113.9"},
		"version 2, the proxy's own":        {string(version2(0x20, 0x00, nil)), "invalid IP"},
		"version 2 over a unix socket":      {string(version2(0x21, 0x31, make([]byte, 216))), "invalid IP"},
		"version 2 of no family":            {string(version2(0x21, 0x00, nil)), "invalid IP"},
	} {
		t.Run(name, func(t *testing.T) {
			source, n, err := proxy.ParseHeader([]byte(c.header + "GET / HTTP/1.1\r\n"))
			require.NoError(t, err)
			require.Equal(t, len(c.header), n)
			require.Equal(t, c.source, source.String())
			for i := range len(c.header) {
				_, _, err := proxy.ParseHeader([]byte(c.header[:i]))
				require.ErrorIs(t, err, proxy.ErrShort, "of its first %d bytes", i)
			}
		})
	}
}

func TestWhatIsNoHeaderIsRefused(t *testing.T) {
	for name, header := range map[string]string{
		"a request":                     "GET / HTTP/1.1\r\n",
		"a TLS hello":                   "\x16\x03\x01\x02\x00\x01",
		"lower case":                    "proxy TCP4 203.0.113.9 10.0.0.1 1 2\r\n",
		"an unknown family":             "PROXY UDP4 203.0.113.9 10.0.0.1 1 2\r\n",
		"an address of another family":  "PROXY TCP4 ::1 10.0.0.1 1 2\r\n",
		"a bad destination":             "PROXY TCP6 ::1 10.0.0.1 1 2\r\n",
		"two spaces":                    "PROXY  TCP4 203.0.113.9 10.0.0.1 1 2\r\n",
		"a port above 65535":            "PROXY TCP4 203.0.113.9 10.0.0.1 65536 2\r\n",
		"a port with a zero in front":   "PROXY TCP4 203.0.113.9 10.0.0.1 01 2\r\n",
		"a missing port":                "PROXY TCP4 203.0.113.9 10.0.0.1 1\r\n",
		"more than two ports":           "PROXY TCP4 203.0.113.9 10.0.0.1 1 2 3\r\n",
		"LF alone":                      "PROXY TCP4 203.0.113.9 10.0.0.1 1 2\n",
		"a line of 108 bytes":           "PROXY UNKNOWN " + strings.Repeat("x", 92) + "\r\n",
		"a line without end":            "PROXY UNKNOWN " + strings.Repeat("x", 200),
		"a wrong signature":             "\r\n\r\n\x00\r\nQUIT\r\x21\x11\x00\x0c",
		"version 3":                     string(version2(0x31, 0x11, addresses4)),
		"an unknown command":            string(version2(0x22, 0x11, addresses4)),
		"too few bytes for IPv4":        string(version2(0x21, 0x11, addresses4[:11])),
		"too few bytes for IPv6":        string(version2(0x21, 0x21, addresses4)),
		"a header above the limit":      string(version2(0x21, 0x11, make([]byte, proxy.MaxHeader-15))),
		"a value that ends too late":    string(version2(0x21, 0x11, addresses4, []byte{1, 0, 9, 'x'})),
		"half a value":                  string(version2(0x21, 0x11, addresses4, []byte{1, 0})),
		"a wrong checksum":              string(withChecksum(version2(0x21, 0x11, addresses4, []byte{3, 0, 4, 0, 0, 0, 0}), 1)),
		"a checksum of another length ": string(version2(0x21, 0x11, addresses4, []byte{3, 0, 2, 0, 0})),
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := proxy.ParseHeader([]byte(header))
			require.ErrorIs(t, err, proxy.ErrHeader)
		})
	}
}

func FuzzAHeaderIsReadTheSameHoweverMuchFollows(f *testing.F) {
	f.Add([]byte("PROXY TCP4 203.0.113.9 10.0.0.1 4711 80\r\n"))
	f.Add(version2(0x21, 0x21, addresses6, []byte{1, 0, 2, 'h', '2'}))
	f.Add(withChecksum(version2(0x21, 0x11, addresses4, []byte{3, 0, 4, 0, 0, 0, 0}), 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		source, n, err := proxy.ParseHeader(b)
		if err != nil {
			require.Zero(t, n)
			if len(b) >= proxy.MaxHeader {
				require.ErrorIs(t, err, proxy.ErrHeader, "it never waits for more than the limit")
			}
			return
		}
		require.LessOrEqual(t, n, min(len(b), proxy.MaxHeader))
		require.Empty(t, source.Zone())
		again, m, err := proxy.ParseHeader(b[:n])
		require.NoError(t, err)
		require.Equal(t, n, m)
		require.Equal(t, source, again)
	})
}
