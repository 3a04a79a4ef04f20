package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const gossipPort = 7946

// network carries the gossip of nodes in two regions. Each node has a loopback address
// of its own, and another at which the rest of the fleet reaches it, so that datagrams
// can be lost by region and direction.
type network struct {
	t    *testing.T
	base [3]byte
	work sync.WaitGroup

	mu      sync.Mutex
	regions map[netip.Addr]string // by a node's own address
	lost    map[[2]string]bool    // from region, to region
	streams map[net.Conn]struct{}
}

func newNetwork(t *testing.T) *network {
	n := &network{
		t: t, base: [3]byte{127, byte(64 + rand.N(128)), byte(rand.N(256))},
		regions: make(map[netip.Addr]string), lost: make(map[[2]string]bool), streams: make(map[net.Conn]struct{}),
	}
	t.Cleanup(func() {
		n.lose([2]string{"", ""}) // ends all streams
		n.work.Wait()
	})
	return n
}

// own returns the address of a node by its number, and shown the one for others.
func (n *network) own(number int) netip.AddrPort { return n.at(1 + number) }

func (n *network) shown(number int) netip.AddrPort { return n.at(101 + number) }

func (n *network) at(last int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{n.base[0], n.base[1], n.base[2], byte(last)}), gossipPort)
}

// join carries gossip to a node from now on.
func (n *network) join(number int, region string) {
	n.t.Helper()
	own, shown := n.own(number), n.shown(number)
	n.mu.Lock()
	n.regions[own.Addr()] = region
	n.mu.Unlock()
	datagrams, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(shown))
	require.NoError(n.t, err)
	streams, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(shown))
	require.NoError(n.t, err)
	n.t.Cleanup(func() { require.NoError(n.t, errors.Join(datagrams.Close(), streams.Close())) })
	n.work.Go(func() {
		buffer := make([]byte, 64<<10)
		for {
			size, from, err := datagrams.ReadFromUDPAddrPort(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil && !n.loses(from.Addr().Unmap(), region) {
				_, _ = datagrams.WriteToUDPAddrPort(buffer[:size], own) // the node may be away
			}
		}
	})
	n.work.Go(func() {
		for {
			c, err := streams.Accept()
			if err != nil {
				return
			}
			n.work.Go(func() { n.carry(c, own) })
		}
	})
}

func (n *network) loses(from netip.Addr, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost[[2]string{n.regions[from], to}]
}

// hold adds a stream; false while anything is cut, because a stream needs both directions
// and its sender is not known.
func (n *network) hold(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.lost) > 0 {
		_ = c.Close()
		return false
	}
	n.streams[c] = struct{}{}
	return true
}

func (n *network) release(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.streams, c)
	_ = c.Close()
}

func (n *network) carry(c net.Conn, own netip.AddrPort) {
	if !n.hold(c) {
		return
	}
	defer n.release(c)
	to, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", own.String())
	if err != nil || !n.hold(to) {
		return
	}
	defer n.release(to)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(to, c) // an end of either is the end of both
		_ = to.Close()
	}()
	_, _ = io.Copy(c, to)
	_ = c.Close()
	<-done
}

// lose loses gossip in these directions, and in no other.
func (n *network) lose(directions ...[2]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.lost)
	for _, d := range directions {
		n.lost[d] = true
	}
	if len(n.lost) > 0 {
		for c := range n.streams {
			_ = c.Close() // its user notices
		}
	}
}

func (n *network) String() string {
	return fmt.Sprintf("%d.%d.%d.0/24", n.base[0], n.base[1], n.base[2])
}
