// Package patterns finds the pattern that leads a visitor on among the patterns of a
// domain. Edges and the control plane share it, so that they cannot disagree. It knows
// codes alone, and neither links nor targets.
//
// Of the patterns that fit a path, the best is found: compared segment by segment from
// the left, a literal comes before a placeholder, a placeholder before a star, and a
// longer pattern before a shorter one.
package patterns

import (
	"bytes"
	"strings"

	"waypost"
)

// MaxVisits bounds the nodes of an index that a look-up visits, so that no request takes
// long, whatever patterns a domain has.
const MaxVisits = 64

// Index holds the patterns of a domain. It never changes once it is made, and may be used
// by many goroutines at once. A nil Index holds no patterns.
type Index struct {
	root  node
	count int
}

// node is a place in a tree of segments.
type node struct {
	children    map[string]*node // children with a literal segment
	placeholder *node            // nil: none
	ends        *pattern         // the pattern that ends here; nil: none
	rest        *pattern         // the pattern that ends here with a star; nil: none
	literal     string           // the segment that leads here; "" for a placeholder

	visits  int // an upper bound of the nodes that a look-up visits from here on
	dearest int // the most visits of a child with a literal segment
}

// pattern is a code taken apart.
type pattern struct {
	code     []byte
	names    [][]byte // of its placeholders in order, and of the star
	literals int      // segments before the first placeholder or star
	segments int      // without a star
}

// New returns the index of patterns, and nil for none. A code that is no pattern is left
// out, and so is the second pattern of one shape.
func New(codes []string) *Index {
	x := new(Index)
	for _, code := range codes {
		x.Add(code)
	}
	if x.count == 0 {
		return nil
	}
	return x
}

// Add adds a pattern to an index that no other goroutine uses yet. It returns false if
// the code is no pattern, or a pattern of its shape is there.
func (x *Index) Add(code string) bool {
	if waypost.CheckPattern(code).Reason != "" {
		return false
	}
	p := &pattern{code: []byte(code)}
	at, star := &x.root, false
	path := []*node{at}
	for segment := range strings.SplitSeq(code, "/") {
		switch {
		case segment == "*":
			star = true
			p.names = append(p.names, []byte(waypost.RestName))
		case segment[0] == '{':
			p.names = append(p.names, []byte(segment[1:len(segment)-1]))
			p.segments++
			if at.placeholder == nil {
				at.placeholder = new(node)
			}
			at = at.placeholder
			path = append(path, at)
		default:
			if p.segments++; len(p.names) == 0 {
				p.literals++
			}
			at = at.childOf(segment)
			path = append(path, at)
		}
	}
	end := &at.ends
	if star {
		end = &at.rest
	}
	if *end != nil {
		return false
	}
	*end = p
	x.count++
	for i := len(path) - 1; i >= 0; i-- {
		n := path[i]
		n.visits = 1 + n.dearest
		if n.placeholder != nil {
			n.visits += n.placeholder.visits
		}
		if i > 0 && n.literal != "" {
			path[i-1].dearest = max(path[i-1].dearest, n.visits)
		}
	}
	return true
}

// childOf returns the child with a literal segment, which it makes if need be.
func (n *node) childOf(segment string) *node {
	if child := n.find([]byte(segment)); child != nil {
		return child
	}
	if n.children == nil {
		n.children = make(map[string]*node)
	}
	child := &node{literal: strings.Clone(segment)}
	n.children[child.literal] = child
	return child
}

// find returns the child with a literal segment, nil if there is none.
func (n *node) find(segment []byte) *node { return n.children[string(segment)] }

// Len returns the number of patterns.
func (x *Index) Len() int {
	if x == nil {
		return 0
	}
	return x.count
}

// VisitsWith returns an upper bound of the nodes that a look-up would visit if the index
// had one more pattern.
func (x *Index) VisitsWith(code string) int { return x.root.visitsWith(strings.Split(code, "/")) }

func (n *node) visitsWith(segments []string) int {
	if n == nil {
		n = new(node)
	}
	dearest, placeholder := n.dearest, 0
	if n.placeholder != nil {
		placeholder = n.placeholder.visits
	}
	switch {
	case len(segments) == 0 || segments[0] == "*":
	case segments[0][0] == '{':
		placeholder = n.placeholder.visitsWith(segments[1:])
	default:
		dearest = max(dearest, n.find([]byte(segments[0])).visitsWith(segments[1:]))
	}
	return 1 + dearest + placeholder
}

// Shape returns a pattern without the names of its placeholders. Two patterns of one
// shape fit the same paths.
func Shape(code string) string {
	var b strings.Builder
	for i, segment := range strings.Split(code, "/") {
		if i > 0 {
			b.WriteByte('/')
		}
		if strings.HasPrefix(segment, "{") {
			segment = "{}"
		}
		b.WriteString(segment)
	}
	return b.String()
}

// Names returns the names of the placeholders of a pattern in order, and of its star.
func Names(code string) (names []string) {
	for segment := range strings.SplitSeq(code, "/") {
		if segment == "*" {
			names = append(names, waypost.RestName)
		} else if strings.HasPrefix(segment, "{") {
			names = append(names, strings.Trim(segment, "{}"))
		}
	}
	return names
}

// Prefix returns the literal segments at the beginning of a pattern, which are the
// beginning of each of its addresses. A code without placeholders is its own prefix.
func Prefix(code []byte) []byte {
	if i := bytes.IndexAny(code, "{*"); i >= 0 {
		return bytes.TrimSuffix(code[:i], []byte("/"))
	}
	return code
}

// AppendAddress appends the path of a visit in the form that begins with the prefix of
// its pattern, percent-encoded, without its first slash.
func AppendAddress(dst []byte, v *waypost.Visit) []byte {
	held := 0
	for segment := range bytes.SplitSeq(v.Code, []byte("/")) {
		if segment[0] == '{' || segment[0] == '*' {
			segment = v.Held[held].Value
			held++
		}
		dst = append(waypost.AppendEncoded(dst, segment), '/')
	}
	return dst[:len(dst)-1]
}
