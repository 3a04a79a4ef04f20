package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
)

// mark is a text that bots have, and what must be around it: see header.
type mark struct {
	text          string // in lower case
	start, begins bool
	ends, digit   bool
	after         string // texts that are not before it, each behind a ~
}

func (m mark) String() string {
	s := m.text
	switch {
	case m.start:
		s = "^" + s
	case m.begins:
		s = "<" + s
	}
	switch {
	case m.ends:
		s += ">"
	case m.digit:
		s += "#"
	}
	return s + m.after
}

// parse reads what String writes.
func parse(s string) (m mark) {
	m.text = s
	if i := strings.IndexByte(s, '~'); i > 0 {
		m.text, m.after = s[:i], s[i:]
	}
	for _, sign := range []struct {
		flag *bool
		cut  func(s, sign string) (string, bool)
		sign string
	}{
		{&m.start, strings.CutPrefix, "^"}, {&m.begins, strings.CutPrefix, "<"},
		{&m.ends, strings.CutSuffix, ">"}, {&m.digit, strings.CutSuffix, "#"},
	} {
		m.text, *sign.flag = sign.cut(m.text, sign.sign)
	}
	return m
}

// in reports whether an agent has the mark.
func (m mark) in(agent string) bool {
	agent = strings.ToLower(agent)
	for from := 0; ; from++ {
		i := strings.Index(agent[from:], m.text)
		if i < 0 {
			return false
		}
		from += i
		to := from + len(m.text)
		next := byte(' ')
		if to < len(agent) {
			next = agent[to]
		}
		switch {
		case m.start && from > 0,
			m.begins && from > 0 && isWord(agent[from-1]),
			m.ends && isWord(next),
			m.digit && !isDigit(next),
			m.isAfter(agent[:from]):
			continue
		}
		return true
	}
}

// isAfter reports whether one of the texts that must not be before the mark is there.
func (m mark) isAfter(before string) bool {
	return m.after != "" && slices.ContainsFunc(strings.Split(m.after[1:], "~"), func(s string) bool { return strings.HasSuffix(before, s) })
}

// mayBeAfter is isAfter for a text before which there may be more, unless an agent begins
// with it.
func (m mark) mayBeAfter(before string, start bool) bool {
	return slices.ContainsFunc(strings.Split(m.after[1:], "~"), func(s string) bool {
		if len(s) <= len(before) || start {
			return strings.HasSuffix(before, s)
		}
		return strings.HasSuffix(s, before)
	})
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isWord(c byte) bool   { return isLetter(c) || isDigit(c) }

// longest bounds the text of a mark, in bytes, as package agents does.
const longest = 40

// most bounds how many marks stand for a pattern.
const most = 64

var errNoText = errors.New("it stands for too many texts")

// marksOf returns the marks that stand for a pattern.
func marksOf(p string) ([]mark, error) {
	var after string
	if rest, ok := strings.CutPrefix(p, "(?<!"); ok { // which Go does not know
		var found bool
		if after, p, found = strings.Cut(rest, ")"); !found || strings.ContainsAny(after, `|\[(.`) {
			return nil, fmt.Errorf("it begins with the assertion %q", after)
		}
	}
	tree, err := syntax.Parse(p, syntax.Perl&^syntax.OneLine)
	if err != nil {
		return nil, err
	}
	found, err := expand(tree)
	if err != nil {
		return nil, err
	}
	for i := range found {
		m := &found[i]
		if after != "" {
			m.after = "~" + after
		}
		if len(m.text) < 3 && !m.start || len(m.text) > longest {
			return nil, errors.New("it stands for a text that is too short or too long")
		}
	}
	return found, nil
}

// expand returns the texts of a tree.
func expand(t *syntax.Regexp) ([]mark, error) {
	switch t.Op {
	case syntax.OpEmptyMatch:
		return []mark{{}}, nil
	case syntax.OpBeginText, syntax.OpBeginLine:
		return []mark{{start: true}}, nil
	case syntax.OpEndText, syntax.OpEndLine, syntax.OpWordBoundary:
		return []mark{{ends: true}}, nil // or begins, if there is nothing before it
	case syntax.OpLiteral:
		return []mark{{text: strings.ToLower(string(t.Rune))}}, nil
	case syntax.OpCharClass:
		return expandClass(t.Rune)
	case syntax.OpCapture:
		return expand(t.Sub[0])
	case syntax.OpQuest:
		some, err := expand(t.Sub[0])
		return append([]mark{{}}, some...), err
	case syntax.OpPlus: // at least once
		return expand(t.Sub[0])
	case syntax.OpAlternate:
		var all []mark
		for _, sub := range t.Sub {
			some, err := expand(sub)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	case syntax.OpConcat:
		all := []mark{{}}
		for _, sub := range t.Sub {
			some, err := expand(sub)
			if err != nil {
				return nil, err
			}
			if all, err = join(all, some); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return nil, errNoText
}

// expandClass returns a mark for each byte of a small class, in lower case.
func expandClass(ranges []rune) ([]mark, error) {
	if slices.Equal(ranges, []rune("09")) {
		return []mark{{digit: true}}, nil
	}
	var all []mark
	for i := 0; i < len(ranges); i += 2 {
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			if len(all) > 8 {
				return nil, errNoText
			}
			switch r {
			case '\t', '\n', '\f', '\r': // of white space only the space occurs in a header
			default:
				all = append(all, mark{text: strings.ToLower(string(r))})
			}
		}
	}
	slices.SortFunc(all, func(a, b mark) int { return cmp.Compare(a.text, b.text) })
	return slices.Compact(all), nil
}

// join returns each of first with each of then behind it.
func join(first, then []mark) (all []mark, err error) {
	for _, a := range first {
		for _, b := range then {
			m := a
			switch {
			case b.text == "" && b.ends && a.text == "" && !a.start:
				m.begins = true
			case a.ends || a.digit || b.start && a.text != "":
				return nil, errNoText
			default:
				m.text += b.text
				m.start, m.ends, m.digit = m.start || b.start, b.ends, b.digit
			}
			if all = append(all, m); len(all) > most {
				return nil, errNoText
			}
		}
	}
	return all, nil
}

// narrow lets marks begin and end with words, where they do in all agents that they are
// meant for, so that a name is not found in another word.
func narrow(marks []mark, instances []string) {
	for i := range marks {
		m := &marks[i]
		var of []string
		for _, agent := range instances {
			if m.in(agent) {
				of = append(of, agent)
			}
		}
		all := func(n mark) bool {
			return !slices.ContainsFunc(of, func(agent string) bool { return !n.in(agent) })
		}
		if len(of) == 0 {
			continue
		}
		if n := *m; !m.start && isWord(m.text[0]) {
			n.begins = true
			if all(n) {
				*m = n
			}
		}
		if n := *m; !m.ends && !m.digit && isWord(m.text[len(m.text)-1]) {
			n.ends = true
			if all(n) {
				*m = n
			}
		}
	}
}

// needed leaves out marks where each agent has another one as well.
func needed(marks []mark) (all []mark) {
	slices.SortFunc(marks, func(a, b mark) int {
		return cmp.Or(cmp.Compare(len(a.text), len(b.text)), cmp.Compare(a.String(), b.String()))
	})
	marks = slices.Compact(marks)
	for i, m := range marks {
		if !slices.ContainsFunc(marks, func(n mark) bool { return n != m && n.covers(&m) }) &&
			!slices.ContainsFunc(all, func(n mark) bool { return n == marks[i] }) {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b mark) int { return cmp.Or(cmp.Compare(a.text, b.text), cmp.Compare(a.String(), b.String())) })
	return all
}

// covers reports whether each agent with the mark m has n as well.
func (n mark) covers(m *mark) bool {
	for from := 0; ; from++ {
		i := strings.Index(m.text[min(from, len(m.text)):], n.text)
		if i < 0 {
			return false
		}
		from += i
		to := from + len(n.text)
		before := from > 0 && !isWord(m.text[from-1]) || from == 0 && (m.start || m.begins)
		behind := to < len(m.text) && !isWord(m.text[to]) || to == len(m.text) && m.ends
		switch {
		case n.start && (from > 0 || !m.start),
			n.begins && !before,
			n.ends && !behind,
			n.digit && (to == len(m.text) && !m.digit || to < len(m.text) && !isDigit(m.text[to])),
			n.after != "" && n.after != m.after && n.mayBeAfter(m.text[:from], m.start):
			continue
		}
		return true
	}
}
