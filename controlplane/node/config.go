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
)

// Config describes a control plane.
type Config struct {
	Version    string           // of the product
	Region     waypost.Region   // required
	Regions    []waypost.Region // that get a key prefix, besides Region
	Node       string           // default: control-REGION
	DataDir    string           // required
	StatusFile string           // see [admin.Status]; "": none is written

	Addr                     string // of the API, HOST:PORT
	AdminAddr                string // HOST:PORT
	BaseURL                  string // of short URLs
	Contact                  string // whom visitors of a blocked link may ask; may be ""
	TLS                      TLS
	TrustedProxies           []netip.Prefix
	MaxConnections           int           // of the API; see [listener.Shares]
	MaxConnectionsPerAddress int           // of these, of one address
	ShutdownTimeout          time.Duration // for requests under way at the end

	ClusterSecret     [32]byte
	CodeLength        int
	PrefixLength      int
	LeaseSize         int64
	SigningGeneration uint32
	EdgeToken         string // of all edges; "": only enrolled edges are let in
	Replica           bool   // whether a replica of all links is kept in DataDir

	AllowPrivateTargets bool
	OwnHosts            []string // besides that of BaseURL
	DNSResolvers        []string // HOST:PORT; empty: those of the system
	StrictHosts         bool
	Anonymous           bool // requests without an API key act as the default workspace
	Limits              Limits
	Cleanup             bool // whether expired links are removed

	// Database, Reaper and Gossip hold settings only. The control plane fills in what
	// these parts need of one another.
	Database postgres.Config
	Reaper   controlplane.ReaperConfig
	Gossip   gossip.Config // without Bind there is no gossip
}

// TLS names the files of the API's TLS. Without a certificate the API speaks plain HTTP.
type TLS struct {
	CertFile, KeyFile string
	ClientCAFile      string // roots of the certificates that edges must show; "": none is asked for
}

// Limits bound the requests of one client; 0: no limit.
type Limits struct {
	Requests  int // of one API key a second
	Burst     int // of one API key at once
	Workspace int // of one workspace a second, and twice as many at once
	Failures  int // to authenticate a minute, of one address
}
