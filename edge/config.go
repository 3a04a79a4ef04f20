package edge

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
)

// Config says how a Server answers. Zero fields mean the default.
type Config struct {
	Links Links // required

	// Clicks takes every GET that is answered with a link's redirect and is no
	// prefetch, and nothing else. Default: none is recorded.
	Clicks Clicks

	// StrictHosts makes a host that belongs to no domain answer 404. Otherwise it
	// means the default domain.
	StrictHosts bool

	// TrustedProxies are the peers whose X-Forwarded-Host is believed. That of
	// anyone else is ignored.
	TrustedProxies []netip.Prefix

	// Version, Region and Node are told at GET /.
	Version string
	Region  waypost.Region
	Node    string

	// MaxStaleness bounds the age of the replica, as Staleness gives it, above
	// which redirects say so in the header Waypost-Stale, in whole seconds. They
	// are served all the same. 0, or no Staleness: never. Staleness is asked at
	// every redirect, by many goroutines at once.
	MaxStaleness time.Duration
	Staleness    func() time.Duration

	// Logger gets what an operator has to know; it never gets addresses of
	// visitors. Default: discarded.
	Logger *slog.Logger

	// Metrics takes the server's collector; a second server on the same registerer
	// is a mistake and panics. Default: none.
	Metrics prometheus.Registerer

	// Clock judges expiry, and dates clicks. Default: time.Now.
	Clock func() time.Time

	ReadTimeout    time.Duration // for one whole request; default 5 s
	WriteTimeout   time.Duration // for one whole response; default 10 s
	IdleTimeout    time.Duration // between requests of a connection; default 60 s
	DrainTime      time.Duration // see Shutdown; default 1 s
	MaxConnections int           // above it connections get 503; default 32,768
}

// Limits on what a client may send, in bytes.
const (
	maxHead   = 16 << 10 // request line and header; 431 above
	maxTarget = 8 << 10  // request target; 414 above
	maxHost   = 255
)

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
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
	return c
}
