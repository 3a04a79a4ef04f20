package rules

import (
	"bytes"

	"golang.org/x/text/language"
)

// Language is a language, as of RFC 5646, without its variants. [ParseLanguage] reads all
// codes of a language as one of them, and [Languages.Parse] the codes that programs send.
// The zero Language is no language. Languages are comparable.
type Language struct {
	Primary [3]byte // in lower case; the third may be 0
	Script  [4]byte // such as Hant; all 0: any
	Region  [3]byte // in upper case, or three digits; the third may be 0; all 0: any
}

// maxTag is the length of the longest tag that a Language holds.
const maxTag = len("zh-cmn-Hant-419")

// ParseLanguage reads a tag such as de, de-CH, zh-Hant or es-419, in any case. It refuses
// tags with a variant, which Language cannot hold.
func ParseLanguage(s string) (Language, bool) {
	if len(s) > maxTag {
		return Language{}, false
	}
	var tag [maxTag]byte
	var l Language
	if !l.parse(tag[:copy(tag[:], s)]) {
		return Language{}, false
	}
	if known, err := language.Raw.Parse(text(l.Primary[:])); err == nil {
		known, _ = language.DeprecatedBase.Canonicalize(known)
		if base, sure := known.Base(); sure == language.Exact {
			l.Primary = canonicalLanguage([]byte(base.String()))
		}
	}
	return l, true
}

// String returns the language's tag.
func (l Language) String() string {
	s := text(l.Primary[:])
	if l.Script[0] != 0 {
		s += "-" + string(l.Script[:])
	}
	if l.Region[0] != 0 {
		s += "-" + text(l.Region[:])
	}
	return s
}

func text(subtag []byte) string { return string(bytes.TrimRight(subtag, "\x00")) }

// parse reads a tag, and reports whether the language holds all of it. The zero Language
// means that it is no tag.
func (l *Language) parse(tag []byte) (whole bool) {
	*l = Language{}
	n := subtagLen(tag)
	if n != 2 && n != 3 || !onlyLetters(tag[:n]) {
		return false
	}
	l.Primary = canonicalLanguage(tag[:n])
	rest := after(tag, n)
	if n = subtagLen(rest); n == 3 && onlyLetters(rest[:n]) {
		if member := canonicalLanguage(rest[:n]); registry.kin[member] == l.Primary { // zh-yue is yue
			l.Primary = member
			rest = after(rest, n)
		}
	}
	if n = subtagLen(rest); n == 4 && onlyLetters(rest[:n]) {
		l.Script = [4]byte{rest[0] &^ 0x20, rest[1] | 0x20, rest[2] | 0x20, rest[3] | 0x20}
		rest = after(rest, n)
	}
	switch n = subtagLen(rest); {
	case n == 2 && onlyLetters(rest[:n]):
		l.Region = [3]byte{rest[0] &^ 0x20, rest[1] &^ 0x20}
		if now, ok := registry.regions[l.Region]; ok {
			l.Region = now
		}
		rest = after(rest, n)
	case n == 3 && onlyDigits(rest[:n]):
		l.Region = [3]byte(rest[:n])
		rest = after(rest, n)
	}
	return rest == nil
}

// canonicalLanguage returns the preferred code of a language of two or three letters, in
// any case, in place of one that programs send.
func canonicalLanguage(letters []byte) (code [3]byte) {
	for i, c := range letters {
		code[i] = c | 0x20
	}
	if preferred, ok := registry.preferred[code]; ok {
		return preferred
	}
	return code
}

// after returns what follows a subtag and its hyphen, nil at the end of the tag.
func after(tag []byte, subtag int) []byte {
	if subtag == len(tag) {
		return nil
	}
	return tag[subtag+1:]
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
	list [maxLanguages]preference
	n    uint8
}

// preference is a language of a visitor, and what follows from its tag.
type preference struct {
	Language // as the tag says

	// The macrolanguage of the language, such as no of nn. Of a macrolanguage it is the
	// language that is usually meant, such as nb of no. All 0: there is no such language.
	kin [3]byte

	script [4]byte // of the tag, or usual for the language in its region
	region [3]byte // of the tag, or where the language is usual in the script of the tag
}

// derive sets what follows from the tag.
func (p *preference) derive() {
	p.kin, p.script, p.region = registry.kin[p.Primary], p.Script, p.Region
	if p.script[0] == 0 {
		p.script = registry.scriptOf(p.Primary, p.kin, p.Region)
	} else if p.region[0] == 0 {
		p.region = registry.regionOf(p.Primary, p.kin, p.Script)
	}
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
			next.derive()
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

// All returns the languages.
func (l *Languages) All() []Language {
	all := make([]Language, l.n)
	for i := range all {
		all[i] = l.list[i].Language
	}
	return all
}

// Match reports whether the visitor prefers a language. One without a region matches that
// language of every region, and likewise without a script. A macrolanguage, such as
// Norwegian or Chinese, matches all its languages.
func (l *Languages) Match(want Language) bool {
	for i := range l.list[:l.n] {
		has := &l.list[i]
		if (has.Primary == want.Primary || has.kin == want.Primary) &&
			(want.Script[0] == 0 || has.script == want.Script) && (want.Region[0] == 0 || has.region == want.Region) {
			return true
		}
	}
	return false
}

var (
	german, _  = ParseLanguage("de")
	english, _ = ParseLanguage("en")
)

// PrefersGerman reports whether an Accept-Language header prefers German to English, for
// pages that are in these two languages.
func PrefersGerman(header []byte) bool {
	var l Languages
	l.Parse(header)
	return l.Match(german) && !l.Match(english)
}

func letterAt(text []byte, i int) bool {
	return i < len(text) && 'a' <= text[i]|0x20 && text[i]|0x20 <= 'z'
}
