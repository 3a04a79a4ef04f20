package waypost

import (
	"encoding/binary"
	"hash/crc32"
	"hash/maphash"
	"math"
	"unicode/utf8"
)

// DecodeClickBatch reads what [AppendClickBatch] wrote, which must fill b exactly.
// The batch does not refer to b.
//
// It answers EInvalid unless all of this holds: the checksum does, the version is
// known, the node is a [ValidNode], the sequence is at least 1, nothing is beyond the
// bounds of a batch, each profile is there once and has names of UTF-8 without control
// characters, a country of two letters or none, a city only in a country, and a device that is known; each
// link is there once, has a [ValidCode] and rows; each row has a profile that is there and a
// count of at least 1, and where the batch is not exact the time of a quarter of an hour; each visitor of
// a link is there once, in order. What the counts and times are beyond that is for whoever
// counts them to judge. A batch without links is valid: it fills the place of one that is lost.
func DecodeClickBatch(b []byte) (ClickBatch, error) {
	batch, why := decodeClickBatch(b)
	if why != "" {
		return ClickBatch{}, Errorf(EInvalid, "not a batch of clicks: %s", why)
	}
	return batch, nil
}

func decodeClickBatch(b []byte) (batch ClickBatch, why string) {
	if len(b) < clickBatchHead+clickBatchTail || len(b) > MaxClickBatch {
		return batch, "its length is out of bounds"
	}
	body, sum := b[:len(b)-clickBatchTail], b[len(b)-clickBatchTail:]
	if binary.LittleEndian.Uint32(sum) != crc32.Checksum(body, castagnoli) {
		return batch, "the checksum does not hold"
	}
	batch.Boot, batch.Seq = BootID(body[4:20]), binary.LittleEndian.Uint64(body[20:])
	switch [4]byte(body) {
	case [4]byte{clickBatchVersion}, [4]byte{clickBatchVersion, clickBatchExact}:
		batch.Exact = body[1] == clickBatchExact
		return batch, decodeColumns(&batch, body[28:])
	case [4]byte{clickTotalsVersion}, [4]byte{clickTotalsBotless}:
		return batch, decodeTotals(&batch, body)
	}
	return batch, "its version is unknown"
}

// columns reads the encoding from its beginning on, and remembers what was wrong first.
type columns struct {
	rest []byte
	why  string
}

func (c *columns) bad(why string) {
	if c.why == "" {
		c.why, c.rest = why, nil
	}
}

// uvarint reads a number of the least length.
func (c *columns) uvarint() uint64 {
	if len(c.rest) > 0 && c.rest[0] < 0x80 { // as most are
		v := c.rest[0]
		c.rest = c.rest[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(c.rest)
	if n <= 0 || c.rest[n-1] == 0 {
		c.bad("a number is broken")
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

func (c *columns) varint() int64 { return unzigzag(c.uvarint()) }

// number reads how many there are of something of which each takes some bytes.
func (c *columns) number(most int, bytes int) int {
	n := c.uvarint()
	if n > uint64(most) || n > uint64(len(c.rest)/bytes) {
		c.bad("it states more than it can hold")
		return 0
	}
	return int(n)
}

func (c *columns) take(n int) []byte {
	if n > len(c.rest) {
		c.bad("it is cut")
		return nil
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *columns) short() string {
	s, rest, ok := cutShort(c.rest)
	if !ok {
		c.bad("it is cut")
		return ""
	}
	c.rest = rest
	return s
}

func decodeColumns(b *ClickBatch, rest []byte) (why string) {
	c := &columns{rest: rest}
	if b.Node = c.short(); !ValidNode(b.Node) || b.Seq == 0 {
		return "it has no identity"
	}
	b.Dropped = c.uvarint()
	base := c.time(0, unitOf(b))
	profiles := c.number(MaxClickProfiles, 7)
	links := c.number(MaxClickTotals, 8+MinCodeLength)
	rows := c.number(MaxClickRows, 3)
	visitors := c.number(MaxClickVisitors, 1+visitorBytes)
	c.profiles(b, profiles)
	if c.links(b, links, rows, visitors) {
		c.rows(b, base)
		c.visitors(b, base)
	}
	if c.why == "" && (len(c.rest) != 0 || base != baseTime(b)) {
		c.bad("it is not what it states")
	}
	return c.why
}

// time reads a time that is relative to another, in units of so many milliseconds.
func (c *columns) time(from, unit int64) int64 {
	n := from/unit + c.varint()
	if unit != 1 && (n < firstQuarter || n > lastQuarter) {
		c.bad("a time is out of bounds")
		return 0
	}
	return n * unit
}

func (c *columns) profiles(b *ClickBatch, n int) {
	if n == 0 || c.why != "" {
		return
	}
	b.Profiles = make([]ClickProfile, n)
	known := make(map[ClickProfile]struct{}, n)
	for i := range b.Profiles {
		p := &b.Profiles[i]
		flags := c.take(1)
		p.Country, p.City, p.Device, p.Browser, p.OS, p.Referrer = c.short(), c.short(), c.short(), c.short(), c.short(), c.short()
		if c.why != "" {
			return
		}
		p.Bot = flags[0] == 1
		known[*p] = struct{}{}
		if flags[0] > 1 || !p.Valid() {
			c.bad("a profile is broken")
			return
		}
	}
	if len(known) != n {
		c.bad("a profile is there twice")
	}
}

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

// links reads the columns of links and gives each its rows and visitors, still empty.
func (c *columns) links(b *ClickBatch, n, rows, visitors int) bool {
	if c.why != "" {
		return false
	}
	if n > 0 {
		b.Links = make([]LinkClicks, n)
	}
	for i := range b.Links {
		d := c.uvarint()
		if d > math.MaxUint32 {
			c.bad("a domain is out of bounds")
		}
		b.Links[i].Domain = DomainID(d)
	}
	lengths := c.take(n)
	sum := 0
	for _, l := range lengths {
		sum += int(l)
	}
	codes := string(c.take(sum))
	if c.why != "" {
		return false
	}
	for i, l := range lengths {
		b.Links[i].Code, codes = Code(codes[:l]), codes[l:]
		if !ValidCode(string(b.Links[i].Code)) {
			c.bad("a code is broken")
			return false
		}
	}
	if repeats(b.Links) {
		c.bad("a link is there twice")
	}
	all := make([]ClickRow, rows)
	for i := range b.Links {
		of := c.uvarint()
		if of == 0 || of > uint64(len(all)) {
			c.bad("rows are missing")
			return false
		}
		b.Links[i].Rows, all = all[:of:of], all[of:]
	}
	who := make([]Visitor, visitors)
	for i := range b.Links {
		of := c.uvarint()
		if of > uint64(len(who)) {
			c.bad("visitors are missing")
			return false
		}
		if of > 0 {
			b.Links[i].Visitors, who = who[:of:of], who[of:]
		}
	}
	if len(all)+len(who) != 0 {
		c.bad("rows or visitors have no link")
	}
	return c.why == ""
}

// repeats reports whether a link is among the links twice.
func repeats(links []LinkClicks) bool {
	size := 8
	for size < 2*len(links) {
		size *= 2
	}
	seed, table, mask := maphash.MakeSeed(), make([]uint32, size), uint64(size-1)
	for i := range links {
		l := &links[i]
		for h := maphash.String(seed, string(l.Code)) + uint64(l.Domain)*0x9e3779b97f4a7c15; ; h++ {
			n := table[h&mask]
			if n == 0 {
				table[h&mask] = uint32(i + 1)
				break
			}
			if o := &links[n-1]; o.Domain == l.Domain && o.Code == l.Code {
				return true
			}
		}
	}
	return false
}

func (c *columns) rows(b *ClickBatch, base int64) {
	unit := unitOf(b)
	for i := range b.Links {
		before := base
		for k := range b.Links[i].Rows {
			before = c.time(before, unit)
			b.Links[i].Rows[k].At = before
		}
	}
	for i := range b.Links {
		for k := range b.Links[i].Rows {
			p := c.uvarint()
			if p >= uint64(len(b.Profiles)) {
				c.bad("a row has no profile")
				return
			}
			b.Links[i].Rows[k].Profile = uint32(p)
		}
	}
	for i := range b.Links {
		for k := range b.Links[i].Rows {
			n := c.uvarint()
			if n == 0 {
				c.bad("a row has no clicks")
				return
			}
			b.Links[i].Rows[k].Count = n
		}
	}
	for i := range b.Links {
		rows := b.Links[i].Rows
		b.Links[i].Last = rows[len(rows)-1].At + c.varint()
	}
}

func (c *columns) visitors(b *ClickBatch, base int64) {
	for i := range b.Links {
		before := int64(Day(base))
		for k := range b.Links[i].Visitors {
			n := c.uvarint()
			before += unzigzag(n >> 1)
			if before < math.MinInt32 || before > math.MaxInt32 {
				c.bad("a day is out of bounds")
				return
			}
			b.Links[i].Visitors[k].Day, b.Links[i].Visitors[k].Bot = int32(before), n&1 != 0
		}
	}
	for i := range b.Links {
		visitors := b.Links[i].Visitors
		for k := range visitors {
			h := c.take(visitorBytes)
			if c.why != "" {
				return
			}
			visitors[k].Hash = uint64(binary.BigEndian.Uint32(h))<<32 | uint64(h[4])<<visitorShift
			if k > 0 && visitors[k-1].Compare(visitors[k]) >= 0 {
				c.bad("visitors are out of order")
				return
			}
		}
	}
}
