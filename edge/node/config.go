// Package node runs an edge: it opens the data directory, the listeners and the replica,
// follows the control plane, answers redirects, ships clicks, and restarts without losing
// a request. The packages next to it do the work; this package connects them.
package node

import (
	"cmp"
	"os"
	"time"

	"waypost"
	"waypost/edge/certs"
	"waypost/edge/gossip"
	"waypost/edge/replica"
	"waypost/edge/server"
	"waypost/internal/failpoint"
	"waypost/internal/restart"
)

// Config describes an edge.
type Config struct {
	Version string         // of the product
	Region  waypost.Region // required
	Node    string         // default: the name in the credential or the data directory, or else a random one
	DataDir string         // required; belongs to this edge alone

	Control    Control
	TLS        TLS
	Listen     Listen
	RelayToken string // shown to relays, and asked for by this one; Control.Token is enough too

	// Server, Replica, Certificates and Gossip hold settings only. The edge fills in the
	// fields by which these parts use one another.
	Server       server.Config
	Replica      replica.Config
	Certificates certs.Config
	Gossip       gossip.Config // without Bind there is no gossip

	GeoIP        string // MaxMind database; "": countries and cities are not known
	ClickJournal int64  // bytes on disk; 0: the journal chooses

	DrainDelay      time.Duration // between the end of readiness and the end of serving
	ShutdownTimeout time.Duration // for requests under way at the end; default 5 s

	Sockets  *restart.Sockets // left by the program before, or by systemd; nil: there are none
	Restarts <-chan os.Signal // each asks for a restart with the program on the disk
}

// relayLog is the disk space of the changes that a relay keeps for its followers.
const relayLog = 256 << 20

// withDefaults fills in limits that tests of whole processes change by failpoints. The
// parts have defaults of their own.
func (c Config) withDefaults() Config {
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, failpoint.Limit("a stop takes at most", 5*time.Second))
	if c.Replica.LookupBytes == 0 { // decided here, because the heap's limit depends on it
		c.Replica.LookupBytes = failpoint.Number("bytes of the lookup table", replica.DefaultLookupBytes())
	}
	if c.Listen.Relay != "" && c.Replica.LogBytes == 0 {
		c.Replica.LogBytes = relayLog
	}
	if c.Replica.MinFree == (replica.MinFree{}) {
		c.Replica.MinFree.Bytes = failpoint.Number("bytes that stay free", 0)
	}
	return c
}

// Control holds the settings by which the edge reaches the control plane.
type Control struct {
	URLs       []string // of control planes that share a database, or of relays; at least one
	Token      string   // of all edges; "": a credential is needed
	EnrolToken string   // is exchanged for a credential, once
}

// TLS names the files of TLS to other nodes, PEM.
type TLS struct {
	CertFile, KeyFile string // of this edge, which a relay shows to its followers as well; "": plain HTTP for them
	CAFile            string // roots of the other nodes' certificates; default: the system's; required of a relay with a certificate
}

// Listen holds addresses, HOST:PORT. The flag that belongs to an address is named in
// errors.
type Listen struct {
	Addr  []string // of the redirects, and the fleet is shown the first; at least one; --addr
	Admin string   // --admin-addr
	TLS   []string // of the redirects over TLS; --tls-addr
	Relay string   // for edges that follow this one, which is a relay then; "": none do; --relay-addr
}

// ConfigError is an error that only another configuration mends.
type ConfigError struct{ Err error }

// Error implements error.
func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Err }
