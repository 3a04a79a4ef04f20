package codes

import (
	"bytes"
	"unicode/utf8"

	"waypost"
)

// Walk yields the codes that a visitor may mean, the best first: the whole path, and then
// the path without its last segments, one after another, for links to which the rest of
// the path is forwarded.
//
// It does not allocate once it has its buffer. The zero Walk is ready. A visit refers to
// the Walk until the next Start.
type Walk struct {
	path     []byte                          // as it was sent, without its first slash
	code     []byte                          // the next one
	segments int                             // of code; 0: there is none
	whole    bool                            // code is the whole path
	plain    bool                            // the visit has its only code already
	cuts     [waypost.MaxCodeSegments]uint16 // where the segments of path end
	buf      []byte
}

// Start begins the walk of a visit.
func (w *Walk) Start(v *waypost.Visit) {
	if w.plain = v.Rest == nil && waypost.PlainCode(v.Code); !w.plain {
		w.read(v.Path)
	}
}

// Next moves a visit to its next code. It returns false after the last one.
func (w *Walk) Next(v *waypost.Visit) bool {
	if w.plain {
		w.plain = false
		w.segments = 0
		return true
	}
	if w.segments == 0 {
		return false
	}
	v.Code, v.Rest, v.Preview = w.code, nil, false
	if w.whole {
		w.whole = false
		v.Preview = w.path[len(w.path)-1] == '+'
	} else {
		v.Rest = w.path[w.cuts[w.segments-1]:]
	}
	w.code = w.code[:max(bytes.LastIndexByte(w.code, '/'), 0)]
	w.segments--
	return true
}

// Leads reports whether a visit is a visit of the record that was found for its code:
// only links with forwarded paths have addresses below their code.
func Leads(v *waypost.Visit, r *waypost.Record) bool {
	return v.Rest == nil || r.Flags&waypost.ForwardPath != 0
}

// read decodes a path, and finds the longest code that it begins with.
func (w *Walk) read(path []byte) {
	if w.buf == nil {
		w.buf = make([]byte, 0, 2*maxDecoded)
	}
	w.path = path
	text, complete := w.decode(bytes.TrimSuffix(path, []byte("+")))
	text = normalise(text)
	prefix, fault := waypost.CheckCode(text)
	w.code, w.whole, w.segments = text[:prefix], complete && fault.Reason == "", 0
	if prefix > 0 {
		w.segments = bytes.Count(w.code, []byte("/")) + 1
	}
}

// decode decodes a path into the buffer, and notes where its segments end. Of a path that
// no code can be as long as, it decodes whole segments, as many as a code can have.
func (w *Walk) decode(path []byte) (text []byte, complete bool) {
	slashes := 0
	text = w.buf[:0]
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch c {
		case '/':
			w.cuts[slashes] = uint16(i)
			if slashes++; slashes == len(w.cuts) {
				return text, false
			}
		case '%':
			if d, ok := unescape(path[i:]); ok {
				c = d
				i += len("%00") - 1
			}
		}
		if len(text) == maxDecoded {
			return text[:max(bytes.LastIndexByte(text, '/'), 0)], false
		}
		text = append(text, c)
	}
	return text, true
}

// AppendSegment decodes one segment of a path as a Walk does, and returns its normal
// form. If the segment is not its own, the form is appended to buf, which is returned
// grown. A segment that is too long for a code becomes nil.
func AppendSegment(buf, sent []byte) (segment, grown []byte) {
	if waypost.PlainCode(sent) {
		return sent, buf
	}
	begin := len(buf)
	for i := 0; i < len(sent) && len(buf)-begin <= maxDecoded; i++ {
		c := sent[i]
		if c == '%' {
			if d, ok := unescape(sent[i:]); ok {
				c = d
				i += len("%00") - 1
			}
		}
		buf = append(buf, c)
	}
	if n := len(buf) - begin; n == 0 || n > maxDecoded {
		return nil, buf[:begin]
	}
	segment = normalise(buf[begin:])
	return segment, append(buf[:begin], segment...)
}

// unescape returns the byte for an escape at the beginning of b, if it has no meaning
// other than the byte itself: unreserved characters (RFC 3986, 2.3), and bytes of UTF-8.
func unescape(b []byte) (c byte, ok bool) {
	if len(b) < len("%00") || !isHex(b[1]) || !isHex(b[2]) {
		return 0, false
	}
	c = unhex(b[1])<<4 | unhex(b[2])
	return c, c >= utf8.RuneSelf || c == '.' || c == '~' || waypost.PlainCode([]byte{c})
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
