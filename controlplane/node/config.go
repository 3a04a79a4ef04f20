// Package node runs a control plane: it opens the data directory and PostgreSQL, answers
// the API, and streams changes to edges. The packages next to it do the work; this
// package connects them.
package node

import (
	"net/netip"
	"time"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/edge/gossip"
	"waypost/internal/failpoint"
)

// Config describes a control plane.
type Config struct {
	Version string           // of the product
	Region  waypost.Region   // required
	Regions []waypost.Region // that get a key prefix, besides Region
	Node    string           // default: control-REGION
	DataDir string           // required

	Addr                     string // of the API, HOST:PORT
	FleetAddr                string // of the routes that only edges use, HOST:PORT; "": Addr
	AdminAddr                string // HOST:PORT
	BaseURL                  string // of short URLs
	Contact                  string // whom visitors of a blocked link may ask; may be ""
	TLS                      TLS
	TrustedProxies           []netip.Prefix
	MaxConnections           int           // of the API, see [listener.Shares]; default 10,000
	MaxConnectionsPerAddress int           // of these, of one address; default 1,024
	ShutdownTimeout          time.Duration // for requests under way at the end; default 5 s

	ClusterSecret     [32]byte
	CodeLength        int
	LeaseSize         int64 // of the first lease; default 10,000
	SigningGeneration uint32
	EdgeToken         string // of all edges; "": only enrolled edges are let in
	Replica           bool   // whether a replica of all links is kept in DataDir

	AllowPrivateTargets bool
	OwnHosts            []string // in addition to the host of BaseURL
	DNSResolvers        []string // HOST:PORT; empty: the system's resolvers
	CORSOrigins         []string // of web pages that may call the API
	StrictHosts         bool
	FreeSharedCodes     bool
	Anonymous           bool                      // requests without an API key act as the default workspace
	RateLimit           int                       // requests a second of one API key; 0: no limit
	Cleanup             bool                      // whether expired links are removed
	Reaper              controlplane.ReaperConfig // settings only; the control plane fills in Store, KeysAfter, Logger and Metrics

	// Database and Gossip hold settings only. The control plane connects these parts to
	// one another.
	Database postgres.Config
	Gossip   gossip.Config // without Bind there is no gossip
}

// TLS names the files of the API's TLS. Without a certificate the API speaks plain HTTP.
type TLS struct {
	CertFile, KeyFile string
	ClientCAFile      string // roots of the certificates that edges must show; "": none is asked for
}

const (
	// prefixLength leaves 3,844 prefixes, which are more than there will be regions, and
	// 238,328 keys for each with the shortest codes.
	prefixLength = 2

	// A key may send the requests of two seconds of its rate at once, after a pause or by
	// several connections. Five keys of a workspace can use their rates in full.
	burstSeconds, workspaceKeys = 2, 5

	// maxFailures bounds the failed attempts to authenticate of an address in a minute: more
	// than people who mistype, and programs that missed a change of their key, need.
	maxFailures = 30

	// keysKeptFor is the time in which an operator can still see that a key has expired or
	// was revoked, and when it was last used.
	keysKeptFor = 30 * 24 * time.Hour
)

func (c Config) withDefaults() Config {
	if c.MaxConnections == 0 {
		c.MaxConnections = int(failpoint.Number("connections of the API", 10_000))
	}
	if c.MaxConnectionsPerAddress == 0 {
		c.MaxConnectionsPerAddress = int(failpoint.Number("connections of the API of an address", 1_024))
	}
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = failpoint.Limit("a stop takes at most", 5*time.Second)
	}
	if c.LeaseSize == 0 {
		c.LeaseSize = failpoint.Number("keys of a lease", 0)
	}
	return c
}
