package gossip

import (
	"context"
	"log"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// transport is memberlist's own, but that dialing ends with ctx, so that Close
// does not wait for a host that does not answer.
type transport struct {
	*memberlist.NetTransport
	ctx context.Context
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// listen opens UDP and TCP on the same port. A free port that the kernel picks for
// one of them may be taken for the other, so that is tried a few times.
func listen(ctx context.Context, at netip.AddrPort, logger *log.Logger) (*transport, error) {
	tries := 1
	if at.Port() == 0 {
		tries = 10
	}
	for {
		t, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{at.Addr().String()}, BindPort: int(at.Port()), Logger: logger,
		})
		if err == nil {
			return &transport{NetTransport: t, ctx: ctx}, nil
		}
		if tries--; tries == 0 {
			return nil, err
		}
	}
}

func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return (&net.Dialer{Timeout: timeout}).DialContext(t.ctx, "tcp", a.Addr)
}

func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}
