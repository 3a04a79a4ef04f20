package clicks

import (
	"encoding/binary"
	"errors"
)

// cover says where the clicks of a boot are, as of the file that has it, which is a
// batch or a fold: what of the segments is in batches or folds, and what of the folds is in
// batches or other folds. A segment with a number below next that is not listed is covered as a
// whole, one from next on not at all; folds likewise. The newest file of a boot is right about
// all that is older.
type cover struct {
	next     uint64
	segments []coveredSegment
	nextFold uint64
	folds    []coveredFold
}

type coveredSegment struct {
	number uint64
	end    int64 // what lies before, in bytes, is covered
}

type coveredFold struct {
	number uint64
	blocks uint32 // so many, from the first on, are covered
}

// of gives the end of what is covered of a segment; whole when all of it is.
func (c *cover) of(number uint64) (end int64, whole bool) {
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

// ofFold gives how many blocks of a fold are covered; whole when all of them are.
func (c *cover) ofFold(number uint64) (blocks int, whole bool) {
	if number >= c.nextFold {
		return 0, false
	}
	for _, f := range c.folds {
		if f.number == number {
			return int(f.blocks), false
		}
	}
	return 0, true
}

// append appends the encoding of the cover:
//
//	next segment, 8 bytes; number of segments, 4 bytes
//	for each segment: number, 8 bytes; end of what is covered, 8 bytes
//	next fold, 8 bytes; number of folds, 4 bytes
//	for each fold: number, 8 bytes; blocks that are covered, 4 bytes
func (c *cover) append(out []byte) []byte {
	le := binary.LittleEndian
	out = le.AppendUint64(out, c.next)
	out = le.AppendUint32(out, uint32(len(c.segments)))
	for _, s := range c.segments {
		out = le.AppendUint64(out, s.number)
		out = le.AppendUint64(out, uint64(s.end))
	}
	out = le.AppendUint64(out, c.nextFold)
	out = le.AppendUint32(out, uint32(len(c.folds)))
	for _, f := range c.folds {
		out = le.AppendUint64(out, f.number)
		out = le.AppendUint32(out, f.blocks)
	}
	return out
}

var errCover = errors.New("what it says of the journal is broken")

// cutCover takes a cover off b.
func cutCover(b []byte) (c cover, rest []byte, err error) {
	le := binary.LittleEndian
	if len(b) < 12 {
		return cover{}, nil, errCover
	}
	c.next = le.Uint64(b)
	n, b := uint64(le.Uint32(b[8:])), b[12:]
	if n > uint64(len(b)/16) {
		return cover{}, nil, errCover
	}
	if c.segments, err = cutSegments(b[:16*n]); err != nil {
		return cover{}, nil, err
	}
	if b = b[16*n:]; len(b) < 12 {
		return cover{}, nil, errCover
	}
	c.nextFold = le.Uint64(b)
	n, b = uint64(le.Uint32(b[8:])), b[12:]
	if n > uint64(len(b)/12) {
		return cover{}, nil, errCover
	}
	c.folds = make([]coveredFold, n)
	for i := range c.folds {
		c.folds[i], b = coveredFold{le.Uint64(b), le.Uint32(b[8:])}, b[12:]
	}
	return c, b, nil
}

func cutSegments(b []byte) ([]coveredSegment, error) {
	le := binary.LittleEndian
	out := make([]coveredSegment, len(b)/16)
	for i := range out {
		s := coveredSegment{le.Uint64(b), int64(le.Uint64(b[8:]))}
		if s.end < segmentHead || s.end > maxSegment {
			return nil, errCover
		}
		out[i], b = s, b[16:]
	}
	return out, nil
}
