package waypost

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
)

// Bounds of a [ClickBatch].
const (
	MaxClickBatch    = 8 << 20 // bytes, as encoded and not compressed
	MaxClickTotals   = 65_536  // links in one batch
	MaxClickProfiles = 65_536
	MaxClickRows     = 1 << 19 // of all links
	MaxClickVisitors = 1 << 19 // of all links
	MaxClickName     = 128     // bytes of a name in a profile
	MaxNodeLength    = 64      // bytes
)

// A batch is encoded as
//
//	version 3; flags, 1 byte: 1 exact; 2 bytes zero
//	boot, 16 bytes
//	sequence, 8 bytes
//	length of the node, 1 byte; the node
//	numbers: dropped, base time, profiles, links, rows, visitors
//	for each profile: 1 byte, 1 a bot; country, city, device, browser, OS and referrer,
//	                  each behind a length byte
//	columns, one value for each link: domain; length of the code, 1 byte; the code;
//	         rows; visitors
//	columns, one value for each row: time; profile; clicks
//	one value for each link: last
//	columns, one value for each visitor: twice the day, and one more for a bot;
//	         the hash, 5 bytes, the upper ones first
//	CRC-32C of all that, 4 bytes
//
// Fixed numbers are little-endian, the others varints of the least length, those that
// may be negative in zigzag. A row's time is the difference to that of the row before it of
// the same link, or to the base time, in milliseconds or else in quarters of an hour; last is the
// difference to the time of the link's last row; a day the difference to that of the visitor
// before it of the same link, or to the day of the base time. The base time is that of the first
// row. Columns are kept apart because like values compress well together. Links are in no
// order: to sort them costs an edge more than it would save on the wire, as their codes are as
// good as random.
//
// Versions 1 and 2, which knew of totals only, are still read: see decodeTotals.
const (
	clickBatchVersion = 3
	clickBatchHead    = 4 + 16 + 8 + 1
	clickBatchTail    = 4
	clickBatchExact   = 1

	visitorBytes = 5
	visitorShift = 64 - 8*visitorBytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ValidNode reports whether s can be the name of a node: 1 to [MaxNodeLength]
// letters, digits and -_.
func ValidNode(s string) bool {
	return len(s) >= 1 && len(s) <= MaxNodeLength && strings.IndexFunc(s, notInNode) < 0
}

func notInNode(r rune) bool {
	return r != '.' && (r >= 0x80 || !codeByte[r])
}

// AppendClickBatch appends the encoding of b to dst. The same batch always gives
// the same bytes. One that breaks a rule of [DecodeClickBatch] is encoded into
// bytes that it refuses.
func AppendClickBatch(dst []byte, b *ClickBatch) []byte {
	start := len(dst)
	rows, visitors, sound := 0, 0, true
	for i := range b.Links {
		l := &b.Links[i]
		rows, visitors = rows+len(l.Rows), visitors+len(l.Visitors)
		sound = sound && len(l.Rows) > 0 && (b.Exact || onQuarters(l.Rows)) && inBits(l.Visitors)
	}
	if !sound {
		rows = MaxClickRows + 1
	}
	var flags byte
	if b.Exact {
		flags = clickBatchExact
	}
	dst = append(dst, clickBatchVersion, flags, 0, 0)
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
	}
	dst = appendLinks(dst, b.Links)
	dst = appendRows(dst, b, base)
	dst = appendVisitors(dst, b.Links, base)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// unitOf gives the unit in which a batch has its times, in milliseconds.
func unitOf(b *ClickBatch) int64 {
	if b.Exact {
		return 1
	}
	return QuarterHour
}

// baseTime gives the time to which the first row of each link is relative.
func baseTime(b *ClickBatch) int64 {
	if len(b.Links) == 0 || len(b.Links[0].Rows) == 0 {
		return 0
	}
	return b.Links[0].Rows[0].At
}

func onQuarters(rows []ClickRow) bool {
	for _, r := range rows {
		if r.At%QuarterHour != 0 {
			return false
		}
	}
	return true
}

func inBits(visitors []Visitor) bool {
	for _, v := range visitors {
		if v.Hash&^VisitorBits != 0 {
			return false
		}
	}
	return true
}

func appendProfile(dst []byte, p *ClickProfile) []byte {
	var flags byte
	if p.Bot {
		flags = 1
	}
	dst = append(dst, flags)
	for _, name := range []string{p.Country, p.City, p.Device, p.Browser, p.OS, p.Referrer} {
		dst = appendShort(dst, name)
	}
	return dst
}

func appendLinks(dst []byte, links []LinkClicks) []byte {
	for i := range links {
		dst = binary.AppendUvarint(dst, uint64(links[i].Domain))
	}
	for i := range links {
		dst = append(dst, byte(min(len(links[i].Code), 255)))
	}
	for i := range links {
		dst = append(dst, links[i].Code...)
	}
	for i := range links {
		dst = binary.AppendUvarint(dst, uint64(len(links[i].Rows)))
	}
	for i := range links {
		dst = binary.AppendUvarint(dst, uint64(len(links[i].Visitors)))
	}
	return dst
}

func appendRows(dst []byte, b *ClickBatch, base int64) []byte {
	unit := unitOf(b)
	for i := range b.Links {
		before := base
		for _, r := range b.Links[i].Rows {
			// Of exact times the difference may wrap around, which it undoes when it is added.
			dst = binary.AppendVarint(dst, r.At/unit-before/unit)
			before = r.At
		}
	}
	for i := range b.Links {
		for _, r := range b.Links[i].Rows {
			dst = binary.AppendUvarint(dst, uint64(r.Profile))
		}
	}
	for i := range b.Links {
		for _, r := range b.Links[i].Rows {
			dst = binary.AppendUvarint(dst, r.Count)
		}
	}
	for i := range b.Links {
		if rows := b.Links[i].Rows; len(rows) > 0 {
			dst = binary.AppendVarint(dst, b.Links[i].Last-rows[len(rows)-1].At)
		}
	}
	return dst
}

func appendVisitors(dst []byte, links []LinkClicks, base int64) []byte {
	today := int64(Day(base))
	for i := range links {
		before := today
		for _, v := range links[i].Visitors {
			// The lowest bit of a zigzag number is its sign: the bot's bit goes below it.
			n := zigzag(int64(v.Day)-before) << 1
			if v.Bot {
				n |= 1
			}
			dst, before = binary.AppendUvarint(dst, n), int64(v.Day)
		}
	}
	for i := range links {
		for _, v := range links[i].Visitors {
			h := v.Hash
			dst = append(dst, byte(h>>56), byte(h>>48), byte(h>>40), byte(h>>32), byte(h>>24))
		}
	}
	return dst
}

func zigzag(n int64) uint64   { return uint64(n)<<1 ^ uint64(n>>63) }
func unzigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }

// appendShort appends a length byte and s. What is longer than a length byte can
// say is beyond all bounds, and is cut there.
func appendShort(dst []byte, s string) []byte {
	s = s[:min(len(s), 255)]
	return append(append(dst, byte(len(s))), s...)
}

// cutShort takes a length byte and as many bytes off b.
func cutShort(b []byte) (s string, rest []byte, ok bool) {
	if len(b) < 1 || len(b)-1 < int(b[0]) {
		return "", nil, false
	}
	end := 1 + int(b[0])
	return string(b[1:end]), b[end:], true
}
