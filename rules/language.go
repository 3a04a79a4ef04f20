package rules

import "bytes"

// Language is a language, as of RFC 5646, without its script and variants. The zero
// Language is none. Languages are comparable.
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
	l, whole := parseTag(tag[:copy(tag[:], s)])
	if !whole {
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

// parseTag reads a tag, and reports whether the language holds all of it. The zero
// Language means that it is no tag. It skips a script between language and region.
func parseTag(tag []byte) (l Language, whole bool) {
	subtag, rest := cutSubtag(tag)
	if len(subtag) != 2 && len(subtag) != 3 || !onlyLetters(subtag) {
		return Language{}, false
	}
	for i, c := range subtag {
		l.Primary[i] = c | 0x20
	}
	if rest == nil {
		return l, true
	}
	subtag, rest = cutSubtag(rest)
	script := len(subtag) == 4 && onlyLetters(subtag)
	if script {
		subtag, rest = cutSubtag(rest)
	}
	switch {
	case len(subtag) == 2 && onlyLetters(subtag):
		l.Region = [3]byte{subtag[0] &^ 0x20, subtag[1] &^ 0x20}
	case len(subtag) == 3 && onlyDigits(subtag):
		l.Region = [3]byte(subtag)
	default:
		return l, false
	}
	return l, !script && rest == nil
}

// cutSubtag returns the text up to the next hyphen, and the text after it, nil if there
// is no hyphen. Some programs write an underscore instead.
func cutSubtag(tag []byte) (subtag, rest []byte) {
	for i, c := range tag {
		if c == '-' || c == '_' {
			return tag[:i], tag[i+1:]
		}
	}
	return tag, nil
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

// maxLanguageHeader bounds what Parse reads of a header, in bytes. Those of browsers have
// less than 200.
const maxLanguageHeader = 512

// Languages holds the languages that a visitor prefers, in the order of the header. The
// zero value holds none.
type Languages struct {
	list [maxLanguages]Language
	n    uint8
}

// Parse replaces the languages with those of an Accept-Language header (RFC 9110, section
// 12.5.4) whose weight is 0.9 or more. A language without a weight has 1. The wildcard,
// and anything that is no language, is skipped. Parse does not allocate.
func (l *Languages) Parse(header []byte) {
	l.n = 0
	if len(header) > maxLanguageHeader {
		header = header[:maxLanguageHeader]
		header = header[:max(bytes.LastIndexByte(header, ','), 0)]
	}
	for len(header) > 0 && l.n < maxLanguages {
		item := header
		if i := bytes.IndexByte(header, ','); i >= 0 {
			item, header = header[:i], header[i+1:]
		} else {
			header = nil
		}
		tag, weight, weighted := bytes.Cut(item, []byte(";"))
		if weighted && !weighsEnough(weight) {
			continue
		}
		if lang, _ := parseTag(trimSpaces(tag)); lang != (Language{}) {
			l.list[l.n] = lang
			l.n++
		}
	}
}

// weighsEnough reports whether a weight is one of at least 0.9.
func weighsEnough(weight []byte) bool {
	weight = trimSpaces(weight)
	if len(weight) < len("q=1") || weight[0]|0x20 != 'q' || weight[1] != '=' {
		return false
	}
	whole, part, _ := bytes.Cut(weight[len("q="):], []byte("."))
	if !onlyDigits(part) || len(whole) != 1 {
		return false
	}
	return whole[0] == '1' || whole[0] == '0' && len(part) > 0 && part[0] == '9'
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
