package proxy_test

import (
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
