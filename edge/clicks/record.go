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
//	 6  version 2
//	 7  length of the code
//	 8  time of the click, Unix milliseconds
//	16  domain
//	20  flags: 1 a bot; 1 byte zero
//	22  length of the user agent
//	24  length of the referrer; 2 bytes zero
//	28  the visitor's address, sealed: 16 bytes
//	44  the user agent, the referrer, the code
//
// with little-endian numbers. What is told of a visitor depends on what lies from 20 to the
// code, and on nothing else. What follows the code is room for later fields: it is under the
// checksum, and passed over by those who do not know it. Records begin at multiples of 8, so that the
// next one can be found behind one that is broken.
//
// Version 1, which knew nothing of visitors, had the code at 20 and a byte of flags
// behind it, unless there were none. It is still read.
const (
	recordVersion = 2
	recordVisitor = 20
	recordAddress = 28
	recordHead    = 44
	recordAlign   = 8
	maxRecord     = 2048 // of any version to come

	recordBare     = 1 // the version before
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

// putRecord fills dst, which is zero and has the record's size.
func putRecord(dst []byte, c *waypost.Click) {
	le := binary.LittleEndian
	agent, referrer := agentOf(c), referrerOf(c)
	le.PutUint16(dst[4:], uint16(len(dst)))
	dst[6], dst[7] = recordVersion, byte(len(c.Code))
	le.PutUint64(dst[8:], uint64(c.At))
	le.PutUint32(dst[16:], uint32(c.Domain))
	if c.Bot {
		dst[recordVisitor] = flagBot
	}
	le.PutUint16(dst[22:], uint16(len(agent)))
	le.PutUint16(dst[24:], uint16(len(referrer)))
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
	r = record{Domain: waypost.DomainID(le.Uint32(b[16:])), At: int64(le.Uint64(b[8:]))}
	code := int(b[7])
	switch b[6] {
	case recordVersion:
		if size < recordHead {
			return record{}, 0
		}
		agent, referrer := int(le.Uint16(b[22:])), int(le.Uint16(b[24:]))
		at := recordHead + agent + referrer
		if agent > waypost.MaxAgent || referrer > waypost.MaxReferrer || size < at+code {
			return record{}, 0
		}
		r.Bot = b[recordVisitor]&flagBot != 0
		r.Address = [16]byte(b[recordAddress:])
		r.Agent, r.Referrer, r.Code = b[recordHead:recordHead+agent], b[recordHead+agent:at], b[at:at+code]
	case recordBare:
		flags := recordBareHead + code
		if size < flags {
			return record{}, 0
		}
		r.Code = b[recordBareHead:flags]
		r.Bot = flags < size && b[flags]&flagBot != 0
	default:
		return record{}, 0
	}
	return r, size
}

// visitorOf gives what a record has of the visitor.
func visitorOf(b []byte, r *record) []byte {
	if b[6] == recordVersion {
		return b[recordVisitor : recordHead+len(r.Agent)+len(r.Referrer)]
	}
	if r.Bot {
		return []byte{flagBot}
	}
	return nil
}
