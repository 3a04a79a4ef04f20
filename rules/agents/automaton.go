package agents

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"

	"waypost"
)

// automaton finds all marks in a text at once, after Aho and Corasick: a state stands for
// the longest end of the text so far that begins a mark. Upper and lower case are the
// same, and bytes that no mark has are one class.
type automaton struct {
	classes [256]uint8
	next    []uint16 // by state and class
	depth   []uint8  // of a state: how much of a mark it holds
	finds   []find   // of the states from firstFind
	checked []pattern

	firstFind uint16 // a power of two

	start   known
	middles [len(commons)]known
}

// rowBits is the logarithm of the classes of a state.
const rowBits = 6

// find holds what follows from the end of a text in some state.
type find struct {
	signs                 signs
	system, browser, name uint8  // the first entries with such marks; none: no entry
	from, to              uint16 // of the marks in checked, whose surroundings matter
}

const none = 255

// pattern is a mark with its meaning for an agent.
type pattern struct {
	mark mark
	find find
}

// merge adds what another mark says.
func (f *find) merge(o *find) {
	f.signs |= o.signs
	f.system, f.browser, f.name = min(f.system, o.system), min(f.browser, o.browser), min(f.name, o.name)
}

// node is a state while the automaton is built.
type node struct {
	next  map[uint8]*node
	fail  *node
	depth uint8
	marks []pattern // that end here
	id    uint16
}

// build makes an automaton. It fails for marks with more different bytes, or more
// beginnings, than it has room for.
func build(all []pattern) (*automaton, error) {
	a := new(automaton)
	classes := uint8(1) // 0: all bytes that no mark has
	root := &node{next: map[uint8]*node{}}
	made := []*node{root}
	for _, s := range all {
		at := root
		for i := range len(s.mark.text) {
			c := s.mark.text[i]
			if a.classes[c] == 0 {
				if classes == 1<<rowBits {
					return nil, fmt.Errorf("there is no room for the byte %q of %q", c, s.mark.text)
				}
				a.classes[c] = classes
				if 'a' <= c && c <= 'z' {
					a.classes[c-'a'+'A'] = classes
				}
				classes++
			}
			to := at.next[a.classes[c]]
			if to == nil {
				to = &node{next: map[uint8]*node{}, depth: at.depth + 1}
				at.next[a.classes[c]] = to
				if made = append(made, to); len(made) > 1<<14 {
					return nil, errors.New("there is no room for all texts")
				}
			}
			at = to
		}
		at.marks = append(at.marks, s)
	}
	// In the order of depth, each state fails to the longest end of it that is a state.
	order := []*node{root}
	for i := 0; i < len(order); i++ {
		n := order[i]
		for c := range classes {
			to := n.next[c]
			if to == nil {
				continue
			}
			to.fail = root
			for f := n.fail; f != nil; f = f.fail {
				if found := f.next[c]; found != nil {
					to.fail = found
					break
				}
			}
			to.marks = append(to.marks[:len(to.marks):len(to.marks)], to.fail.marks...)
			order = append(order, to)
		}
	}
	// States that find something come last, and have a bit that the others have not. The
	// states of a mark are neighbours, so that a reader needs fewer lines of the cache.
	sorted := make([]*node, 0, len(order))
	for _, finds := range []bool{false, true} {
		if finds {
			a.firstFind = 1 << bits.Len(uint(len(sorted)))
			sorted = append(sorted, make([]*node, int(a.firstFind)-len(sorted))...)
		}
		for _, n := range made {
			if len(n.marks) > 0 == finds {
				n.id = uint16(len(sorted))
				sorted = append(sorted, n)
			}
		}
	}
	a.next = make([]uint16, len(sorted)<<rowBits)
	a.depth = make([]uint8, len(sorted))
	a.finds = make([]find, len(sorted)-int(a.firstFind))
	for _, n := range order { // the state that it fails to is complete already
		row := a.next[int(n.id)<<rowBits:][:1<<rowBits]
		if n.fail != nil {
			copy(row, a.next[int(n.fail.id)<<rowBits:])
		}
		for c, to := range n.next {
			row[c] = to.id
		}
		a.depth[n.id] = n.depth
		if len(n.marks) > 0 {
			a.finds[n.id-a.firstFind] = a.findOf(n.marks)
		}
	}
	a.start = a.read(commonStart)
	for i, text := range commons {
		a.middles[i] = a.read(text)
	}
	return a, nil
}

// findOf returns what the marks that end in a state say.
func (a *automaton) findOf(marks []pattern) find {
	f := nothing
	f.from = uint16(len(a.checked))
	for i := range marks {
		if marks[i].mark.bare() {
			f.merge(&marks[i].find)
		} else {
			a.checked = append(a.checked, marks[i])
		}
	}
	f.to = uint16(len(a.checked))
	return f
}

var nothing = find{system: none, browser: none, name: none}

// Texts in the agents of most browsers, which scan need not read: the beginning, and one
// in the middle, at the first closing parenthesis.
var (
	commonStart = []byte("Mozilla/5.0 (")
	commons     = [...][]byte{
		[]byte(") AppleWebKit/537.36 (KHTML, like Gecko) "), []byte(") AppleWebKit/605.1.15 (KHTML, like Gecko) "),
	}
)

// known is the state behind a common text, and what the marks in it say.
type known struct {
	state uint16
	find  find
}

// read reads a common text.
func (a *automaton) read(text []byte) (k known) {
	k.find = nothing
	for i := range len(text) {
		k.state = a.next[int(k.state)<<rowBits|int(a.classes[text[i]])]
		if k.state >= a.firstFind {
			a.found(&k.find, k.state, text, i+1)
		}
	}
	return k
}

// overlap is the number of bytes by which the last part of a text is longer.
const overlap = 4

// scan returns what all marks in a text say. Once a mark says one of enough, others may
// be missing. It passes over common texts, and reads four parts of the rest side by side,
// because a processor waits longer for the next state than it computes. All parts are
// read as far as the last one is long, so that most marks that lie across the end of a
// part are found on the way. The common text in the middle is longer than a mark, so that
// the state behind it depends on it alone.
func (a *automaton) scan(text []byte, enough signs) find {
	text = text[:min(len(text), waypost.MaxAgent)]
	all := nothing
	from, to, behind := 0, len(text), len(text) // the common text in the middle is text[to:behind]
	middle := -1
	var states [4]uint16
	if bytes.HasPrefix(text, commonStart) {
		from, states[0] = len(commonStart), a.start.state
		all.merge(&a.start.find)
		if at := bytes.IndexByte(text[from:], commons[0][0]); at >= 0 {
			for i := range commons {
				if bytes.HasPrefix(text[from+at:], commons[i]) {
					middle, to = i, from+at
					behind = to + len(commons[i])
					all.merge(&a.middles[i].find)
					break
				}
			}
		}
	}
	// Parts begin at starts, and end at the next start, at text[to] or at the end.
	starts, first := [4]int{from}, 4 // first: the part that begins behind the common text
	switch left, right := to-from, max(len(text)-behind-overlap, 0); {
	case middle < 0:
		q := max(left-overlap, 0) / 4
		starts[1], starts[2], starts[3] = from+q, from+2*q, from+3*q
	case 2*left < right:
		first = 1
		starts[1], starts[2], starts[3] = behind, behind+right/3, behind+2*(right/3)
	case 2*right < left:
		first = 3
		starts[1], starts[2], starts[3] = from+left/3, from+2*left/3, behind
	default:
		first = 2
		starts[1], starts[2], starts[3] = from+left/2, behind, behind+right/2
	}
	ends := [4]int{starts[1], starts[2], starts[3], len(text)}
	if middle >= 0 {
		states[first], ends[first-1] = a.middles[middle].state, to
	}
	n := len(text) - starts[3]
	s0, s1, s2, s3 := states[0], states[1], states[2], states[3]
	t0, t1, t2, t3 := text[starts[0]:][:n], text[starts[1]:][:n], text[starts[2]:][:n], text[starts[3]:][:n]
	next, classes, firstFind := a.next, &a.classes, a.firstFind
	for i := range t0 {
		s0 = next[int(s0)<<rowBits|int(classes[t0[i]])]
		s1 = next[int(s1)<<rowBits|int(classes[t1[i]])]
		s2 = next[int(s2)<<rowBits|int(classes[t2[i]])]
		s3 = next[int(s3)<<rowBits|int(classes[t3[i]])]
		if (s0|s1|s2|s3)&firstFind == 0 {
			continue
		}
		if s0 >= firstFind {
			a.found(&all, s0, text, starts[0]+i+1)
		}
		if s1 >= firstFind {
			a.found(&all, s1, text, starts[1]+i+1)
		}
		if s2 >= firstFind {
			a.found(&all, s2, text, starts[2]+i+1)
		}
		if s3 >= firstFind {
			a.found(&all, s3, text, starts[3]+i+1)
		}
		if all.signs&enough != 0 {
			return all
		}
	}
	a.finish(&all, s0, text, starts[0]+n, ends[0])
	a.finish(&all, s1, text, starts[1]+n, ends[1])
	a.finish(&all, s2, text, starts[2]+n, ends[2])
	a.finish(&all, s3, text, starts[3]+n, ends[3])
	return all
}

// finish reads on from the state at the end of text[:from], until all marks that begin
// before text[end] have ended.
func (a *automaton) finish(all *find, s uint16, text []byte, from, end int) {
	for i := from; i-int(a.depth[s]) < end && i < len(text); i++ {
		s = a.next[int(s)<<rowBits|int(a.classes[text[i]])]
		if s >= a.firstFind {
			a.found(all, s, text, i+1)
		}
	}
}

// found adds what a state at the end of text[:to] says.
func (a *automaton) found(all *find, state uint16, text []byte, to int) {
	f := &a.finds[state-a.firstFind]
	all.merge(f)
	for i := f.from; i < f.to; i++ {
		c := &a.checked[i]
		if c.mark.holds(text, to-len(c.mark.text), to) {
			all.merge(&c.find)
		}
	}
}
