package server

import (
	"cmp"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/edge/fastpath"
	"waypost/rules/agents"
)

// Config configures a Server. A zero field means its default.
type Config struct {
	Links Links // required

	// Clicks takes every GET that is answered with a link's redirect and is no prefetch,
	// and no other request. Default: none is recorded.
	Clicks Clicks

	// Unknown takes every GET of a domain that names no link and is no prefetch. Default:
	// none is counted.
	Unknown Unknown

	// Sealer encrypts the addresses of visitors. Default: clicks have no address.
	Sealer Sealer

	// Locator locates visitors for rules. Default: countries and cities are unknown.
	Locator Locator

	// Budgets has the clicks of links that may be followed only so often. Default: such a
	// link answers 503.
	Budgets Budgets

	// Agents recognises bots for rules and budgets. Default: the words of its package.
	Agents *agents.Classifier

	// Blocks knows the short addresses that operators have blocked. Default: none is.
	Blocks Blocks

	// Contact says whom visitors of a blocked short address may ask, such as an e-mail
	// address. Default: the answer names none.
	Contact string

	// StrictHosts answers 404 for a host that belongs to no domain. Otherwise such a host
	// means the default domain.
	StrictHosts bool

	// TrustedProxies are the peers that may send X-Forwarded-* headers. The server
	// ignores the headers of other peers.
	TrustedProxies []netip.Prefix

	// ProxyProtocol requires that trusted proxies begin every connection with a header of
	// the PROXY protocol, version 1 or 2. Other peers must not send one.
	ProxyProtocol bool

	// Version, Region and Node are shown at GET /.
	Version string
	Region  waypost.Region
	Node    string

	// MaxStaleness is the age of the replica, as Staleness returns it, above which
	// redirects carry the header Waypost-Stale, in whole seconds. They are still served.
	// 0, or no Staleness: never. Staleness is called for every redirect, by many
	// goroutines at once.
	MaxStaleness time.Duration
	Staleness    func() time.Duration

	// Logger never gets addresses of visitors. Default: messages are discarded.
	Logger *slog.Logger

	// Metrics takes the server's collector. A second server on the same registerer is a
	// mistake and panics. Default: none.
	Metrics prometheus.Registerer

	// Clock decides expiry, and dates clicks. Default: time.Now.
	Clock func() time.Time

	ReadTimeout  time.Duration // for one whole request, and a handshake; default 5 s
	WriteTimeout time.Duration // for one whole response; default 10 s
	IdleTimeout  time.Duration // between requests of a connection; default 60 s
	DrainTime    time.Duration // see Shutdown; default 1 s

	// Connections above a limit are closed as they are accepted. One address is an
	// IPv4 address or the /64 of an IPv6 one; trusted proxies are not limited, but
	// the addresses that their PROXY headers name are.
	MaxConnections           int // default 32,768
	MaxConnectionsPerAddress int // default 1,024
}

// Limits on the parts of a request, in bytes.
const (
	maxHead   = 16 << 10           // request line and header; 431 above
	maxTarget = fastpath.MaxTarget // request target; 414 above
	maxHost   = 255
	maxForm   = 1 << 10 // body of a POST; 413 above
)

func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Staleness == nil {
		c.MaxStaleness = 0
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.ReadTimeout, 5 * time.Second},
		{&c.WriteTimeout, 10 * time.Second},
		{&c.IdleTimeout, time.Minute},
		{&c.DrainTime, time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.MaxConnections <= 0 {
		c.MaxConnections = 32 << 10
	}
	if c.MaxConnectionsPerAddress <= 0 {
		c.MaxConnectionsPerAddress = 1 << 10
	}
	return c
}
