package clicks

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"hash/maphash"
	"math/bits"

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
//	14  rule and variant, 1 byte each
//	16  number of the segment, modulo 1<<32
//	20  domain
//	24  the visitor's address, sealed: 16 bytes
//	40  length of the user agent, of the referrer and of the utm parameters, 10 bits
//	    each; 1 bit zero; 1 bit: a bot
//	44  where in the file an earlier record with these begins, 4 bytes; 0: in this one
//	48  the user agent, the referrer and the utm parameters, unless an earlier record has
//	    them; the code
//
// with little-endian numbers. The profile of a click depends on the bytes from 14 to
// the code, except the domain, and on nothing else in the file. The bytes after the code
// are room for later fields: the checksum includes them, and readers that do not know
// them skip them. Records begin at multiples of 8, so that the next one can be found
// after a broken one. Fields do not cross multiples of 8, so that the checksum reads
// just-written words without waiting for memory. A record with the number of another
// segment is stale, from before the file was reused, and does not count.
const (
	recordVersion = 1
	recordRule    = 14
	recordNumber  = 16
	recordDomain  = 20
	recordAddress = 24
	recordLengths = 40
	recordWhere   = 44
	recordHead    = 48
	recordAlign   = 8
	maxRecord     = 2048

	lengthBits = 10
	lengthMask = 1<<lengthBits - 1
	botBit     = 1 << 31
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is a click as it lies in a segment; the slices refer to the bytes there.
type record = waypost.Click

// agentOf and referrerOf return the texts as far as a record has room for them.
func agentOf(c *waypost.Click) []byte { return c.Agent[:min(len(c.Agent), waypost.MaxAgent)] }

func referrerOf(c *waypost.Click) []byte {
	return c.Referrer[:min(len(c.Referrer), waypost.MaxReferrer)]
}

func utmOf(c *waypost.Click) []byte {
	if len(c.UTM) > waypost.MaxUTMText { // a part of it would say something else
		return nil
	}
	return c.UTM
}

// recordSize returns the length of a click's record. If where is not 0, an earlier record
// has its texts.
func recordSize(c *waypost.Click, where uint32) int {
	size := recordHead + len(c.Code)
	if where == 0 {
		size += len(agentOf(c)) + len(referrerOf(c)) + len(utmOf(c))
	}
	return (size + recordAlign - 1) &^ (recordAlign - 1)
}

// putRecord fills dst, which is zero and has the record's size. Number is the segment's.
func putRecord(dst []byte, c *waypost.Click, number, where uint32) {
	const timeBits = 48
	le := binary.LittleEndian
	agent, referrer, utm := agentOf(c), referrerOf(c), utmOf(c)
	lengths := uint64(len(agent)) | uint64(len(referrer))<<lengthBits | uint64(len(utm))<<(2*lengthBits)
	if c.Bot {
		lengths |= botBit
	}
	_ = dst[recordHead-1]
	le.PutUint64(dst[8:], uint64(c.At)&(1<<timeBits-1)|uint64(c.Rule)<<timeBits|uint64(c.Variant)<<(timeBits+8))
	le.PutUint64(dst[recordNumber:], uint64(number)|uint64(c.Domain)<<32)
	le.PutUint64(dst[recordAddress:], le.Uint64(c.Address[:]))
	le.PutUint64(dst[recordAddress+8:], le.Uint64(c.Address[8:]))
	le.PutUint64(dst[recordLengths:], lengths|uint64(where)<<32)
	rest := dst[recordHead:]
	if where == 0 {
		rest = rest[copy(rest, agent):]
		rest = rest[copy(rest, referrer):]
		rest = rest[copy(rest, utm):]
	}
	putCode(rest, c.Code)
	failpoint.Hit("append click: half")
	// The rest of the first word precedes the checksum, which completes the record.
	le.PutUint32(dst[4:], uint32(len(dst))|recordVersion<<16|uint32(len(c.Code))<<24)
	le.PutUint32(dst, crc32.Checksum(dst[4:], castagnoli))
}

// putCode copies a code; the lengths that Waypost issues take a single store.
func putCode(dst, code []byte) {
	const half, word = 4, 8
	if n := len(code); n < half || n > word || len(dst) != word {
		copy(dst, code)
		return
	}
	le := binary.LittleEndian
	upper := 8 * (len(code) - half) // where the halves overlap they are equal
	le.PutUint64(dst, uint64(le.Uint32(code))|uint64(le.Uint32(code[len(code)-half:]))<<upper)
}

// getRecord reads the record at the beginning of b; size is 0 if b begins with no record.
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
		Domain: waypost.DomainID(le.Uint32(b[recordDomain:])), At: timeIn(b), Bot: le.Uint32(b[recordLengths:])&botBit != 0,
		Rule: b[recordRule], Variant: b[recordRule+1], Address: [16]byte(b[recordAddress:]),
	}
	n := lengthsIn(b)
	if n.agent > waypost.MaxAgent || n.referrer > waypost.MaxReferrer || n.utm > waypost.MaxUTMText {
		return record{}, 0
	}
	if whereIn(b) != 0 {
		n = textLengths{}
	}
	referrerAt := recordHead + n.agent
	utmAt := referrerAt + n.referrer
	codeAt := utmAt + n.utm
	end := codeAt + int(b[7])
	if size < end {
		return record{}, 0
	}
	r.Agent, r.Referrer, r.Code = b[recordHead:referrerAt], b[referrerAt:utmAt], b[codeAt:end]
	if n.utm > 0 {
		r.UTM = b[utmAt:codeAt]
	}
	return r, size
}

// textLengths are the lengths of a record's texts.
type textLengths struct{ agent, referrer, utm int }

func lengthsOf(c *waypost.Click) textLengths {
	return textLengths{len(c.Agent), len(c.Referrer), len(c.UTM)}
}

// timeIn returns the time of a record, which omits the upper bytes.
func timeIn(b []byte) int64 {
	const upper = 64 - 48
	return int64(binary.LittleEndian.Uint64(b[8:])<<upper) >> upper
}

// lengthsIn and whereIn return the lengths of a record's texts and where they are.
func lengthsIn(b []byte) textLengths {
	n := int(binary.LittleEndian.Uint32(b[recordLengths:]))
	return textLengths{n & lengthMask, n >> lengthBits & lengthMask, n >> (2 * lengthBits) & lengthMask}
}

func whereIn(b []byte) uint32 { return binary.LittleEndian.Uint32(b[recordWhere:]) }

// staleRecord reports whether a record was written to the file when it was another
// segment.
func staleRecord(b []byte, number uint32) bool {
	return binary.LittleEndian.Uint32(b[recordNumber:]) != number
}

// visitorOf returns the bytes of a record that its profile depends on: rule, variant and
// the description of the visitor. Within a segment, the place of the texts identifies
// them as well as the texts do.
func visitorOf(b []byte, r *record) []byte {
	return b[recordRule : recordHead+len(r.Agent)+len(r.Referrer)+len(r.UTM)]
}

// Most clicks share few agents, referrers and utm parameters. So a segment has these
// texts once, in the first record with all of them, and later ones say where that is. A
// record refers only to an earlier one of its own file, so that a sync that makes it
// durable makes its texts durable too.

// maxTexts bounds the texts that a shard remembers. It writes forgotten ones again.
const maxTexts = 1 << 10

// leastTexts is the least number of bytes that is worth a lookup.
const leastTexts = 8

// texts remembers where a shard's segment has agents, referrers and utm parameters. Those
// that share an entry displace each other. The shard's lock guards it.
type texts struct {
	entries [maxTexts]textsEntry
}

type textsEntry struct {
	hash uint32
	at   uint32 // 0: nothing
}

// find returns where a record of the segment begins that has the texts of a click, 0 if
// none is remembered, and the entry that should remember one.
func (t *texts) find(mem []byte, c *waypost.Click, seed maphash.Seed) (where uint32, e *textsEntry, hash uint32) {
	agent, referrer, utm := agentOf(c), referrerOf(c), utmOf(c)
	size := len(agent) + len(referrer) + len(utm)
	if size < leastTexts {
		return 0, nil, 0
	}
	sum := maphash.Bytes(seed, agent)
	if len(referrer) > 0 {
		sum = bits.RotateLeft64(sum, 1) ^ maphash.Bytes(seed, referrer)
	}
	if len(utm) > 0 {
		sum = bits.RotateLeft64(sum, 2) ^ maphash.Bytes(seed, utm)
	}
	e, hash = &t.entries[sum%maxTexts], uint32(sum>>32)
	if e.at == 0 || e.hash != hash {
		return 0, e, hash
	}
	// The hash is a hint; the bytes decide.
	b := mem[min(int(e.at), len(mem)):]
	if len(b) < recordHead+size || lengthsIn(b) != (textLengths{len(agent), len(referrer), len(utm)}) {
		return 0, e, hash
	}
	b = b[recordHead:]
	n, m := len(agent), len(agent)+len(referrer)
	if !bytes.Equal(b[:n], agent) || !bytes.Equal(b[n:m], referrer) || !bytes.Equal(b[m:size], utm) {
		return 0, e, hash
	}
	return e.at, e, hash
}

// forget makes room for the texts of another segment.
func (t *texts) forget() { clear(t.entries[:]) }
