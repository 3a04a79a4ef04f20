package agents

import (
	"bufio"
	_ "embed"
	"fmt"
	"strings"
)

//go:embed names.txt
var namesText string

//go:embed bots.txt
var botsText string

// mark is a text that is looked for in user agents, and what must be around it.
type mark struct {
	text   string   // in lower case
	start  bool     // the agent begins with it
	begins bool     // no letter or digit is before it
	ends   bool     // no letter or digit is behind it
	host   bool     // a letter, perhaps more letters, digits and hyphens, and a dot are behind it
	digit  bool     // a digit is behind it
	after  []string // none of them is before it
}

// parseMark reads a mark as bots.txt describes it.
func parseMark(s string) (m mark, err error) {
	m.text = s
	if i := strings.IndexByte(s, '~'); i > 0 {
		m.text, m.after = s[:i], strings.Split(s[i+1:], "~")
	}
	if rest, ok := strings.CutPrefix(m.text, "^"); ok {
		m.text, m.start = rest, true
	} else if rest, ok := strings.CutPrefix(m.text, "<"); ok {
		m.text, m.begins = rest, true
	}
	for suffix, flag := range map[string]*bool{">": &m.ends, "&": &m.host, "#": &m.digit} {
		if rest, ok := strings.CutSuffix(m.text, suffix); ok {
			m.text, *flag = rest, true
			break
		}
	}
	if len(m.text) == 0 || len(m.text) > maxMark || strings.ToLower(m.text) != m.text {
		return m, fmt.Errorf("the mark %q has no text, more than %d bytes or upper case", s, maxMark)
	}
	return m, nil
}

// maxMark bounds the text of a mark, in bytes.
const maxMark = 40

// bare reports whether a mark counts wherever its text is.
func (m *mark) bare() bool {
	return !m.start && !m.begins && !m.ends && !m.host && !m.digit && len(m.after) == 0
}

// holds reports whether the surroundings of text[from:to], which is the mark's text, are
// as it wants.
func (m *mark) holds(text []byte, from, to int) bool {
	switch {
	case m.start && from > 0,
		m.begins && from > 0 && kinds[text[from-1]] != 0,
		m.ends && to < len(text) && kinds[text[to]] != 0,
		m.host && !beginsAsHost(text[to:]),
		m.digit && (to >= len(text) || kinds[text[to]] != digit):
		return false
	}
	for _, other := range m.after {
		if hasSuffix(text[:from], other) {
			return false
		}
	}
	return true
}

// beginsAsHost reports whether a text begins with a letter, perhaps more letters, digits
// and hyphens, and a dot.
func beginsAsHost(text []byte) bool {
	for i, c := range text {
		switch {
		case kinds[c] == letter, i > 0 && (kinds[c] == digit || c == '-'):
		default:
			return i > 0 && c == '.'
		}
	}
	return false
}

// hasSuffix reports whether a text ends with one in lower case.
func hasSuffix(text []byte, suffix string) bool {
	n := len(text) - len(suffix)
	if n < 0 {
		return false
	}
	for i := range len(suffix) {
		if lower[text[n+i]] != suffix[i] {
			return false
		}
	}
	return true
}

const (
	letter = 1 + iota
	digit
)

// kinds holds letters and digits.
var kinds = func() (t [256]byte) {
	for c := byte('a'); c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = letter, letter
	}
	for c := byte('0'); c <= '9'; c++ {
		t[c] = digit
	}
	return t
}()

// lower holds each byte in lower case.
var lower = func() (t [256]byte) {
	for c := range t {
		t[c] = byte(c)
		if 'A' <= c && c <= 'Z' {
			t[c] += 'a' - 'A'
		}
	}
	return t
}()

// entry is a line of names.txt.
type entry struct {
	kind, name string
	properties Set
	marks      []mark
}

// readNames reads names.txt.
func readNames() (all []entry, err error) {
	for lines := bufio.NewScanner(strings.NewReader(namesText)); lines.Scan(); {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			return nil, fmt.Errorf("the line %q has %d fields", line, len(f))
		}
		e := entry{kind: f[0], name: f[1]}
		for _, name := range strings.Fields(f[2]) {
			one, ok := Named(name)
			if !ok {
				return nil, fmt.Errorf("the line %q has no property %s", line, name)
			}
			e.properties |= one
		}
		for _, s := range strings.Split(f[3], "|") {
			m, err := parseMark(s)
			if err != nil {
				return nil, err
			}
			e.marks = append(e.marks, m)
		}
		all = append(all, e)
	}
	return all, nil
}

// readBots reads bots.txt.
func readBots() (all []mark, err error) {
	for lines := bufio.NewScanner(strings.NewReader(botsText)); lines.Scan(); {
		if line := lines.Text(); line != "" && line[0] != '#' {
			m, err := parseMark(line)
			if err != nil {
				return nil, err
			}
			all = append(all, m)
		}
	}
	return all, nil
}
