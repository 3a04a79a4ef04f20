package gossip

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
)

// Role is a node's part in its cluster.
type Role string

// The roles of nodes.
const (
	RoleEdge    Role = "edge"
	RoleControl Role = "control"
)

// Key encrypts and authenticates all gossip of a cluster. A holder of the key can claim
// to be any node.
type Key [32]byte

// maxKeys bounds the keys of a node. A replacement needs two.
const maxKeys = 3

// ParseKeys reads keys of 64 hex digits with commas or white space between them. The
// error does not repeat them.
func ParseKeys(text string) ([]Key, error) {
	var keys []Key
	for _, digits := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		b, err := hex.DecodeString(digits)
		if err != nil || len(b) != len(Key{}) {
			return nil, errors.New("a gossip key is not 32 bytes in hex, which are 64 digits")
		}
		keys = append(keys, Key(b))
	}
	if len(keys) == 0 || len(keys) > maxKeys {
		return nil, fmt.Errorf("there must be 1 to %d gossip keys", maxKeys)
	}
	return keys, nil
}

// String hides the key, also from fmt and slog.
func (Key) String() string { return "[hidden]" }

// GoString hides the key from %#v.
func (Key) GoString() string { return "[hidden]" }

// Config identifies a node and its seeds. Zero fields mean the default.
type Config struct {
	// Bind is HOST:PORT of the UDP and TCP listeners; the host is an IP address of
	// this machine, or empty for all of IPv4. Port 0 picks a free one. Required.
	Bind string

	// Advertise is the IP:PORT at which other nodes reach this one. Default: the address
	// of Bind, or a private address of this machine when Bind means all addresses.
	Advertise string

	// Seeds are HOST:PORT of nodes to join through; all addresses of a name count.
	// One that answers is enough. At most 64.
	Seeds []string

	// Keys are the keys that are understood. The first one, which is required, encrypts
	// this node's own messages. Others let a key be replaced without a split. At most 3.
	Keys []Key

	Node    string         // required; 1 to 64 of A-Z, a-z, 0-9, dot, _ and -
	Region  waypost.Region // required
	Role    Role           // required
	Boot    waypost.BootID // this start of the node; default: random
	Addr    string         // HOST:PORT of the node's service, shown to operators
	Version string         // of the software, at most 64 printable ASCII characters

	// Position returns the position of the node's replica. It is asked once per interval, by
	// one goroutine at a time, and must not block. Default: there is no replica.
	Position func() waypost.Position

	// Receive takes a message of [Gossip.Spread]; if it was news, the receiver passes it on
	// with [Gossip.Pass]. One goroutine calls it. A holder of the key can send any message,
	// also an old one. Default: messages are ignored.
	Receive func(message []byte)

	Interval time.Duration // between two pieces of news of this node in a small fleet; default 1 s
	Rejoin   time.Duration // between looks whether a seed has to be joined again; default 30 s

	// Probe is the interval between probes of other members. An answer may take half of
	// it. In a fleet of ten, a killed node is known to be dead after about seven
	// intervals. Raise it when round trips take longer than half of it. Default 500 ms.
	Probe time.Duration

	// MaxMembers bounds the members that are remembered, dead or alive; further
	// ones are ignored. Default 4,096.
	MaxMembers int

	Logger  *slog.Logger          // default: nothing is logged
	Metrics prometheus.Registerer // default: metrics are not registered
}

const maxSeeds = 64

func (c Config) withDefaults() Config {
	if c.Position == nil {
		c.Position = func() waypost.Position { return waypost.Position{} }
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Interval = cmp.Or(c.Interval, time.Second)
	c.Rejoin = cmp.Or(c.Rejoin, 30*time.Second)
	c.Probe = cmp.Or(c.Probe, 500*time.Millisecond)
	c.MaxMembers = cmp.Or(c.MaxMembers, 4096)
	return c
}

// check refuses settings that memberlist would accept, or refuse in words that no
// operator understands. It checks the fields of the card by encoding the card.
func (c *Config) check() error {
	if len(c.Keys) == 0 || slices.Contains(c.Keys, Key{}) {
		return errors.New("the gossip key is missing")
	}
	if len(c.Keys) > maxKeys {
		return fmt.Errorf("there are more than %d gossip keys", maxKeys)
	}
	if len(c.Seeds) > maxSeeds {
		return fmt.Errorf("%d seeds are more than %d", len(c.Seeds), maxSeeds)
	}
	for _, seed := range c.Seeds {
		if _, _, err := net.SplitHostPort(seed); err != nil {
			return fmt.Errorf("seed %q is no address such as 10.0.0.1:7946", seed)
		}
	}
	return nil
}

// bind reads Bind. A host that is left out is all of IPv4.
func (c *Config) bind() (netip.AddrPort, error) {
	text := c.Bind
	if host, port, err := net.SplitHostPort(text); err == nil && host == "" {
		text = net.JoinHostPort("0.0.0.0", port)
	}
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is no address such as 10.0.0.1:7946", c.Bind)
	}
	if at.Addr().Is6() && at.Addr().IsUnspecified() && c.Advertise == "" {
		return netip.AddrPort{}, fmt.Errorf("%q needs an address to advertise", c.Bind)
	}
	return at, nil
}

// advertise reads Advertise. The zero value means the address that is listened on.
func (c *Config) advertise() (netip.AddrPort, error) {
	if c.Advertise == "" {
		return netip.AddrPort{}, nil
	}
	at, err := netip.ParseAddrPort(c.Advertise)
	if err != nil || at.Addr().IsUnspecified() {
		return netip.AddrPort{}, fmt.Errorf("%q is no address at which others reach this node", c.Advertise)
	}
	return at, nil
}
