package gossip

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"waypost"
)

// The formats below begin with a version. A reader refuses unknown versions and ignores
// bytes behind the fields that it knows, so that a later program can add fields to the
// same version. Integers are big-endian.
const (
	cardVersion  = 1
	newsVersion  = 1
	stateVersion = 1
)

// Limits of a card's texts, in bytes, besides the limits of nodes and regions. With them
// a card fits into the 512 bytes that memberlist allows.
const (
	maxAddr    = 128
	maxVersion = 64
)

var errFormat = errors.New("not in the format of this version")

// card describes a member for as long as it runs, with its first news.
//
//	version 1 byte, role 1 byte, boot 16 bytes, started 8 bytes (Unix milliseconds),
//	node, region, addr, software version: 1 byte of length and the text each,
//	news without its boot
type card struct {
	role    Role
	node    string
	region  waypost.Region
	addr    string
	version string
	started int64 // when this boot began, by the member's clock
	news    news
}

// news is a member's position when it was sent. Of two by the same boot, that with the
// larger counter is newer.
//
//	flags 1 byte (1: leaves), counter 8 bytes,
//	position 36 bytes (epoch ordinal 4, epoch id 16, sequence 8, stamp 8)
type news struct {
	boot     waypost.BootID
	counter  uint64
	leaves   bool
	position waypost.Position
}

const (
	bootSize = 16
	newsSize = bootSize + 1 + 8 + 36

	flagLeaves = 1
	maxMillis  = 253402300799999 // the last millisecond of the year 9999
)

// roles numbers the roles in a card; 0 is no role.
var roles = [...]Role{1: RoleEdge, 2: RoleControl}

// name returns the member's name for memberlist, which is unique per boot.
func (c *card) name() string { return c.node + "@" + hex.EncodeToString(c.news.boot[:]) }

// bootOf finds the boot in a member's name.
func bootOf(name string) (boot waypost.BootID, ok bool) {
	at := strings.LastIndexByte(name, '@')
	if at < 0 || len(name)-at-1 != 2*len(boot) {
		return boot, false
	}
	_, err := hex.Decode(boot[:], []byte(name[at+1:]))
	return boot, err == nil
}

// check judges a card, of this node or of another.
func (c *card) check() error {
	if !waypost.ValidNode(c.node) {
		return fmt.Errorf("node %q must be 1 to %d characters of A-Z, a-z, 0-9, dot, _ and -", c.node, waypost.MaxNodeLength)
	}
	if _, err := waypost.ParseRegion(string(c.region)); err != nil {
		return err
	}
	if roleNumber(c.role) == 0 {
		return fmt.Errorf("role %q is neither edge nor control", c.role)
	}
	if _, _, err := net.SplitHostPort(c.addr); c.addr != "" && (err != nil || len(c.addr) > maxAddr || !waypost.Printable(c.addr)) {
		return fmt.Errorf("service address %q is not HOST:PORT of at most %d characters", c.addr, maxAddr)
	}
	if len(c.version) > maxVersion || !waypost.Printable(c.version) {
		return fmt.Errorf("version %q is not at most %d printable characters", c.version, maxVersion)
	}
	return nil
}

func (c *card) append(b []byte) []byte {
	b = append(b, cardVersion, roleNumber(c.role))
	b = binary.BigEndian.AppendUint64(append(b, c.news.boot[:]...), uint64(c.started))
	for _, text := range []string{c.node, string(c.region), c.addr, c.version} {
		b = append(b, byte(len(text)))
		b = append(b, text...)
	}
	return c.news.append(b)
}

func decodeCard(b []byte) (card, error) {
	r := reader{rest: b}
	var c card
	if r.byte() != cardVersion {
		return card{}, errFormat
	}
	if n := int(r.byte()); n < len(roles) {
		c.role = roles[n]
	}
	boot := r.boot()
	c.started = int64(r.uint64())
	c.node, c.region, c.addr, c.version = r.text(), waypost.Region(r.text()), r.text(), r.text()
	c.news = r.news(boot)
	if r.failed || c.started < 0 || c.started > maxMillis {
		return card{}, errFormat
	}
	return c, c.check()
}

// append writes everything but the boot.
func (n *news) append(b []byte) []byte {
	var flags byte
	if n.leaves {
		flags |= flagLeaves
	}
	b = binary.BigEndian.AppendUint64(append(b, flags), n.counter)
	b = binary.BigEndian.AppendUint32(b, n.position.Epoch.Ordinal)
	b = append(b, n.position.Epoch.ID[:]...)
	b = binary.BigEndian.AppendUint64(b, n.position.Seq)
	return binary.BigEndian.AppendUint64(b, n.position.Stamp)
}

// message is news as it is broadcast: version, boot, news.
func (n *news) message() []byte {
	b := append(make([]byte, 0, 1+newsSize), newsVersion)
	return n.append(append(b, n.boot[:]...))
}

func decodeMessage(b []byte) (news, error) {
	r := reader{rest: b}
	version := r.byte()
	n := r.news(r.boot())
	if r.failed || version != newsVersion {
		return news{}, errFormat
	}
	return n, nil
}

// appendState writes the newest news of many members: version, then boot and news
// of each.
func appendState(b []byte, all []news) []byte {
	b = append(b, stateVersion)
	for i := range all {
		b = append(b, all[i].boot[:]...)
		b = all[i].append(b)
	}
	return b
}

// decodeState refuses a state of more than most members before it reads it.
func decodeState(b []byte, most int) ([]news, error) {
	r := reader{rest: b}
	if r.byte() != stateVersion || len(r.rest)%newsSize != 0 || len(r.rest)/newsSize > most {
		return nil, errFormat
	}
	all := make([]news, 0, len(r.rest)/newsSize)
	for len(r.rest) > 0 {
		all = append(all, r.news(r.boot()))
	}
	if r.failed {
		return nil, errFormat
	}
	return all, nil
}

// reader takes fields off the front of rest. A missing or invalid field makes it fail for
// good.
type reader struct {
	rest   []byte
	failed bool
}

// takeBytes returns the next n bytes, or zeros.
func (r *reader) takeBytes(n int) []byte {
	if len(r.rest) < n {
		r.failed, r.rest = true, nil
		return make([]byte, n)
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte     { return r.takeBytes(1)[0] }
func (r *reader) uint64() uint64 { return binary.BigEndian.Uint64(r.takeBytes(8)) }
func (r *reader) text() string   { return string(r.takeBytes(int(r.byte()))) } // at most 255 bytes

func (r *reader) boot() waypost.BootID { return waypost.BootID(r.takeBytes(bootSize)) }

func (r *reader) news(boot waypost.BootID) news {
	n := news{boot: boot, leaves: r.byte()&flagLeaves != 0, counter: r.uint64()}
	n.position.Epoch.Ordinal = binary.BigEndian.Uint32(r.takeBytes(4))
	n.position.Epoch.ID = waypost.EpochID(r.takeBytes(len(n.position.Epoch.ID)))
	n.position.Seq, n.position.Stamp = r.uint64(), r.uint64()
	r.failed = r.failed || n.position.Seq > 1<<63-1
	return n
}

func roleNumber(role Role) byte {
	for i, known := range roles {
		if i > 0 && known == role {
			return byte(i)
		}
	}
	return 0
}

// timeOf decodes a time; 0 is the zero time.
func timeOf(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}
