package clicks

import (
	"encoding/binary"
	"hash/crc32"

	"waypost"
	"waypost/failpoint"
)

// A record in a segment is
//
//	 0  CRC-32C of all that follows, to the end of the record
//	 4  length of the record in bytes, a multiple of 8
//	 6  version 3
//	 7  length of the code
//	 8  time of the click, Unix milliseconds, 6 bytes
//	14  number of the segment, modulo 1<<32
//	18  domain
//	22  flags: 1 a bot; 1 byte zero
//	24  length of the user agent
//	26  length of the referrer
//	28  the visitor's address, sealed: 16 bytes
//	44  the user agent, the referrer, the code
//
// with little-endian numbers. What is told of a visitor depends on what lies from 22 to the
// code, and on nothing else. What follows the code is room for later fields: it is under the
// checksum, and passed over by those who do not know it. Records begin at multiples of 8, so that the
// next one can be found behind one that is broken. A record with the number of another segment
// is a stale one, from before the file was used again, and counts for nothing.
//
// Earlier versions are still read. They knew of no segments that are used again. Version 2 had the
// time in 8 bytes, the domain at 16, the flags at 20, and the lengths at 22 and 24. Version 1, which knew
// nothing of visitors, had the code at 20 and a byte of flags behind it, unless there were none.
const (
	recordVersion = 3
	recordNumber  = 14
	recordVisitor = 22
	recordAddress = 28
	recordHead    = 44
	recordAlign   = 8
	maxRecord     = 2048 // of any version to come

	recordUnnumbered        = 2 // the version before
	recordUnnumberedVisitor = 20

	recordBare     = 1 // the one before that
	recordBareHead = 20

	flagBot = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is a click as it lies in a segment; the slices refer to the bytes there.
type record = waypost.Click

// agentOf and referrerOf cut what is longer than a record has room for.
func agentOf(c *waypost.Click) []byte { return c.Agent[:min(len(c.Agent), waypost.MaxAgent)] }

func referrerOf(c *waypost.Click) []byte {
	return c.Referrer[:min(len(c.Referrer), waypost.MaxReferrer)]
}

// recordSize is the length of the record of a click.
func recordSize(c *waypost.Click) int {
	size := recordHead + len(agentOf(c)) + len(referrerOf(c)) + len(c.Code)
	return (size + recordAlign - 1) &^ (recordAlign - 1)
}

// putRecord fills dst, which is zero and has the record's size, in the segment of that number.
func putRecord(dst []byte, c *waypost.Click, number uint32) {
	le := binary.LittleEndian
	agent, referrer := agentOf(c), referrerOf(c)
	le.PutUint16(dst[4:], uint16(len(dst)))
	dst[6], dst[7] = recordVersion, byte(len(c.Code))
	le.PutUint64(dst[8:], uint64(c.At)) // of which the number takes the upper bytes
	le.PutUint32(dst[recordNumber:], number)
	le.PutUint32(dst[18:], uint32(c.Domain))
	if c.Bot {
		dst[recordVisitor] = flagBot
	}
	le.PutUint16(dst[24:], uint16(len(agent)))
	le.PutUint16(dst[26:], uint16(len(referrer)))
	copy(dst[recordAddress:], c.Address[:])
	rest := dst[recordHead:]
	rest = rest[copy(rest, agent):]
	rest = rest[copy(rest, referrer):]
	copy(rest, c.Code)
	failpoint.Hit("append click: half")
	le.PutUint32(dst, crc32.Checksum(dst[4:], castagnoli))
}

// getRecord reads the record with which b begins; size is 0 if there is none.
func getRecord(b []byte) (r record, size int) {
	if len(b) < recordBareHead {
		return record{}, 0
	}
	le := binary.LittleEndian
	size = int(le.Uint16(b[4:]))
	if size > len(b) || size > maxRecord || size%recordAlign != 0 || size < recordBareHead {
		return record{}, 0
	}
	if le.Uint32(b) != crc32.Checksum(b[4:size], castagnoli) {
		return record{}, 0
	}
	b = b[:size:size]
	var ok bool
	switch b[6] {
	case recordVersion:
		const upper = 64 - 48
		r = record{Domain: waypost.DomainID(le.Uint32(b[18:])), At: int64(le.Uint64(b[8:])<<upper) >> upper}
		ok = size >= recordHead && getVisitor(&r, b, b[recordVisitor], le.Uint16(b[24:]), le.Uint16(b[26:]))
	case recordUnnumbered:
		r = record{Domain: waypost.DomainID(le.Uint32(b[16:])), At: int64(le.Uint64(b[8:]))}
		ok = size >= recordHead && getVisitor(&r, b, b[recordUnnumberedVisitor], le.Uint16(b[22:]), le.Uint16(b[24:]))
	case recordBare:
		r = record{Domain: waypost.DomainID(le.Uint32(b[16:])), At: int64(le.Uint64(b[8:]))}
		flags := recordBareHead + int(b[7])
		if ok = size >= flags; ok {
			r.Code = b[recordBareHead:flags]
			r.Bot = flags < size && b[flags]&flagBot != 0
		}
	}
	if !ok {
		return record{}, 0
	}
	return r, size
}

// getVisitor reads what lies from the address on.
func getVisitor(r *record, b []byte, flags byte, agent, referrer uint16) bool {
	referrerAt := recordHead + int(agent)
	at := referrerAt + int(referrer)
	end := at + int(b[7])
	if agent > waypost.MaxAgent || referrer > waypost.MaxReferrer || len(b) < end {
		return false
	}
	r.Bot = flags&flagBot != 0
	r.Address = [16]byte(b[recordAddress:])
	r.Agent, r.Referrer, r.Code = b[recordHead:referrerAt], b[referrerAt:at], b[at:end]
	return true
}

// staleRecord reports whether a record was written to the file when it was another segment.
func staleRecord(b []byte, number uint32) bool {
	return b[6] == recordVersion && binary.LittleEndian.Uint32(b[recordNumber:]) != number
}

// visitorOf gives what a record has of the visitor.
func visitorOf(b []byte, r *record) []byte {
	end := recordHead + len(r.Agent) + len(r.Referrer)
	switch {
	case b[6] == recordVersion:
		return b[recordVisitor:end]
	case b[6] == recordUnnumbered:
		return b[recordUnnumberedVisitor:end]
	case r.Bot:
		return []byte{flagBot}
	}
	return nil
}
