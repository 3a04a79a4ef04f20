package clicks

import (
	"encoding/binary"
	"io"

	"waypost"
)

// scan walks over the records in a part of a segment. It skips bytes that are no record,
// and notes them.
type scan struct {
	buf    []byte
	number uint32 // of the segment
	base   int64  // where in the file buf begins

	file   io.ReaderAt             // has the bytes before and after; nil: all are in buf
	read   int                     // bytes of buf that are read
	err    error                   // of the file
	before map[int64]waypost.Click // texts of records before buf, by their places

	next  int  // where to look
	end   int  // behind the last record
	torn  int  // behind the last byte after end that is neither zero nor a stale record's
	hole  bool // a record followed bytes that are no record
	junk  bool // there were bytes that are no record
	stale bool // there were records of an earlier use of the file

	piece, pieceEnd int  // the last piece of junk
	large           bool // some piece was larger than a record
}

// scanOf walks over a part of a file, and reads it as needed, so that each piece is still
// in the processor's cache when its records are read.
func scanOf(file io.ReaderAt, buf []byte, base int64, number uint32) scan {
	return scan{buf: buf, number: number, base: base, file: file}
}

// fill reads further, so that a record that begins at next is in buf as a whole.
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

// record returns the next record, which stays the next one until accept.
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

// addPiece notes junk that ends at end.
func (s *scan) addPiece(end int) {
	if s.pieceEnd != end-recordAlign {
		s.piece = end - recordAlign
	}
	s.pieceEnd = end
	s.large = s.large || s.pieceEnd-s.piece > maxRecord
}

// who returns the bytes of the current record that describe the visitor.
func (s *scan) who(r *record) []byte { return visitorOf(s.buf[s.next:], r) }

// accept moves behind the current record.
func (s *scan) accept() {
	s.hole = s.hole || s.next != s.end
	s.next += int(binary.LittleEndian.Uint16(s.buf[s.next+4:]))
	s.end, s.torn = s.next, 0
}

// tail counts the bytes behind the last record that should be zero and are not.
func (s *scan) tail() int { return max(s.torn-s.end, 0) }

// cut reports whether the bytes behind the last record may be one that a crash cut off.
// After a power cut, pages of an earlier use of the file may be among the others, with
// pieces of records at their ends.
func (s *scan) cut() bool {
	return s.tail() > 0 && (s.tail() <= maxRecord || s.stale && !s.large)
}

// damaged reports whether there is junk that no crash leaves.
func (s *scan) damaged() bool { return s.junk && (!s.stale || s.large) }

// textsOf sets the texts of a click that an earlier record has, if the current record
// says so. If that one cannot be read, the click has no texts, and counts without a
// profile.
func (s *scan) textsOf(c *waypost.Click) {
	b := s.buf[s.next:]
	if whereIn(b) == 0 {
		return
	}
	want := lengthsIn(b)
	at := int64(whereIn(b))
	if at%recordAlign != 0 || at >= s.base+int64(s.next) {
		return
	}
	if in := at - s.base; in >= 0 {
		setTexts(c, s.textsIn(s.buf[in:s.next]), want)
		return
	}
	known, ok := s.before[at]
	if !ok && s.file != nil {
		b := make([]byte, min(maxRecord, s.base-at))
		if n, err := s.file.ReadAt(b, at); err == nil || err == io.EOF {
			known = s.textsIn(b[:n])
		}
		if s.before == nil {
			s.before = make(map[int64]waypost.Click)
		}
		s.before[at] = known
	}
	setTexts(c, known, want)
}

// setTexts copies the texts of the click `of` to c, if these texts have the wanted
// lengths.
func setTexts(c *waypost.Click, of waypost.Click, want textLengths) {
	if lengthsOf(&of) == want {
		c.Agent, c.Referrer, c.UTM = of.Agent, of.Referrer, of.UTM
	}
}

// textsIn returns the record at the beginning of b, if it has its texts itself and is of
// this segment.
func (s *scan) textsIn(b []byte) (r waypost.Click) {
	r, size := getRecord(b)
	if size == 0 || staleRecord(b, s.number) || whereIn(b) != 0 {
		return waypost.Click{}
	}
	return r
}
