package clicks

import "encoding/binary"

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
