package clicks

import (
	"encoding/binary"
	"io"

	"waypost"
)

// scan is a walk over the records in a part of a segment. It goes on behind bytes
// that are no record, and notes them.
type scan struct {
	buf    []byte
	number uint32 // of the segment
	base   int64  // where in the file buf begins

	file   io.ReaderAt             // has what lies before, and what is not read yet; nil: all is in buf
	read   int                     // so much of buf is read
	err    error                   // no more can be
	before map[int64]waypost.Click // texts of records that lie before buf, by where they are

	next  int  // where to look
	end   int  // behind the last record
	torn  int  // behind the last byte that is neither zero nor a stale record's, of those behind end
	hole  bool // a record came behind bytes that are none
	junk  bool // there was something, and no record
	stale bool // there were records of an earlier use of the file

	piece, pieceEnd int  // the last piece of what is no record
	large           bool // some piece was larger than a record
}

// scanOf walks over a part of a file, which is read as it is needed: by then it is in the processor's cache.
func scanOf(file io.ReaderAt, buf []byte, base int64, number uint32) scan {
	return scan{buf: buf, number: number, base: base, file: file}
}

// fill reads on, so that a record that begins at next is there as a whole.
func (s *scan) fill() {
	const step = 64 << 10
	for s.read < min(s.next+maxRecord, len(s.buf)) {
		n, err := s.file.ReadAt(s.buf[s.read:min(s.read+step, len(s.buf))], s.base+int64(s.read))
		s.read += n
		if err != nil {
			s.buf, s.err = s.buf[:s.read], err
		}
	}
}

// record gives the next one. It stays the next one until accept.
func (s *scan) record() (record, bool) {
	for ; s.next+recordAlign <= len(s.buf); s.next += recordAlign {
		if s.file != nil && s.read < min(s.next+maxRecord, len(s.buf)) {
			if s.fill(); s.next+recordAlign > len(s.buf) {
				break
			}
		}
		word := s.buf[s.next : s.next+recordAlign]
		if binary.LittleEndian.Uint64(word) == 0 {
			continue
		}
		if r, size := getRecord(s.buf[s.next:]); size > 0 {
			if !staleRecord(s.buf[s.next:], s.number) {
				return r, true
			}
			s.stale = true
			s.next += size - recordAlign
			continue
		}
		s.torn, s.junk = s.next+recordAlign, true
		s.addPiece(s.torn)
	}
	s.next = len(s.buf)
	return record{}, false
}

// addPiece notes that there is no record before end.
func (s *scan) addPiece(end int) {
	if s.pieceEnd != end-recordAlign {
		s.piece = end - recordAlign
	}
	s.pieceEnd = end
	s.large = s.large || s.pieceEnd-s.piece > maxRecord
}

// who gives what the record that was given has of the visitor.
func (s *scan) who(r *record) []byte { return visitorOf(s.buf[s.next:], r) }

// accept moves behind the record that was given.
func (s *scan) accept() {
	s.hole = s.hole || s.next != s.end
	s.next += int(binary.LittleEndian.Uint16(s.buf[s.next+4:]))
	s.end, s.torn = s.next, 0
}

// tail is the number of bytes behind the last record that should be zero and are not.
func (s *scan) tail() int { return max(s.torn-s.end, 0) }

// cut reports whether what is behind the last record may be what a crash left of one. After a power
// cut, pages of an earlier use of the file may be among the others, and pieces of records at their ends.
func (s *scan) cut() bool {
	return s.tail() > 0 && (s.tail() <= maxRecord || s.stale && !s.large)
}

// damaged reports whether there is what no crash leaves before the end of the part.
func (s *scan) damaged() bool { return s.junk && (!s.stale || s.large) }
