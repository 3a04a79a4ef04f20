package clicks

import (
	"encoding/binary"
	"hash/crc32"

	"waypost"
)

// A record in a segment is
//
//	 0  CRC-32C of all that follows, to the end of the record
//	 4  length of the record in bytes, a multiple of 8
//	 6  version 1
//	 7  length of the code
//	 8  time of the click, Unix milliseconds
//	16  domain
//	20  the code
//	    flags, 1 byte: 1 a bot
//
// with little-endian numbers. The flags are left out when none is set: zero, or the
// end of the record, says the same. What lies between them and the end is room for
// later fields: it is under the checksum, and passed over by those who do not know
// it. Records begin at multiples of 8, so that the next one can be found behind one
// that is broken.
const (
	recordVersion = 1
	recordHead    = 20
	recordAlign   = 8
	maxRecord     = 2048 // of any version to come

	flagBot = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is a click as it lies in a segment; the code refers to the bytes there.
type record = waypost.Click

// recordSize is the length of the record of a click.
func recordSize(c *waypost.Click) int {
	size := recordHead + len(c.Code)
	if c.Bot {
		size++
	}
	return (size + recordAlign - 1) &^ (recordAlign - 1)
}

// putRecord fills dst, which is zero and has the record's size.
func putRecord(dst []byte, c *waypost.Click) {
	le := binary.LittleEndian
	le.PutUint16(dst[4:], uint16(len(dst)))
	dst[6], dst[7] = recordVersion, byte(len(c.Code))
	le.PutUint64(dst[8:], uint64(c.At))
	le.PutUint32(dst[16:], uint32(c.Domain))
	copy(dst[recordHead:], c.Code)
	if c.Bot {
		dst[recordHead+len(c.Code)] = flagBot
	}
	le.PutUint32(dst, crc32.Checksum(dst[4:], castagnoli))
}

// getRecord reads the record with which b begins; size is 0 if there is none.
func getRecord(b []byte) (r record, size int) {
	if len(b) < recordHead {
		return record{}, 0
	}
	le := binary.LittleEndian
	size, code := int(le.Uint16(b[4:])), int(b[7])
	if size > len(b) || size > maxRecord || size%recordAlign != 0 || b[6] != recordVersion || size < recordHead+code {
		return record{}, 0
	}
	if le.Uint32(b) != crc32.Checksum(b[4:size], castagnoli) {
		return record{}, 0
	}
	flags := recordHead + code
	r = record{Domain: waypost.DomainID(le.Uint32(b[16:])), At: int64(le.Uint64(b[8:])), Code: b[recordHead:flags]}
	r.Bot = flags < size && b[flags]&flagBot != 0
	return r, size
}

// scan is a walk over the records in a part of a segment. It goes on behind bytes
// that are no record, and notes them.
type scan struct {
	buf  []byte
	next int  // where to look
	end  int  // behind the last record
	torn int  // behind the last byte that is not zero, of those behind end
	hole bool // a record came behind bytes that are none
	junk bool // there was something, and no record
}

// record gives the next one. It stays the next one until accept.
func (s *scan) record() (record, bool) {
	for ; s.next+recordAlign <= len(s.buf); s.next += recordAlign {
		word := s.buf[s.next : s.next+recordAlign]
		if binary.LittleEndian.Uint64(word) == 0 {
			continue
		}
		if r, size := getRecord(s.buf[s.next:]); size > 0 {
			return r, true
		}
		s.torn, s.junk = s.next+recordAlign, true
	}
	s.next = len(s.buf)
	return record{}, false
}

// accept moves behind the record that was given.
func (s *scan) accept() {
	s.hole = s.hole || s.next != s.end
	s.next += int(binary.LittleEndian.Uint16(s.buf[s.next+4:]))
	s.end, s.torn = s.next, 0
}

// tail is the number of bytes behind the last record that should be zero and are not.
func (s *scan) tail() int { return max(s.torn-s.end, 0) }
