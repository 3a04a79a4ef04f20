package listener_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/listener"
)

const deadline = 30 * time.Second

// serve answers 200 to members, which name themselves in their path, and to others while
// their connection is not on trial.
func serve(t *testing.T, cfg listener.SharesConfig) (*listener.Shares, string) {
	t.Helper()
	ln, err := listener.Open(t.Context(), "127.0.0.1:0", "--addr")
	require.NoError(t, err)
	shares := listener.NewShares(ln, cfg)
	server := &http.Server{
		ReadHeaderTimeout: deadline, ConnContext: listener.WithConn,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			place := listener.ConnOf(r.Context())
			switch {
			case r.URL.Path == "/member":
				place.Prove()
			case place.OnTrial():
				w.Header().Set("Connection", "close")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}),
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(shares) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return shares, ln.Addr().String()
}

// dial connects from an address of this machine.
func dial(t *testing.T, from, to string) net.Conn {
	t.Helper()
	c, err := tryDial(t, from, to)
	require.NoError(t, err)
	return c
}

// tryDial is dial for a connection that may be reset before the system says that it
// stands.
func tryDial(t *testing.T, from, to string) (net.Conn, error) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp", to)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(deadline)))
	return c, nil
}

// ask sends a request, and returns the status of the answer; 0: there was none.
func ask(c net.Conn, path string) int {
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return 0
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func TestShares_LimitAnAddress(t *testing.T) {
	_, addr := serve(t, listener.SharesConfig{Most: 100, PerAddress: 3, Exempt: func(a netip.Addr) bool {
		return a.Unmap() == netip.MustParseAddr("127.0.0.9")
	}})
	for range 3 {
		require.Equal(t, 200, ask(dial(t, "127.0.0.2", addr), "/"))
	}
	over := dial(t, "127.0.0.2", addr)
	require.Equal(t, 503, ask(over, "/"), "a client above the limit learns why")
	_, err := over.Read(make([]byte, 1))
	require.Error(t, err, "and its connection ends")
	require.Equal(t, 200, ask(dial(t, "127.0.0.3", addr), "/"), "other addresses are served")
	require.Equal(t, 200, ask(dial(t, "127.0.0.2", addr), "/member"), "a member at the same address is")
	for range 10 {
		require.Equal(t, 200, ask(dial(t, "127.0.0.9", addr), "/"), "an exempt address has no limit")
	}
}

func TestShares_KeepPlacesForMembers(t *testing.T) {
	shares, addr := serve(t, listener.SharesConfig{Most: 20, PerAddress: 100, Patience: time.Hour})
	first := dial(t, "127.0.0.2", addr)
	require.Equal(t, 200, ask(first, "/member"))
	var open []net.Conn
	for range 18 {
		c := dial(t, "127.0.0.2", addr)
		require.Equal(t, 200, ask(c, "/"))
		open = append(open, c)
	}
	require.Equal(t, 503, ask(dial(t, "127.0.0.3", addr), "/"), "the general share is full")

	// A silent connection does not keep a member out.
	eventually(t, func() bool { _, trials, _, _ := shares.Count(); return trials == 0 })
	silent := dial(t, "127.0.0.3", addr)
	eventually(t, func() bool { _, trials, _, _ := shares.Count(); return trials == 1 })
	member := dial(t, "127.0.0.4", addr)
	require.Equal(t, 200, ask(member, "/member"))
	require.Equal(t, 200, ask(member, "/"), "it stays proven")
	require.Equal(t, 200, ask(silent, "/member"), "the silent one may still prove itself")
	require.NoError(t, silent.Close())

	require.NoError(t, open[0].Close())
	eventually(t, func() bool { general, _, _, _ := shares.Count(); return general == 17 })
	require.Equal(t, 200, ask(dial(t, "127.0.0.3", addr), "/"), "a place that is left can be taken")
	for _, c := range []net.Conn{first, member} {
		require.NoError(t, c.Close())
	}
	eventually(t, func() bool { _, trials, proven, _ := shares.Count(); return trials == 0 && proven == 0 })
}

func TestShares_EndTrialsThatTakeTooLong(t *testing.T) {
	shares, addr := serve(t, listener.SharesConfig{Most: 20, PerAddress: 1, Patience: 50 * time.Millisecond})
	require.Equal(t, 200, ask(dial(t, "127.0.0.2", addr), "/"))
	_, err := dial(t, "127.0.0.2", addr).Read(make([]byte, 1))
	require.Error(t, err)
	general, trials, _, refused := shares.Count()
	require.Equal(t, []int{1, 0, 1}, []int{general, trials, int(refused)})
}

// All places of clients are taken, and connections that send nothing keep coming from
// sixteen addresses: a member whose first request comes late is served nevertheless.
func TestShares_FloodOfSilentConnectionsEndsNoTrialOfAnother(t *testing.T) {
	shares, addr := serve(t, listener.SharesConfig{Most: 3000, PerAddress: 1, Patience: time.Hour})
	flood := func(rounds int) {
		for n := range 16 {
			for range rounds {
				_, _ = tryDial(t, fmt.Sprintf("127.0.0.%d", 10+n), addr) // it may be reset at once
			}
		}
	}
	flood(20)
	eventually(t, func() bool { _, trials, _, refused := shares.Count(); return trials == 16*16 && refused == 16*3 })
	require.Equal(t, 200, ask(dial(t, "127.0.0.3", addr), "/"))
	late := dial(t, "127.0.0.3", addr)
	eventually(t, func() bool { _, trials, _, _ := shares.Count(); return trials == 16*16+1 })
	flood(5)
	eventually(t, func() bool { _, _, _, refused := shares.Count(); return refused == 16*8 })
	require.Equal(t, 200, ask(late, "/member"))
	_, _, proven, _ := shares.Count()
	require.Equal(t, 1, proven)
}

func TestNetwork_IsTheAddressOrTheSixtyFour(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8:1:2:3::4": "2001:db8:1:2::", "fe80::1%eth0": "fe80::",
	} {
		require.Equal(t, want, listener.Network(netip.MustParseAddr(addr)).String())
	}
}

func eventually(t *testing.T, is func() bool) {
	t.Helper()
	require.Eventually(t, is, deadline, 5*time.Millisecond)
}
