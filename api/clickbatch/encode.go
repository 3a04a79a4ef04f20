// Package clickbatch defines the wire format in which an edge sends its clicks to the
// control plane: the bounds of a batch, its encoding and its decoding.
//
// It knows nothing of how clicks are recorded, shipped or counted.
package clickbatch

import (
	"encoding/binary"
	"hash/crc32"

	"waypost"
)

// A batch is the body of a POST to Path, zstd-compressed.
const (
	Path        = "/clicks/v1/batches"
	ContentType = "application/vnd.waypost.clicks"

	// HeaderCluster names, in hex, the cluster that the clicked links belong to.
	HeaderCluster = "Waypost-Cluster"

	// HeaderPosition has the position of the edge's replica: a control plane
	// with a PostgreSQL of an older epoch takes no clicks.
	HeaderPosition = "Waypost-Position"
)

// Bounds of a batch.
const (
	MaxBytes    = 8 << 20 // encoded, before compression
	MaxLinks    = 65_536
	MaxProfiles = 65_536
	MaxRows     = 1 << 19 // of all links
	MaxVisitors = 1 << 19 // of all links
)

// A batch is encoded as
//
//	version 1; flags, 1 byte: 1 exact; 2 bytes zero
//	boot, 16 bytes
//	sequence, 8 bytes
//	length of the node, 1 byte; the node
//	numbers: dropped, base time, profiles, links, rows, visitors
//	for each profile: flags, 1 byte: 1 a bot, 2 it has a rule or a variant, 4 it has
//	                  utm parameters;
//	                  rule and variant, 1 byte each, if it has any;
//	                  country, city, device, browser, OS and referrer, each behind a
//	                  length byte; the five utm parameters likewise, if it has any
//	columns, one value for each link: domain; length of the code, 1 byte; the code;
//	         rows; visitors
//	columns, one value for each row: time; profile; clicks
//	one value for each link: last
//	columns, one value for each visitor: twice the day, plus one for a bot;
//	         the hash, 5 bytes, big-endian
//	CRC-32C of all that, 4 bytes
//
// Fixed-size numbers are little-endian. The others are varints of the least length, in
// zigzag where they may be negative. A row's time is the difference to the row before it
// of the same link, or to the base time; its unit is a millisecond in an exact batch,
// otherwise a quarter of an hour. Last is the difference to the time of the link's last
// row. A day is the difference to the visitor before it of the same link, or to the day
// of the base time. The base time is the first row's.
//
// The columns are separate because similar values compress well together. Links have no
// order: sorting them costs an edge more than it saves on the wire, because codes look
// random.
const (
	version    = 1
	headBytes  = 4 + 16 + 8 + 1
	tailBytes  = 4
	exactFlag  = 1
	botFlag    = 1
	ruleFlag   = 2
	utmFlag    = 4
	hashBytes  = 5
	hashShift  = 64 - 8*hashBytes
	crowdedOut = MaxRows + 1 // a number of rows that Decode refuses
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Codec encodes and decodes batches. The zero Codec is ready.
type Codec struct {
	// Pause, if set, is called now and then, so that work on a large batch can let other
	// goroutines have the processor.
	Pause func()
}

// Append appends the encoding of b to dst. The same batch always has the same bytes. A
// batch that breaks a rule of [Decode] is encoded into bytes that Decode refuses.
func Append(dst []byte, b *waypost.ClickBatch) []byte { return Codec{}.Append(dst, b) }

// Append is [Append] with pauses.
func (c Codec) Append(dst []byte, b *waypost.ClickBatch) []byte {
	t := &ticker{pause: c.Pause}
	start := len(dst)
	rows, visitors, sound := 0, 0, true
	for i := range b.Links {
		l := &b.Links[i]
		rows, visitors = rows+len(l.Rows), visitors+len(l.Visitors)
		t.tick()
		sound = sound && len(l.Rows) > 0 && (b.Exact || onQuarters(l.Rows)) && inBits(l.Visitors)
	}
	if !sound {
		rows = crowdedOut
	}
	var flags byte
	if b.Exact {
		flags = exactFlag
	}
	dst = append(dst, version, flags, 0, 0)
	dst = append(dst, b.Boot[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, b.Seq)
	dst = appendShort(dst, b.Node)
	base := baseTime(b)
	dst = binary.AppendUvarint(dst, b.Dropped)
	dst = binary.AppendVarint(dst, base/unitOf(b))
	for _, n := range []int{len(b.Profiles), len(b.Links), rows, visitors} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	for i := range b.Profiles {
		dst = appendProfile(dst, &b.Profiles[i])
		t.tick()
	}
	dst = t.appendLinks(dst, b.Links)
	dst = t.appendRows(dst, b, base)
	dst = t.appendVisitors(dst, b.Links, base)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// unitOf returns the unit of a batch's times, in milliseconds.
func unitOf(b *waypost.ClickBatch) int64 {
	if b.Exact {
		return 1
	}
	return waypost.QuarterHour
}

// baseTime returns the time to which the first row of each link is relative.
func baseTime(b *waypost.ClickBatch) int64 {
	if len(b.Links) == 0 || len(b.Links[0].Rows) == 0 {
		return 0
	}
	return b.Links[0].Rows[0].At
}

func onQuarters(rows []waypost.ClickRow) bool {
	for _, r := range rows {
		if r.At%waypost.QuarterHour != 0 {
			return false
		}
	}
	return true
}

func inBits(visitors []waypost.Visitor) bool {
	for _, v := range visitors {
		if v.Hash&^waypost.VisitorBits != 0 {
			return false
		}
	}
	return true
}

func appendProfile(dst []byte, p *waypost.ClickProfile) []byte {
	var flags byte
	if p.Bot {
		flags = botFlag
	}
	if p.UTM != "" {
		flags |= utmFlag
	}
	if p.Rule != 0 || p.Variant != 0 {
		dst = append(dst, flags|ruleFlag, p.Rule, p.Variant)
	} else {
		dst = append(dst, flags)
	}
	for _, name := range []string{p.Country, p.City, p.Device, p.Browser, p.OS, p.Referrer} {
		dst = appendShort(dst, name)
	}
	if p.UTM != "" {
		for _, value := range p.UTM.Values() {
			dst = appendShort(dst, value)
		}
	}
	return dst
}

func (t *ticker) appendLinks(dst []byte, links []waypost.LinkClicks) []byte {
	for i := range links {
		dst = binary.AppendUvarint(dst, uint64(links[i].Domain))
		t.tick()
	}
	for i := range links {
		dst = append(dst, byte(min(len(links[i].Code), 255)))
		t.tick()
	}
	for i := range links {
		dst = append(dst, links[i].Code...)
		t.tick()
	}
	for i := range links {
		dst = binary.AppendUvarint(dst, uint64(len(links[i].Rows)))
		t.tick()
	}
	for i := range links {
		dst = binary.AppendUvarint(dst, uint64(len(links[i].Visitors)))
		t.tick()
	}
	return dst
}

func (t *ticker) appendRows(dst []byte, b *waypost.ClickBatch, base int64) []byte {
	unit := unitOf(b)
	for i := range b.Links {
		before := base
		for _, r := range b.Links[i].Rows {
			// The difference of exact times may wrap around; the decoder's addition undoes that.
			dst = binary.AppendVarint(dst, r.At/unit-before/unit)
			before = r.At
			t.tick()
		}
	}
	for i := range b.Links {
		for _, r := range b.Links[i].Rows {
			dst = binary.AppendUvarint(dst, uint64(r.Profile))
			t.tick()
		}
	}
	for i := range b.Links {
		for _, r := range b.Links[i].Rows {
			dst = binary.AppendUvarint(dst, r.Count)
			t.tick()
		}
	}
	for i := range b.Links {
		t.tick()
		if rows := b.Links[i].Rows; len(rows) > 0 {
			dst = binary.AppendVarint(dst, b.Links[i].Last-rows[len(rows)-1].At)
		}
	}
	return dst
}

func (t *ticker) appendVisitors(dst []byte, links []waypost.LinkClicks, base int64) []byte {
	today := int64(waypost.Day(base))
	for i := range links {
		before := today
		for _, v := range links[i].Visitors {
			// The lowest bit of a zigzag number is its sign, so the bot's bit goes below it.
			n := zigzag(int64(v.Day)-before) << 1
			if v.Bot {
				n |= 1
			}
			dst, before = binary.AppendUvarint(dst, n), int64(v.Day)
			t.tick()
		}
	}
	for i := range links {
		for _, v := range links[i].Visitors {
			h := v.Hash
			dst = append(dst, byte(h>>56), byte(h>>48), byte(h>>40), byte(h>>32), byte(h>>24))
			t.tick()
		}
	}
	return dst
}

func zigzag(n int64) uint64   { return uint64(n)<<1 ^ uint64(n>>63) }
func unzigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }

// appendShort appends a length byte and s, cut at 255 bytes. Decode refuses names that
// long.
func appendShort(dst []byte, s string) []byte {
	s = s[:min(len(s), 255)]
	return append(append(dst, byte(len(s))), s...)
}

// ticker calls pause after some steps of up to 20 ns.
type ticker struct {
	pause func()
	steps uint
}

func (t *ticker) tick() {
	const perPause = 512
	if t.steps++; t.steps%perPause == 0 && t.pause != nil {
		t.pause()
	}
}
