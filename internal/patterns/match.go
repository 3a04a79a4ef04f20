package patterns

import (
	"bytes"

	"waypost"
)

// Match is the result of a look-up, and its memory. It does not allocate once it has its
// buffer. The zero Match is ready. A visit refers to the Match until the next look-up.
type Match struct {
	path     []byte
	found    *pattern
	segments []segment // of the path, as many as a pattern can have before its star
	whole    bool      // segments are all of the path
	visits   int       // so far
	held     [waypost.MaxPlaceholders + 1]waypost.Held
	buf      []byte // of the segments' decoded forms

	array [waypost.MaxCodeSegments]segment
}

// Reader returns the normal form of a segment of a path, which literal segments are
// compared with, and nil for a segment that can be in no code. It appends the form to buf
// if need be, and returns buf grown.
type Reader func(buf, sent []byte) (segment, grown []byte)

// segment is a segment of a path.
type segment struct {
	begin, end int    // in the path
	decoded    []byte // nil: no literal segment can be equal to it
}

// Find finds the best pattern that fits the path of a visit, which is as it was sent. It
// reports whether there is one.
//
// A plus sign at the end asks for the preview, unless a star holds it.
func (m *Match) Find(x *Index, v *waypost.Visit, read Reader) bool {
	m.found, m.visits = nil, 0
	if x == nil {
		return false
	}
	m.path = bytes.TrimSuffix(v.Path, []byte("+"))
	m.split(read)
	return m.search(&x.root, 0, 0)
}

// split divides the path into segments.
func (m *Match) split(read Reader) {
	if m.buf == nil {
		m.buf = make([]byte, 0, 256)
	}
	m.segments, m.buf, m.whole = m.array[:0], m.buf[:0], false
	if len(m.path) == 0 {
		m.whole = true // it has no segments
		return
	}
	for begin := 0; len(m.segments) < cap(m.segments); {
		end := len(m.path)
		if i := bytes.IndexByte(m.path[begin:], '/'); i >= 0 {
			end = begin + i
		}
		s := segment{begin: begin, end: end}
		s.decoded, m.buf = read(m.buf, m.path[begin:end])
		m.segments = append(m.segments, s)
		if end == len(m.path) {
			m.whole = true
			return
		}
		begin = end + 1
	}
}

// search looks for the best pattern at a node and below it, for the path from a segment
// on, with the number of segments that placeholders hold before it.
func (m *Match) search(n *node, at, holds int) bool {
	if m.visits == MaxVisits {
		return false
	}
	m.visits++
	if at < len(m.segments) {
		s := &m.segments[at]
		if s.decoded != nil {
			if child := n.find(s.decoded); child != nil && m.search(child, at+1, holds) {
				return true
			}
		}
		if n.placeholder != nil && s.end > s.begin {
			m.held[holds].Value = m.path[s.begin:s.end]
			if m.search(n.placeholder, at+1, holds+1) {
				return true
			}
		}
	} else if n.ends != nil && m.whole {
		m.found = n.ends
		return true
	}
	if n.rest == nil {
		return false
	}
	m.found = n.rest
	m.held[holds].Value = m.path[len(m.path):]
	if at < len(m.segments) {
		m.held[holds].Value = m.path[m.segments[at].begin:]
	}
	return true
}

// Precedes reports whether the pattern that was found is to be followed rather than a
// link that forwards the path below its code, which has a number of segments. Such a link
// ranks as its code with a star behind it, and before a pattern of that shape.
func (m *Match) Precedes(segments int) bool {
	return m.found != nil && m.found.literals >= segments && m.found.segments > segments
}

// Lead moves a visit to the pattern that was found.
func (m *Match) Lead(v *waypost.Visit) {
	v.Code, v.Rest = m.found.code, nil
	v.Preview = len(m.path) < len(v.Path)
	v.Held = m.held[:len(m.found.names)]
	for i, name := range m.found.names {
		v.Held[i].Name = name
	}
	if last := &v.Held[len(v.Held)-1]; v.Preview && string(last.Name) == waypost.RestName && len(last.Value) > 0 {
		last.Value, v.Preview = last.Value[:len(last.Value)+1], false
	}
}
