package waypost

import (
	"cmp"
	"math/bits"
)

// BootID tells one start of an edge from every other: 128 random bits, new at
// every start, so that no two writers ever share a sequence of click batches.
type BootID [16]byte

// MaxAgent and MaxReferrer bound what a [Click] keeps of the headers, in bytes.
const (
	MaxAgent    = 512
	MaxReferrer = 512
)

// Click is one GET that was answered with a link's redirect, as the edge journals
// it. Its slices belong to whoever has the click.
type Click struct {
	Domain   DomainID
	Code     []byte
	At       int64    // Unix milliseconds
	Bot      bool     // it is a bot, whatever its agent says; versions that judged before they journaled tell so
	Address  [16]byte // the visitor's address, sealed under the day's key; zero: unknown
	Agent    []byte   // User-Agent, cut at MaxAgent
	Referrer []byte   // Referer, cut at MaxReferrer; only its host leaves the edge
}

// ClickProfile is what is told of a visitor. "" is unknown.
type ClickProfile struct {
	Country  string // ISO 3166-1 alpha-2
	City     string // an English name; "" without a country
	Device   string // desktop, mobile, tablet, bot, unknown
	Browser  string
	OS       string
	Referrer string // a host
	Bot      bool
}

// ClickRow is a number of clicks that are alike.
type ClickRow struct {
	At      int64  // Unix milliseconds: of the click, or where its quarter of an hour begins
	Profile uint32 // index into the batch's Profiles
	Count   uint64 // at least 1
}

// Visitor is who clicked on a day. Nobody can be told by it: it is a part of a hash
// that has a secret of its day in it, the same one on all edges.
type Visitor struct {
	Day  int32 // of the click, days since 1970, UTC
	Bot  bool
	Hash uint64 // its upper 40 bits; the others are zero
}

// VisitorBits are the bits of a visitor's hash that leave the edge.
const VisitorBits uint64 = 0xffff_ffff_ff00_0000

// QuarterHour is the unit of time of a batch that is not exact, in milliseconds.
const QuarterHour = 15 * 60 * 1000

// LinkClicks is what one link was clicked within a batch.
type LinkClicks struct {
	Domain   DomainID
	Code     Code
	Last     int64      // time of the newest click, Unix milliseconds by the edge's clock
	Rows     []ClickRow // at least one, in any order
	Visitors []Visitor  // in order, each once
}

// ClickBatch is a sealed part of an edge's journal. (Node, Boot, Seq) is its
// identity, fixed before it is first sent; sequences of a boot begin at 1 and have
// no gap. The control plane counts each identity once.
type ClickBatch struct {
	Node string
	Boot BootID
	Seq  uint64

	// Exact says that each row has the time of its clicks. Otherwise the edge had to
	// fold detail to have room: times are those of quarters of an hour, and profiles may
	// tell bots and nothing else.
	Exact    bool
	Dropped  uint64         // clicks that this boot had no room for since the batch before
	Profiles []ClickProfile // each once
	Links    []LinkClicks   // in any order, each (domain, code) once
}

// Clicks gives the number of clicks on one of the batch's links, and of these those by
// bots. What no number can hold is the greatest one.
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

// Quarter gives the beginning of the quarter of an hour, in UTC, that has the time;
// both in Unix milliseconds.
func Quarter(at int64) int64 {
	return quarterOf(at) * QuarterHour
}

// quarterOf counts quarters of an hour since 1970. The first one of all has no
// beginning that a number can hold, and is taken for the next.
func quarterOf(at int64) int64 {
	q := at / QuarterHour
	if at%QuarterHour < 0 && q > firstQuarter {
		q--
	}
	return q
}

const (
	firstQuarter = -1 << 63 / QuarterHour
	lastQuarter  = (1<<63 - 1) / QuarterHour
)

// Compare is the order of visitors: by day, people before bots, then by hash.
func (v Visitor) Compare(o Visitor) int {
	if v.Bot != o.Bot && v.Day == o.Day {
		if o.Bot {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(v.Day, o.Day), cmp.Compare(v.Hash, o.Hash))
}

// Day gives the day, in days since 1970, UTC, of a time in Unix milliseconds. Of times
// that are farther off than a number of 32 bits can say it gives any.
func Day(at int64) int32 {
	const day = 24 * 60 * 60 * 1000
	d := at / day
	if at%day < 0 {
		d--
	}
	return int32(d)
}
