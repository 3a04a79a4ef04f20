// Package config is the configuration of every Waypost command: one strict YAML
// file, WAYPOST_* variables over it and flags over both. The fields below are the
// only list of settings there is: names of variables and flags, their help and
// their defaults all derive from it.
//
// It reads and judges settings; what they do is up to whoever is given them.
package config

import (
	"os"
	"path/filepath"
	"time"
)

// Config holds the settings of all commands. Tags: `yaml` names the key, `help`
// explains it, `env` replaces the derived name of the variable, `flag` the
// derived name of the flag ("-": none).
type Config struct {
	Log     Log     `yaml:"log"`
	Control Control `yaml:"control"`
	Edge    Edge    `yaml:"edge"`
	Gossip  Gossip  `yaml:"gossip"`
	Dev     Dev     `yaml:"dev"`
	Client  Client  `yaml:"client"`
}

// Log says how a node logs to standard error.
type Log struct {
	Level  string `yaml:"level" flag:"log-level" help:"least severe level to log: debug, info, warn or error"`
	Format string `yaml:"format" flag:"log-format" help:"text, json, or auto: json unless on a terminal"`
}

// Control is a control plane.
type Control struct {
	Addr                string        `yaml:"addr" help:"address of the API, HOST:PORT"`
	AdminAddr           string        `yaml:"admin_addr" help:"address of /livez, /readyz, /metrics and /debug/pprof, HOST:PORT; never public"`
	Region              string        `yaml:"region" help:"region whose key ranges this control plane mints from"`
	Node                string        `yaml:"node" help:"name of this control plane among those of its cluster; default: control-REGION"`
	Regions             []string      `yaml:"regions" help:"regions that get a key prefix at the start, if they have none"`
	BaseURL             string        `yaml:"base_url" help:"what short URLs begin with, such as https://go.example.com"`
	DatabaseURL         Secret        `yaml:"database_url" flag:"database-url" help:"PostgreSQL, postgres://USER@HOST/DATABASE; a password belongs into a variable or file"`
	DatabaseURLFile     string        `yaml:"database_url_file" help:"file that holds the database URL"`
	ClusterSecret       Secret        `yaml:"cluster_secret" flag:"-" help:"secret of the cluster, 32 random bytes in hex; never changes"`
	ClusterSecretFile   string        `yaml:"cluster_secret_file" help:"file that holds the cluster's secret, 32 random bytes in hex"`
	EdgeToken           Secret        `yaml:"edge_token" flag:"-" help:"bearer token that edges must send, at least 16 characters"`
	EdgeTokenFile       string        `yaml:"edge_token_file" help:"file that holds the edges' token"`
	AllowPrivateTargets bool          `yaml:"allow_private_targets" help:"accept links to private and loopback addresses"`
	StrictHosts         bool          `yaml:"strict_hosts" help:"answer 404 for hosts that are no known domain"`
	TrustedProxies      []string      `yaml:"trusted_proxies" help:"networks whose X-Forwarded-* headers count, such as 10.0.0.0/8"`
	CodeLength          int           `yaml:"code_length" help:"length of generated codes, 5 to 10; fixed once the cluster exists"`
	PrefixLength        int           `yaml:"prefix_length" help:"length of key prefixes; fixed once the cluster exists"`
	LeaseSize           int           `yaml:"lease_size" help:"counters that are leased at a time"`
	AnonymousWorkspace  bool          `yaml:"anonymous_workspace" help:"for development only: requests without an API key act as the default workspace"`
	PeakKeyRate         int           `yaml:"peak_key_rate" help:"most keys a second that the cluster may ever issue; 0: 10,000, or less in a small key space"`
	DataDir             string        `yaml:"data_dir" help:"directory in which this control plane remembers which keys were issued, in case PostgreSQL forgets"`
	StatusFile          string        `yaml:"status_file" help:"file that tells the process id and addresses once all listeners are open"`
	ShutdownTimeout     time.Duration `yaml:"shutdown_timeout" help:"how long requests under way may take at the end"`
}

// Edge is a redirect server with its replica.
type Edge struct {
	Addr            string        `yaml:"addr" help:"address of the redirects, HOST:PORT"`
	AdminAddr       string        `yaml:"admin_addr" help:"address of /livez, /readyz, /metrics and /debug/pprof, HOST:PORT; never public"`
	Region          string        `yaml:"region" help:"region that this edge stands in"`
	Node            string        `yaml:"node" help:"name of this edge; default: the region and random letters, kept in the data directory"`
	ControlURL      string        `yaml:"control_url" help:"control plane to follow, such as http://10.0.0.1:8080"`
	Token           Secret        `yaml:"token" flag:"-" help:"bearer token, the control plane's edge_token"`
	TokenFile       string        `yaml:"token_file" help:"file that holds the token"`
	DataDir         string        `yaml:"data_dir" help:"directory of the replica and of the clicks that are not counted yet; belongs to this edge alone"`
	StrictHosts     bool          `yaml:"strict_hosts" help:"answer 404 for hosts that are no known domain"`
	TrustedProxies  []string      `yaml:"trusted_proxies" help:"networks whose X-Forwarded-* headers count, such as 10.0.0.0/8"`
	MaxStaleness    time.Duration `yaml:"max_staleness" help:"tell in a header when the replica is older than this; 0: never"`
	AskUpstream     bool          `yaml:"ask_upstream" help:"ask the control plane for a code that it can have issued a moment ago and that is not here yet"`
	StatusFile      string        `yaml:"status_file" help:"file that tells the process id and addresses once all listeners are open"`
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout" help:"how long requests under way may take at the end"`
	TakeoverTimeout time.Duration `yaml:"takeover_timeout" help:"how long a process that takes this one's place may take until it is ready; after that this one goes on"`
}

// Gossip is how nodes tell each other where they stand, encrypted. It only hints:
// without it everything works, and an edge that is cut off learns less.
type Gossip struct {
	Addr      string   `yaml:"addr" flag:"gossip-addr" help:"address to gossip on, IP:PORT, UDP and TCP; empty: no gossip"`
	Advertise string   `yaml:"advertise" flag:"gossip-advertise" help:"IP:PORT at which other nodes reach this one; default: gossip.addr"`
	Seeds     []string `yaml:"seeds" flag:"gossip-seeds" help:"nodes to join through, HOST:PORT"`
	Key       Secret   `yaml:"key" flag:"-" help:"secret of all nodes that gossip, 32 random bytes in hex"`
	KeyFile   string   `yaml:"key_file" flag:"gossip-key-file" help:"file that holds the gossip key"`
}

// Dev is the development system: everything on one machine.
type Dev struct {
	DataDir     string   `yaml:"data_dir" env:"WAYPOST_DATA_DIR" help:"directory of everything that the development system keeps"`
	ControlAddr string   `yaml:"control_addr" help:"address of the control plane's API; port 0 picks a free one"`
	Edges       []string `yaml:"edges" help:"edges as REGION=HOST:PORT; port 0 picks a free one"`
	BaseURL     string   `yaml:"base_url" help:"what short URLs begin with; default: the first edge"`
	Restart     bool     `yaml:"restart" help:"start a process that died again after a second"`
}

// Client is how the commands that talk to the API find it.
type Client struct {
	API        string `yaml:"api" env:"WAYPOST_API" help:"base URL of the API; default: the development system's"`
	APIKey     Secret `yaml:"api_key" env:"WAYPOST_API_KEY" flag:"-" help:"API key"`
	APIKeyFile string `yaml:"api_key_file" env:"WAYPOST_API_KEY_FILE" help:"file that holds the API key"`
}

// defaults gives the settings of an empty configuration.
func defaults(getenv func(string) string) Config {
	return Config{
		Log: Log{Level: "info", Format: "auto"},
		Control: Control{
			Addr: "127.0.0.1:8080", AdminAddr: "127.0.0.1:9080",
			CodeLength: 7, PrefixLength: 2, LeaseSize: 10_000, ShutdownTimeout: 5 * time.Second,
		},
		Edge: Edge{
			Addr: "127.0.0.1:8081", AdminAddr: "127.0.0.1:9081",
			AskUpstream:     true,
			ShutdownTimeout: 5 * time.Second, TakeoverTimeout: 30 * time.Second,
		},
		Dev: Dev{
			DataDir: DefaultDataDir(getenv), ControlAddr: "127.0.0.1:8080",
			Edges:   []string{"us-east-1=127.0.0.1:8081", "eu-west-1=127.0.0.1:8082"},
			Restart: true,
		},
	}
}

// DefaultDataDir is that of the development system, per user. That of root lies where PostgreSQL, which then runs
// as another user, can reach it.
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

// Reveal gives the secret itself.
func (s Secret) Reveal() string { return string(s) }
