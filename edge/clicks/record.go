package clicks

import (
	"encoding/binary"
	"hash/crc32"

	"waypost"
	"waypost/internal/failpoint"
)

// A record in a segment is
//
//	 0  CRC-32C of all that follows, to the end of the record
//	 4  length of the record in bytes, a multiple of 8
//	 6  version 4
//	 7  length of the code
//	 8  time of the click, Unix milliseconds, 6 bytes
//	14  flags: 1 a bot; 1 byte zero
//	16  number of the segment, modulo 1<<32
//	20  domain
//	24  the visitor's address, sealed: 16 bytes
//	40  length of the user agent
//	42  length of the referrer
//	44  where in the file an earlier record begins that has both, 4 bytes; 0 when this one has them
//	48  the user agent and the referrer, unless an earlier record has them; the code
//
// with little-endian numbers. What is told of a visitor depends on what lies from 14 to the
// code but for the domain, and on nothing else in the file. What follows the code is room for later fields: it is under the
// checksum, and passed over by those who do not know it. Records begin at multiples of 8, so that the
// next one can be found behind one that is broken; and fields do not cross multiples of 8, so that the checksum is
// made of what was just written without waiting for the memory. A record with the number of another segment
// is a stale one, from before the file was used again, and counts for nothing.
const (
	recordVersion = 1
	recordFlags   = 14
	recordNumber  = 16
	recordDomain  = 20
	recordAddress = 24
	recordLengths = 40
	recordWhere   = 44
	recordHead    = 48
	recordAlign   = 8
	maxRecord     = 2048
	flagBot       = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is a click as it lies in a segment; the slices refer to the bytes there.
type record = waypost.Click

// agentOf and referrerOf cut what is longer than a record has room for.
func agentOf(c *waypost.Click) []byte { return c.Agent[:min(len(c.Agent), waypost.MaxAgent)] }

func referrerOf(c *waypost.Click) []byte {
	return c.Referrer[:min(len(c.Referrer), waypost.MaxReferrer)]
}

// recordSize is the length of the record of a click; of one whose texts an earlier record has, when where
// is not 0.
func recordSize(c *waypost.Click, where uint32) int {
	size := recordHead + len(c.Code)
	if where == 0 {
		size += len(agentOf(c)) + len(referrerOf(c))
	}
	return (size + recordAlign - 1) &^ (recordAlign - 1)
}

// putRecord fills dst, which is zero and has the record's size, in the segment of that number.
func putRecord(dst []byte, c *waypost.Click, number, where uint32) {
	const timeBits = 48
	le := binary.LittleEndian
	agent, referrer := agentOf(c), referrerOf(c)
	flags := uint64(0)
	if c.Bot {
		flags = flagBot
	}
	_ = dst[recordHead-1]
	le.PutUint64(dst[8:], uint64(c.At)&(1<<timeBits-1)|flags<<timeBits)
	le.PutUint64(dst[recordNumber:], uint64(number)|uint64(c.Domain)<<32)
	le.PutUint64(dst[recordAddress:], le.Uint64(c.Address[:]))
	le.PutUint64(dst[recordAddress+8:], le.Uint64(c.Address[8:]))
	le.PutUint64(dst[recordLengths:], uint64(len(agent))|uint64(len(referrer))<<16|uint64(where)<<32)
	rest := dst[recordHead:]
	if where == 0 {
		rest = rest[copy(rest, agent):]
		rest = rest[copy(rest, referrer):]
	}
	putCode(rest, c.Code)
	failpoint.Hit("append click: half")
	// The length and the rest of the first word must be there before the checksum, which is what makes it a record.
	le.PutUint32(dst[4:], uint32(len(dst))|recordVersion<<16|uint32(len(c.Code))<<24)
	le.PutUint32(dst, crc32.Checksum(dst[4:], castagnoli))
}

// putCode copies a code, in one piece if it is one that is made.
func putCode(dst, code []byte) {
	const half, word = 4, 8
	if n := len(code); n < half || n > word || len(dst) != word {
		copy(dst, code)
		return
	}
	le := binary.LittleEndian
	upper := 8 * (len(code) - half) // what both halves have is the same in both
	le.PutUint64(dst, uint64(le.Uint32(code))|uint64(le.Uint32(code[len(code)-half:]))<<upper)
}

// getRecord reads the record at the beginning of b; size is 0 if there is none.
func getRecord(b []byte) (r record, size int) {
	if len(b) < recordHead {
		return record{}, 0
	}
	le := binary.LittleEndian
	size = int(le.Uint16(b[4:]))
	if size > len(b) || size > maxRecord || size%recordAlign != 0 || size < recordHead || b[6] != recordVersion {
		return record{}, 0
	}
	if le.Uint32(b) != crc32.Checksum(b[4:size], castagnoli) {
		return record{}, 0
	}
	b = b[:size:size]
	r = record{
		Domain: waypost.DomainID(le.Uint32(b[recordDomain:])), At: timeIn(b), Bot: b[recordFlags]&flagBot != 0,
		Address: [16]byte(b[recordAddress:]),
	}
	agent, referrer := lengthsIn(b)
	if agent > waypost.MaxAgent || referrer > waypost.MaxReferrer {
		return record{}, 0
	}
	if whereIn(b) != 0 {
		agent, referrer = 0, 0
	}
	referrerAt := recordHead + int(agent)
	codeAt := referrerAt + int(referrer)
	end := codeAt + int(b[7])
	if size < end {
		return record{}, 0
	}
	r.Agent, r.Referrer, r.Code = b[recordHead:referrerAt], b[referrerAt:codeAt], b[codeAt:end]
	return r, size
}

// timeIn gives the time of a record, of which the upper bytes are left out.
func timeIn(b []byte) int64 {
	const upper = 64 - 48
	return int64(binary.LittleEndian.Uint64(b[8:])<<upper) >> upper
}

// lengthsIn and whereIn say of a record of the present version how long its texts are and where.
func lengthsIn(b []byte) (agent, referrer uint16) {
	return binary.LittleEndian.Uint16(b[recordLengths:]), binary.LittleEndian.Uint16(b[recordLengths+2:])
}

func whereIn(b []byte) uint32 { return binary.LittleEndian.Uint32(b[recordWhere:]) }

// staleRecord reports whether a record was written to the file when it was another segment.
func staleRecord(b []byte, number uint32) bool {
	return binary.LittleEndian.Uint32(b[recordNumber:]) != number
}

// visitorOf returns the bytes of a record that describe the visitor. Within a segment, the
// place of its texts identifies them as well as the texts do.
func visitorOf(b []byte, r *record) []byte {
	return b[recordFlags : recordHead+len(r.Agent)+len(r.Referrer)]
}
