package clickbatch

import (
	"encoding/binary"
	"hash/crc32"
	"hash/maphash"
	"math"

	"waypost"
)

// Decode reads the bytes that [Append] wrote; they must fill b exactly. The batch does
// not refer to b.
//
// The error is EInvalid unless all of this holds. The checksum matches and the version is
// known. The node is a [waypost.ValidNode], the sequence is at least 1, and no bound of a
// batch is exceeded. Each profile is [waypost.ClickProfile.Valid] and occurs once. Each
// link occurs once, and has a [waypost.ValidCode] and rows. Each row refers to a profile
// and has a count of at least 1; unless the batch is exact, its time is the start of
// a quarter of an hour. Each visitor of a link occurs once, in order.
//
// The consumer judges whether counts and times are plausible. A batch without links is
// valid: it takes the place of one that is lost.
func Decode(b []byte) (waypost.ClickBatch, error) { return Codec{}.Decode(b) }

// Decode is [Decode] with pauses.
func (c Codec) Decode(b []byte) (waypost.ClickBatch, error) {
	batch, why := decode(b, &columns{ticker: ticker{pause: c.Pause}})
	if why != "" {
		return waypost.ClickBatch{}, waypost.Errorf(waypost.EInvalid, "not a batch of clicks: %s", why)
	}
	return batch, nil
}

func decode(b []byte, c *columns) (batch waypost.ClickBatch, why string) {
	if len(b) < headBytes+tailBytes || len(b) > MaxBytes {
		return batch, "its length is out of bounds"
	}
	body, sum := b[:len(b)-tailBytes], b[len(b)-tailBytes:]
	if binary.LittleEndian.Uint32(sum) != crc32.Checksum(body, castagnoli) {
		return batch, "the checksum does not match"
	}
	if head := [4]byte(body); head != [4]byte{version} && head != [4]byte{version, exactFlag} {
		return batch, "its version is unknown"
	}
	batch.Exact = body[1] == exactFlag
	batch.Boot, batch.Seq = waypost.BootID(body[4:20]), binary.LittleEndian.Uint64(body[20:])
	return batch, decodeColumns(&batch, body[28:], c)
}

// The first and last quarter of an hour that begin within an int64 of milliseconds.
const (
	firstQuarter = math.MinInt64 / waypost.QuarterHour
	lastQuarter  = math.MaxInt64 / waypost.QuarterHour
)

// columns reads the encoding from its beginning on, and remembers the first fault.
type columns struct {
	ticker

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
	c.tick()
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

// number reads a count of things that take at least that many bytes each.
func (c *columns) number(most int, bytes int) int {
	n := c.uvarint()
	if n > uint64(most) || n > uint64(len(c.rest)/bytes) {
		c.bad("it states more than it can hold")
		return 0
	}
	return int(n)
}

func (c *columns) takeBytes(n int) []byte {
	c.tick()
	if n > len(c.rest) {
		c.bad("it is cut")
		return nil
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *columns) byte() byte {
	b := c.takeBytes(1)
	if b == nil {
		return 0
	}
	return b[0]
}

func (c *columns) short() string { return string(c.takeBytes(int(c.byte()))) }

func decodeColumns(b *waypost.ClickBatch, rest []byte, c *columns) (why string) {
	c.rest = rest
	if b.Node = c.short(); !waypost.ValidNode(b.Node) || b.Seq == 0 {
		return "it has no identity"
	}
	b.Dropped = c.uvarint()
	base := c.time(0, unitOf(b))
	profiles := c.number(MaxProfiles, 7)
	links := c.number(MaxLinks, 8+waypost.MinCodeLength)
	rows := c.number(MaxRows, 3)
	visitors := c.number(MaxVisitors, 1+hashBytes)
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

// time reads a time relative to another, in units of that many milliseconds.
func (c *columns) time(from, unit int64) int64 {
	n := from/unit + c.varint()
	if unit != 1 && (n < firstQuarter || n > lastQuarter) {
		c.bad("a time is out of bounds")
		return 0
	}
	return n * unit
}

func (c *columns) profiles(b *waypost.ClickBatch, n int) {
	if n == 0 || c.why != "" {
		return
	}
	b.Profiles = make([]waypost.ClickProfile, n)
	known := make(map[waypost.ClickProfile]struct{}, n)
	for i := range b.Profiles {
		p := &b.Profiles[i]
		flags := c.byte()
		if flags&ruleFlag != 0 {
			p.Rule, p.Variant = c.byte(), c.byte()
			if p.Rule == 0 && p.Variant == 0 {
				c.bad("a profile has an empty rule")
			}
		}
		p.Country, p.City, p.Device, p.Browser, p.OS, p.Referrer = c.short(), c.short(), c.short(), c.short(), c.short(), c.short()
		if flags&utmFlag != 0 {
			var values waypost.UTMValues
			for k := range values {
				values[k] = c.short()
			}
			if p.UTM = waypost.PackUTM(values); p.UTM == "" || p.UTM.Values() != values {
				c.bad("a profile has utm parameters that are none")
			}
		}
		if c.why != "" {
			return
		}
		p.Bot = flags&botFlag != 0
		known[*p] = struct{}{}
		if flags > botFlag|ruleFlag|utmFlag || !p.Valid() {
			c.bad("a profile is broken")
			return
		}
	}
	if len(known) != n {
		c.bad("a profile is there twice")
	}
}

// links reads the columns of links and allocates their rows and visitors.
func (c *columns) links(b *waypost.ClickBatch, n, rows, visitors int) bool {
	if c.why != "" {
		return false
	}
	if n > 0 {
		b.Links = make([]waypost.LinkClicks, n)
	}
	for i := range b.Links {
		d := c.uvarint()
		if d > math.MaxUint32 {
			c.bad("a domain is out of bounds")
		}
		b.Links[i].Domain = waypost.DomainID(d)
	}
	lengths := c.takeBytes(n)
	sum := 0
	for _, l := range lengths {
		sum += int(l)
	}
	codes := string(c.takeBytes(sum))
	if c.why != "" {
		return false
	}
	for i, l := range lengths {
		b.Links[i].Code, codes = waypost.Code(codes[:l]), codes[l:]
		if !waypost.ValidCode(string(b.Links[i].Code)) {
			c.bad("a code is broken")
			return false
		}
	}
	if repeats(b.Links) {
		c.bad("a link is there twice")
	}
	all := make([]waypost.ClickRow, rows)
	for i := range b.Links {
		of := c.uvarint()
		if of == 0 || of > uint64(len(all)) {
			c.bad("rows are missing")
			return false
		}
		b.Links[i].Rows, all = all[:of:of], all[of:]
	}
	who := make([]waypost.Visitor, visitors)
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
func repeats(links []waypost.LinkClicks) bool {
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

func (c *columns) rows(b *waypost.ClickBatch, base int64) {
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

func (c *columns) visitors(b *waypost.ClickBatch, base int64) {
	for i := range b.Links {
		before := int64(waypost.Day(base))
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
			h := c.takeBytes(hashBytes)
			if c.why != "" {
				return
			}
			visitors[k].Hash = uint64(binary.BigEndian.Uint32(h))<<32 | uint64(h[4])<<hashShift
			if k > 0 && visitors[k-1].Compare(visitors[k]) >= 0 {
				c.bad("visitors are out of order")
				return
			}
		}
	}
}
