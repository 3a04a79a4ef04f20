package waypost

import (
	"cmp"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// BootID identifies one start of an edge: 128 random bits, new at every start, so that no
// two writers ever share a sequence of click batches.
type BootID [16]byte

// MaxAgent and MaxReferrer bound the headers in a [Click], in bytes.
const (
	MaxAgent    = 512
	MaxReferrer = 512
)

// Click is one GET that was answered with a link's redirect, as the edge journals it. Its
// holder owns the slices.
type Click struct {
	Domain   DomainID
	Code     []byte
	At       int64    // Unix milliseconds
	Bot      bool     // it is a bot, whatever its agent says
	Rule     uint8    // the rule of the link's programme that matched; 0: none
	Variant  uint8    // the variant of the split that was chosen; 0: none
	Address  [16]byte // the visitor's address, sealed under the day's key; zero: unknown
	Agent    []byte   // User-Agent, cut at MaxAgent
	Referrer []byte   // Referer, cut at MaxReferrer; only its host leaves the edge
	UTM      []byte   // as a UTM; empty unless the domain counts it
}

// MaxRule and MaxVariant bound the ids of a link's rules and variants, which begin at 1.
const (
	MaxRule    = 250
	MaxVariant = 250
)

// ClickProfile describes a visitor, and the answer of the link's programme. "" is
// unknown.
type ClickProfile struct {
	Country  string // ISO 3166-1 alpha-2
	City     string // an English name; "" without a country
	Device   string // desktop, mobile, tablet, bot, unknown
	Browser  string
	OS       string
	Referrer string // a host
	Bot      bool
	Rule     uint8 // as in a Click
	Variant  uint8
	Alias    uint8 // number of the link's alias that was asked for; 0: its own code; never in a batch
	UTM      UTM
}

// MaxClickName bounds a name in a profile, in bytes.
const MaxClickName = 128

// Valid reports whether a batch may have the profile.
func (p *ClickProfile) Valid() bool {
	if p.Country != "" && (len(p.Country) != 2 || !upper(p.Country[0]) || !upper(p.Country[1])) {
		return false
	}
	if p.City != "" && p.Country == "" {
		return false
	}
	switch p.Device {
	case "", "desktop", "mobile", "tablet", "bot", "unknown":
	default:
		return false
	}
	if p.Rule > MaxRule || p.Variant > MaxVariant || !p.UTM.Valid() {
		return false
	}
	return ValidClickName(p.City) && ValidClickName(p.Browser) && ValidClickName(p.OS) && ValidClickName(p.Referrer)
}

func upper(c byte) bool { return c >= 'A' && c <= 'Z' }

// ValidClickName reports whether a profile may have a name: UTF-8 of at most
// [MaxClickName] bytes without control characters.
func ValidClickName(s string) bool {
	if len(s) > MaxClickName || !utf8.ValidString(s) {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// ClickRow counts clicks that are alike.
type ClickRow struct {
	At      int64  // Unix milliseconds: of the click, or the start of its quarter of an hour
	Profile uint32 // index into the batch's Profiles
	Count   uint64 // at least 1
}

// Visitor identifies a visitor within a day, and does not reveal the person: the hash is
// keyed with a secret of that day, which all edges share.
type Visitor struct {
	Day  int32 // of the click, days since 1970, UTC
	Bot  bool
	Hash uint64 // its upper 40 bits; the others are zero
}

// VisitorBits are the bits of a visitor's hash that leave the edge.
const VisitorBits uint64 = 0xffff_ffff_ff00_0000

// QuarterHour is the unit of time of a batch that is not exact, in milliseconds.
const QuarterHour = 15 * 60 * 1000

// LinkClicks are the clicks of one link within a batch.
type LinkClicks struct {
	Domain   DomainID
	Code     Code
	Last     int64      // time of the newest click, Unix milliseconds by the edge's clock
	Rows     []ClickRow // at least one, in any order
	Visitors []Visitor  // in order, each once
}

// MaxNodeLength bounds a node's name, in bytes.
const MaxNodeLength = 64

// ValidNode reports whether s can be the name of a node: 1 to [MaxNodeLength] letters,
// digits, '-', '_' and '.'.
func ValidNode(s string) bool {
	return len(s) >= 1 && len(s) <= MaxNodeLength && strings.IndexFunc(s, notInNode) < 0
}

func notInNode(r rune) bool {
	return r != '.' && (r >= 0x80 || !plainByte[r])
}

// Printable reports whether s is ASCII without spaces and control characters.
func Printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// ClickBatch is a sealed part of an edge's journal. (Node, Boot, Seq) is its identity,
// fixed before the batch is first sent. Sequences of a boot begin at 1 and have no gap.
// The control plane counts each identity once.
type ClickBatch struct {
	Node string
	Boot BootID
	Seq  uint64

	// Exact says that each row has the time of its clicks. Otherwise the edge dropped
	// detail to save room: times are starts of quarters of an hour, and profiles may
	// distinguish bots, rules and variants only.
	Exact    bool
	Dropped  uint64         // clicks that this boot had no room for since the batch before
	Profiles []ClickProfile // each once
	Links    []LinkClicks   // in any order, each (domain, code) once
}

// Clicks returns the number of clicks on one of the batch's links, and how many of these
// were by bots. Sums saturate at the greatest uint64.
func (b *ClickBatch) Clicks(l *LinkClicks) (clicks, bots uint64) {
	for _, r := range l.Rows {
		clicks = addSaturated(clicks, r.Count)
		if b.Profiles[r.Profile].Bot {
			bots = addSaturated(bots, r.Count)
		}
	}
	return clicks, bots
}

func addSaturated(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return ^uint64(0)
	}
	return sum
}

// Quarter returns the start of the quarter of an hour, in UTC, around a time; both are in
// Unix milliseconds. The very first quarter starts before the least int64 and is taken
// for the next one.
func Quarter(at int64) int64 {
	const first = -1 << 63 / QuarterHour
	q := at / QuarterHour
	if at%QuarterHour < 0 && q > first {
		q--
	}
	return q * QuarterHour
}

// Compare orders visitors by day, people before bots, then by hash.
func (v Visitor) Compare(o Visitor) int {
	if v.Bot != o.Bot && v.Day == o.Day {
		if o.Bot {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(v.Day, o.Day), cmp.Compare(v.Hash, o.Hash))
}

// Day returns the day, in days since 1970, UTC, of a time in Unix milliseconds. The
// result is arbitrary if the day does not fit an int32.
func Day(at int64) int32 {
	const day = 24 * 60 * 60 * 1000
	d := at / day
	if at%day < 0 {
		d--
	}
	return int32(d)
}
