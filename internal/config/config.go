// Package config is the configuration of every Waypost command: one strict YAML
// file, WAYPOST_* variables over it and flags over both. The fields below are the
// only list of settings there is: names of variables and flags, their help and
// their defaults all derive from it.
//
// It reads and judges settings; it does not act on them.
package config

import (
	"os"
	"path/filepath"
	"time"
)

// Config holds the settings of all commands. Tags: `yaml` names the key, `help`
// explains it, `env` replaces the derived name of the variable, `flag` the
// derived name of the flag. A [Secret] may also stand in a file: the names of that
// setting are the secret's with "file" appended. A "-" before the flag of a secret says
// that the secret itself has no flag, and only its file does.
type Config struct {
	Log     Log     `yaml:"log"`
	Control Control `yaml:"control"`
	Edge    Edge    `yaml:"edge"`
	TLS     TLS     `yaml:"tls"`
	Gossip  Gossip  `yaml:"gossip"`
	Cleanup Cleanup `yaml:"cleanup"`
	Dev     Dev     `yaml:"dev"`
	Client  Client  `yaml:"client"`
}

// Log holds the settings of a node's log on standard error.
type Log struct {
	Level  string `yaml:"level" flag:"log-level" help:"least severe level to log: debug, info, warn or error"`
	Format string `yaml:"format" flag:"log-format" help:"text, json, or auto: json unless on a terminal; text in the development system"`
}

// Control is a control plane.
type Control struct {
	Addr                string   `yaml:"addr" help:"address of the API, HOST:PORT"`
	FleetListen         string   `yaml:"fleet_listen" help:"address at which edges, and nothing else, reach this control plane, HOST:PORT, with the same TLS; never public; empty: edges use addr, and compete with all clients for its connections"`
	AdminAddr           string   `yaml:"admin_addr" help:"address of /livez, /readyz, /metrics and /debug/pprof, HOST:PORT; never public"`
	Region              string   `yaml:"region" help:"region whose key ranges this control plane mints from"`
	Node                string   `yaml:"node" help:"name of this control plane among those of its cluster; default: control-REGION"`
	Regions             []string `yaml:"regions" help:"regions that get a key prefix at the start, if they have none"`
	BaseURL             string   `yaml:"base_url" help:"what short URLs begin with, such as https://go.example.com"`
	Contact             string   `yaml:"contact" help:"whom visitors of a blocked link may ask, such as abuse@example.com; empty: the answer names none"`
	DatabaseURL         Secret   `yaml:"database_url" help:"database URL, postgres://USER@HOST/DATABASE; a password belongs into a variable or file"`
	ClusterSecret       Secret   `yaml:"cluster_secret" flag:"-" help:"secret of the cluster, 32 random bytes in hex; never changes"`
	Replica             bool     `yaml:"replica" help:"keep a replica of all links in data_dir, as edges do: it detects after a restore that PostgreSQL lost data, even if no edge is connected, and serves snapshots to edges at hardly any cost to PostgreSQL; takes disk and CPU time like an edge without visitors"`
	SigningGeneration   int      `yaml:"signing_generation" help:"which of the cluster's keys signs the changelog, the same on all control planes; only ever raised, when a key may be known to others"`
	EdgeToken           Secret   `yaml:"edge_token" flag:"-" help:"token that all edges may have, at least 16 characters; empty: only edges that were enrolled are let in"`
	TLSCertFile         string   `yaml:"tls_cert_file" help:"certificate chain of the API, PEM, read again when it changes; empty: the API speaks no TLS"`
	TLSKeyFile          string   `yaml:"tls_key_file" help:"its private key, PEM"`
	ClientCAFile        string   `yaml:"client_ca_file" help:"roots, PEM; edges must then show a client certificate of theirs with the node's name, as common name or as waypost://node/NAME"`
	AllowPrivateTargets bool     `yaml:"allow_private_targets" help:"accept links to private and loopback addresses, and to names that only one network knows"`
	OwnHosts            []string `yaml:"own_hosts" help:"more names of this installation, such as that of the API; no workspace adds them or names below them, and no link leads to them"`
	DNSResolvers        []string `yaml:"dns_resolvers" help:"resolvers that are asked for the proofs of domains, IP or HOST:PORT; empty: those of the system"`
	StrictHosts         bool     `yaml:"strict_hosts" help:"answer 404 for hosts that are no domain; false: such a host means the domain of base_url"`
	SharedCodes         string   `yaml:"shared_codes" help:"custom codes on the domain of base_url: plain, 4 to 32 of A-Z, a-z, 0-9, _ and -, because strangers share it; or free, the codes of all other domains, for installations in which all users trust each other"`
	TrustedProxies      []string `yaml:"trusted_proxies" help:"networks whose X-Forwarded-* headers count, such as 10.0.0.0/8"`
	CORSOrigins         []string `yaml:"cors_origins" help:"origins of web pages that may call the API with a key, such as https://shop.example.com; * for all; empty: none, as browsers refuse it"`
	CodeLength          int      `yaml:"code_length" help:"length of generated codes, 5 to 10; fixed once the cluster exists"`
	AnonymousWorkspace  bool     `yaml:"anonymous_workspace" help:"for development only: requests without an API key act as the default workspace"`
	EventsKeepMonths    int      `yaml:"events_keep_months" help:"whole months for which events are kept, besides the current one"`
	EventsExportDir     string   `yaml:"events_export_dir" help:"directory that gets the events of a month as compressed JSON lines before they are dropped; empty: they are dropped"`
	RateLimit           int      `yaml:"rate_limit" help:"requests a second of one API key, on average, and twice as many at once; all keys and sessions of a workspace together have five times as much; of a bulk request, every 100 links or keys count as one more; each control plane counts on its own; 0: no limit"`
	DataDir             string   `yaml:"data_dir" help:"directory in which this control plane remembers which keys were issued, in case PostgreSQL forgets; its file status has the process id and the addresses, once all listeners are open"`
}

// Edge is a redirect server with its replica.
type Edge struct {
	Addr           []string      `yaml:"addr" help:"addresses of the redirects, HOST:PORT, of which the fleet is shown the first; :PORT takes IPv4 and IPv6"`
	AdminAddr      string        `yaml:"admin_addr" help:"address of /livez, /readyz, /metrics and /debug/pprof, HOST:PORT; never public"`
	Region         string        `yaml:"region" help:"region that this edge stands in"`
	Node           string        `yaml:"node" help:"name of this edge; default: the region and random letters, kept in the data directory"`
	ControlURLs    []string      `yaml:"control_urls" help:"control planes that share a database, or relays, such as https://10.0.0.1:7080: the edge follows the first, another one while that is gone or does not advance, and reports to all"`
	Token          Secret        `yaml:"token" flag:"-" help:"bearer token, the control plane's edge_token; an edge that is enrolled needs none"`
	EnrolToken     Secret        `yaml:"enrol_token" env:"WAYPOST_ENROL_TOKEN" flag:"-" help:"token of waypost edges enrol, with which this edge gets a credential of its own, once; another one later replaces that"`
	NodeCertFile   string        `yaml:"node_cert_file" help:"certificate chain that this edge shows to control planes, to relays and, as a relay, to the edges that follow it, which then must speak TLS and show one too, PEM; read again when it changes"`
	NodeKeyFile    string        `yaml:"node_key_file" help:"its private key, PEM"`
	NodeCAFile     string        `yaml:"node_ca_file" help:"roots that the certificates of control planes, of relays and of the edges that follow this one may have, PEM; default: the system's, which a relay with a certificate refuses"`
	RelayAddr      string        `yaml:"relay_addr" help:"address on which other edges may follow this one instead of the control plane, HOST:PORT, at which they must reach it; their clicks and reports are passed on; empty: none do"`
	RelayToken     Secret        `yaml:"relay_token" flag:"-" help:"token by which a relay knows the edges that follow it, at least 16 characters, the same on all of them; edges that have the edge token need none"`
	DataDir        string        `yaml:"data_dir" help:"directory of the replica and of the clicks that are not counted yet; belongs to this edge alone; its file status has the process id and the addresses, once all listeners are open"`
	StrictHosts    bool          `yaml:"strict_hosts" help:"answer 404 for hosts that are no domain; false: such a host means the shared domain"`
	TrustedProxies []string      `yaml:"trusted_proxies" help:"networks whose X-Forwarded-* headers count, such as 10.0.0.0/8"`
	ProxyProtocol  bool          `yaml:"proxy_protocol" help:"connections of trusted proxies begin with a PROXY header, version 1 or 2"`
	GeoIP          string        `yaml:"geoip" help:"MaxMind database, .mmdb, of the countries and cities of visitors; read again when it changes; empty: neither is known"`
	ClickJournal   string        `yaml:"click_journal" help:"disk space for clicks that are not counted yet, such as 4GiB, in addition to some MiB for files that are being made; auto: 2GiB, which is a week at 500 clicks a second, but at most half of what is free; when it fills, clicks that wait lose their detail first"`
	Bots           []string      `yaml:"bots" help:"more bots: an agent that has one of these texts, in any case, counts as one in rules, budgets and statistics; such as AcmeMonitor"`
	MaxStaleness   time.Duration `yaml:"max_staleness" help:"tell in a header when the replica is older than this; 0: never"`
	Contact        string        `yaml:"contact" help:"whom visitors of a blocked link may ask, such as abuse@example.com; empty: the answer names none"`
	DrainDelay     time.Duration `yaml:"drain_delay" help:"how long a stopping edge serves on while /readyz says 503, so that load balancers turn away; then it stops"`
}

// TLS is for an edge that visitors reach over TLS without a proxy in between.
type TLS struct {
	Addr          []string `yaml:"addr" flag:"tls-addr" help:"addresses of the redirects over TLS, HOST:PORT; empty: none"`
	CertFile      string   `yaml:"cert_file" flag:"tls-cert-file" help:"certificate chain, PEM; read again when it changes"`
	KeyFile       string   `yaml:"key_file" flag:"tls-key-file" help:"its private key, PEM"`
	ACMEDirectory string   `yaml:"acme_directory" flag:"tls-acme-directory" help:"certificate authority to ask for the domains that this edge knows, such as https://acme-v02.api.letsencrypt.org/directory; naming one is agreeing to its terms"`
	OrdersPerHour int      `yaml:"orders_per_hour" flag:"tls-orders-per-hour" help:"certificates to ask the authority for in an hour, on average, and as many at once; domains of one workspace have at most half of them; 0: 60"`
	Addresses     []string `yaml:"addresses" flag:"tls-addresses" help:"public addresses of the edges, if this machine has others, as behind a load balancer; the authority is asked only for names that lead to one of these or to this machine"`
	DNSResolvers  []string `yaml:"dns_resolvers" flag:"tls-dns-resolvers" help:"resolvers that say where names lead, IP or HOST:PORT; empty: those of the system"`
	Storage       string   `yaml:"storage" flag:"tls-storage" help:"directory of the authority's certificates, shared by all edges of the same domains; default: tls in the data directory"`
	CAFile        string   `yaml:"ca_file" flag:"tls-ca-file" help:"roots of an authority of your own, PEM; default: the system's"`
}

// Gossip configures the encrypted exchange of positions among nodes. It only hints:
// without it everything works, and an edge that is cut off learns less.
type Gossip struct {
	Addr      string   `yaml:"addr" flag:"gossip-addr" help:"address to gossip on, IP:PORT, UDP and TCP; empty: no gossip"`
	Advertise string   `yaml:"advertise" flag:"gossip-advertise" help:"IP:PORT at which other nodes reach this one; default: gossip.addr"`
	Seeds     []string `yaml:"seeds" flag:"gossip-seeds" help:"nodes to join through, HOST:PORT"`
	Key       Secret   `yaml:"key" flag:"-gossip-key" help:"secret of all nodes that gossip, 32 random bytes in hex; up to 3, with commas between them, of which the first encrypts, while one is replaced"`
}

// Cleanup configures the removal of expired links, and the purge of old tombstones.
type Cleanup struct {
	Enabled    bool          `yaml:"enabled" flag:"cleanup-enabled" help:"whether this control plane removes expired links; of several, one does it at a time"`
	Interval   time.Duration `yaml:"interval" flag:"cleanup-interval" help:"time from one run to the next"`
	Buffer     time.Duration `yaml:"buffer" flag:"cleanup-buffer" help:"how long after its expiry a link is removed, because clocks differ; visitors get 410 from the expiry on"`
	PurgeAfter time.Duration `yaml:"purge_after" flag:"cleanup-purge-after" help:"how long after its removal a link is purged everywhere, so that edges answer 404 instead of 410"`
}

// Dev is the development system: everything on one machine.
type Dev struct {
	DataDir     string   `yaml:"data_dir" env:"WAYPOST_DATA_DIR" help:"directory of everything that the development system keeps"`
	ControlAddr string   `yaml:"control_addr" help:"address of the control plane's API; port 0 picks a free one"`
	Edges       []string `yaml:"edges" help:"edges as REGION=HOST:PORT; port 0 picks a free one"`
}

// Client holds the address of the API for commands, and their credentials.
type Client struct {
	API       string `yaml:"api" env:"WAYPOST_API" help:"base URL of the API; default: the development system's"`
	APIKey    Secret `yaml:"api_key" env:"WAYPOST_API_KEY" flag:"-" help:"API key"`
	Workspace string `yaml:"workspace" env:"WAYPOST_WORKSPACE" help:"slug of the workspace to act in, for who is in several"`
}

// defaults returns the settings of an empty configuration.
func defaults(getenv func(string) string) Config {
	return Config{
		Log: Log{Level: "info", Format: "auto"},
		Control: Control{
			Addr: "127.0.0.1:8080", AdminAddr: "127.0.0.1:9080",
			StrictHosts: true, SharedCodes: "plain", CodeLength: 7, SigningGeneration: 1, EventsKeepMonths: 13,
			RateLimit: 1_000,
		},
		Edge: Edge{
			Addr: []string{"127.0.0.1:8081"}, AdminAddr: "127.0.0.1:9081", ClickJournal: "auto",
			StrictHosts: true,
		},
		Cleanup: Cleanup{
			Enabled: true, Interval: 15 * time.Minute, Buffer: time.Hour, PurgeAfter: 90 * 24 * time.Hour,
		},
		Dev: Dev{
			DataDir: DefaultDataDir(getenv), ControlAddr: "127.0.0.1:8080",
			Edges: []string{"us-east-1=127.0.0.1:8081", "eu-west-1=127.0.0.1:8082"},
		},
	}
}

// DefaultDataDir returns the data directory of the development system, per user. Root's
// directory lies where PostgreSQL, which then runs as another user, can reach it.
func DefaultDataDir(getenv func(string) string) string {
	if os.Geteuid() == 0 {
		return "/var/lib/waypost/dev"
	}
	if base := getenv("XDG_DATA_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "waypost", "dev")
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "share", "waypost", "dev")
	}
	return "waypost-dev"
}

// Secret is a text that is never shown.
type Secret string

// String hides the secret, also from fmt and slog.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "[hidden]"
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }
