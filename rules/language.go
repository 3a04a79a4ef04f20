package rules

import "bytes"

// Language is a language, as of RFC 5646, without its script and variants. The zero
// Language is no language. Languages are comparable.
type Language struct {
	Primary [3]byte // in lower case; the third may be 0
	Region  [3]byte // in upper case, or three digits; the third may be 0; all 0: any
}

// ParseLanguage reads a tag such as de, de-CH or es-419, in any case. It refuses tags
// with a script or a variant, which Language cannot hold.
func ParseLanguage(s string) (Language, bool) {
	if len(s) > len("deu-419") {
		return Language{}, false
	}
	var tag [len("deu-419")]byte
	var l Language
	if !l.parse(tag[:copy(tag[:], s)]) {
		return Language{}, false
	}
	return l, true
}

// String returns the language's tag.
func (l Language) String() string {
	if l.Region[0] == 0 {
		return text(l.Primary)
	}
	return text(l.Primary) + "-" + text(l.Region)
}

func text(subtag [3]byte) string { return string(bytes.TrimRight(subtag[:], "\x00")) }

// parse reads a tag, and reports whether the language holds all of it. The zero Language
// means that it is no tag. It skips a script between language and region.
func (l *Language) parse(tag []byte) (whole bool) {
	*l = Language{}
	n := subtagLen(tag)
	if n != 2 && n != 3 || !onlyLetters(tag[:n]) {
		return false
	}
	for i, c := range tag[:n] {
		l.Primary[i] = c | 0x20
	}
	if n == len(tag) {
		return true
	}
	tag = tag[n+1:]
	n = subtagLen(tag)
	script := n == 4 && n < len(tag) && onlyLetters(tag[:n])
	if script {
		tag = tag[n+1:]
		n = subtagLen(tag)
	}
	switch {
	case n == 2 && onlyLetters(tag[:n]):
		l.Region[0], l.Region[1] = tag[0]&^0x20, tag[1]&^0x20
	case n == 3 && onlyDigits(tag[:n]):
		l.Region = [3]byte(tag[:n])
	default:
		return false
	}
	return !script && n == len(tag)
}

// subtagLen returns the length of the text before the next hyphen. Some programs write an
// underscore instead.
func subtagLen(tag []byte) int {
	for i, c := range tag {
		if c == '-' || c == '_' {
			return i
		}
	}
	return len(tag)
}

func onlyLetters(s []byte) bool {
	for i := range s {
		if !letterAt(s, i) {
			return false
		}
	}
	return true
}

func onlyDigits(s []byte) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// maxLanguages bounds the languages of a visitor.
const maxLanguages = 8

// maxLanguageHeader bounds the part of a header that Parse reads, in bytes. Browsers send
// less than 200.
const maxLanguageHeader = 512

// Languages holds the languages that a visitor prefers, in the order of the header. The
// zero value holds none.
type Languages struct {
	list [maxLanguages]Language
	n    uint8
}

// Parse replaces the languages with the languages of an Accept-Language header (RFC 9110,
// section 12.5.4) that have a weight of 0.9 or more. A language without a weight has 1.
// The wildcard, and anything that is no language, is skipped. Parse does not allocate.
func (l *Languages) Parse(header []byte) {
	l.n = 0
	if len(header) > maxLanguageHeader {
		header = header[:maxLanguageHeader]
		header = header[:max(bytes.LastIndexByte(header, ','), 0)]
	}
	for i := 0; i < len(header) && l.n < maxLanguages; i++ {
		start := i
		for i < len(header) && header[i] != ',' && header[i] != ';' {
			i++
		}
		tag := header[start:i]
		start = i
		for i < len(header) && header[i] != ',' {
			i++
		}
		if !weighsEnough(header[start:i]) {
			continue
		}
		next := &l.list[l.n]
		if next.parse(trimSpaces(tag)); next.Primary[0] != 0 {
			l.n++
		}
	}
}

// weighsEnough reports whether the parameters of a language, with the semicolon before
// them, are a weight of at least 0.9 or nothing.
func weighsEnough(params []byte) bool {
	if len(params) == 0 {
		return true
	}
	weight := trimSpaces(params[len(";"):])
	if len(weight) < len("q=1") || weight[0]|0x20 != 'q' || weight[1] != '=' {
		return false
	}
	whole, part := weight[2], weight[3:]
	if len(part) > 0 && (part[0] != '.' || !onlyDigits(part[1:])) {
		return false
	}
	return whole == '1' || whole == '0' && len(part) > 1 && part[1] == '9'
}

func trimSpaces(s []byte) []byte {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// All returns the languages. They are good until the next call of Parse.
func (l *Languages) All() []Language { return l.list[:l.n] }

// Match reports whether the visitor prefers a language. One without a region matches that
// language of every region.
func (l *Languages) Match(want Language) bool {
	for _, has := range l.list[:l.n] {
		if has.Primary == want.Primary && (want.Region[0] == 0 || has.Region == want.Region) {
			return true
		}
	}
	return false
}
