package clicks

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"io"
	"math/bits"

	"waypost"
)

// Few agents and referrers are those of most clicks. So a segment has them once, in the first record that has
// both, and later ones say where that is. Nothing is asked of it but by those who read
// the record that refers to it, and that one is never written again: it lies before, in the same file, and what makes the one
// durable does so with the other.

// maxTexts is how many a shard remembers. One that is forgotten is written again.
const maxTexts = 1 << 10

// leastTexts is the least number of bytes that is worth a look.
const leastTexts = 8

// texts is what a shard remembers of its segment: where agents and referrers are. Those that share an
// entry forget each other. It belongs to whoever holds the shard.
type texts struct {
	entries [maxTexts]textsEntry
}

type textsEntry struct {
	hash uint32
	at   uint32 // 0: nothing
}

// find gives where a record of the segment begins that has the texts of a click, 0 if none is
// remembered, and the entry that is to remember one.
func (t *texts) find(mem []byte, c *waypost.Click, seed maphash.Seed) (where uint32, e *textsEntry, hash uint32) {
	agent, referrer := agentOf(c), referrerOf(c)
	if len(agent)+len(referrer) < leastTexts {
		return 0, nil, 0
	}
	sum := maphash.Bytes(seed, agent)
	if len(referrer) > 0 {
		sum = bits.RotateLeft64(sum, 1) ^ maphash.Bytes(seed, referrer)
	}
	e, hash = &t.entries[sum%maxTexts], uint32(sum>>32)
	if e.at == 0 || e.hash != hash {
		return 0, e, hash
	}
	// The memory is the truth: a hash is not.
	b := mem[min(int(e.at), len(mem)):]
	end := recordHead + len(agent) + len(referrer)
	if len(b) < end {
		return 0, e, hash
	}
	n, m := lengthsIn(b)
	b = b[recordHead:end]
	if int(n) != len(agent) || int(m) != len(referrer) || !bytes.Equal(b[:n], agent) || !bytes.Equal(b[n:], referrer) {
		return 0, e, hash
	}
	return e.at, e, hash
}

// forget makes room for those of another segment.
func (t *texts) forget() { clear(t.entries[:]) }

// textsOf gives a click the texts that an earlier record has, if the record that was given says so. When that one cannot be read, or is none,
// the click has none: it counts, as one of which nothing is told.
func (s *scan) textsOf(c *waypost.Click) {
	b := s.buf[s.next:]
	if whereIn(b) == 0 {
		return
	}
	agent, referrer := lengthsIn(b)
	at := int64(whereIn(b))
	if at%recordAlign != 0 || at >= s.base+int64(s.next) {
		return
	}
	if in := at - s.base; in >= 0 {
		c.Agent, c.Referrer = s.textsIn(s.buf[in:s.next], agent, referrer)
		return
	}
	known, ok := s.before[at]
	if !ok && s.file != nil {
		b := make([]byte, min(maxRecord, s.base-at))
		if n, err := s.file.ReadAt(b, at); err == nil || err == io.EOF {
			known.Agent, known.Referrer = s.textsIn(b[:n], agent, referrer)
		}
		if s.before == nil {
			s.before = make(map[int64]waypost.Click)
		}
		s.before[at] = known
	}
	if len(known.Agent) == int(agent) && len(known.Referrer) == int(referrer) {
		c.Agent, c.Referrer = known.Agent, known.Referrer
	}
}

// textsIn gives the texts of the record with which b begins, if it has such and is of this segment.
func (s *scan) textsIn(b []byte, agent, referrer uint16) (_, _ []byte) {
	r, size := getRecord(b)
	if size == 0 || staleRecord(b, s.number) || binary.LittleEndian.Uint64(b[recordLengths:]) != uint64(agent)|uint64(referrer)<<16 {
		return nil, nil
	}
	return r.Agent, r.Referrer
}
