package clicks

import (
	"encoding/binary"
	"errors"
	"slices"
)

// checkpoint says where the clicks of a boot are, as of the file that holds it, which is
// a batch or a compacted segment. It covers the parts of segments that are in batches or
// compacted segments, and the parts of compacted segments that are in batches or in other
// compacted segments. A segment with a number below next that is not listed is covered as
// a whole; one from next on is not covered at all. The same holds for compacted segments.
// The newest file of a boot is right about all older ones.
type checkpoint struct {
	next          uint64
	segments      []coveredSegment
	nextCompacted uint64
	compacted     []coveredCompacted
}

type coveredSegment struct {
	number uint64
	end    int64 // the bytes before it are covered
}

type coveredCompacted struct {
	number uint64
	blocks uint32 // that many, from the first on, are covered
}

// of returns the end of the covered part of a segment; whole if all of it is.
func (c *checkpoint) of(number uint64) (end int64, whole bool) {
	if number >= c.next {
		return segmentHead, false
	}
	for _, s := range c.segments {
		if s.number == number {
			return s.end, false
		}
	}
	return 0, true
}

// ofCompacted returns how many blocks of a compacted segment are covered; whole if all
// are.
func (c *checkpoint) ofCompacted(number uint64) (blocks int, whole bool) {
	if number >= c.nextCompacted {
		return 0, false
	}
	for _, f := range c.compacted {
		if f.number == number {
			return int(f.blocks), false
		}
	}
	return 0, true
}

// drop makes the checkpoint cover a compacted segment as a whole.
func (c *checkpoint) drop(f *compacted) {
	c.compacted = slices.DeleteFunc(c.compacted, func(o coveredCompacted) bool { return o.number == f.name.n })
}

// append appends the encoding of the checkpoint:
//
//	next segment, 8 bytes; number of segments, 4 bytes
//	for each segment: number, 8 bytes; end of the covered part, 8 bytes
//	next compacted segment, 8 bytes; number of these, 4 bytes
//	for each: number, 8 bytes; blocks that are covered, 4 bytes
func (c *checkpoint) append(out []byte) []byte {
	le := binary.LittleEndian
	out = le.AppendUint64(out, c.next)
	out = le.AppendUint32(out, uint32(len(c.segments)))
	for _, s := range c.segments {
		out = le.AppendUint64(out, s.number)
		out = le.AppendUint64(out, uint64(s.end))
	}
	out = le.AppendUint64(out, c.nextCompacted)
	out = le.AppendUint32(out, uint32(len(c.compacted)))
	for _, f := range c.compacted {
		out = le.AppendUint64(out, f.number)
		out = le.AppendUint32(out, f.blocks)
	}
	return out
}

var errCheckpoint = errors.New("its checkpoint is broken")

// cutCheckpoint takes a checkpoint off b.
func cutCheckpoint(b []byte) (c checkpoint, rest []byte, err error) {
	le := binary.LittleEndian
	if len(b) < 12 {
		return checkpoint{}, nil, errCheckpoint
	}
	c.next = le.Uint64(b)
	n, b := uint64(le.Uint32(b[8:])), b[12:]
	if n > uint64(len(b)/16) {
		return checkpoint{}, nil, errCheckpoint
	}
	if c.segments, err = cutSegments(b[:16*n]); err != nil {
		return checkpoint{}, nil, err
	}
	if b = b[16*n:]; len(b) < 12 {
		return checkpoint{}, nil, errCheckpoint
	}
	c.nextCompacted = le.Uint64(b)
	n, b = uint64(le.Uint32(b[8:])), b[12:]
	if n > uint64(len(b)/12) {
		return checkpoint{}, nil, errCheckpoint
	}
	c.compacted = make([]coveredCompacted, n)
	for i := range c.compacted {
		c.compacted[i], b = coveredCompacted{le.Uint64(b), le.Uint32(b[8:])}, b[12:]
	}
	return c, b, nil
}

func cutSegments(b []byte) ([]coveredSegment, error) {
	le := binary.LittleEndian
	out := make([]coveredSegment, len(b)/16)
	for i := range out {
		s := coveredSegment{le.Uint64(b), int64(le.Uint64(b[8:]))}
		if s.end < segmentHead || s.end > maxSegment {
			return nil, errCheckpoint
		}
		out[i], b = s, b[16:]
	}
	return out, nil
}
