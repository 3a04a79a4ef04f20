package controlplane

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"waypost"
)

// checkStatus checks the status of a redirect, and sets the default for none.
func checkStatus(l *waypost.Link) error {
	switch l.RedirectStatus {
	case 0:
		l.RedirectStatus = 302
	case 301, 302, 307, 308:
	default:
		return waypost.Errorf(waypost.EInvalid, "redirect_status must be 301, 302, 307 or 308")
	}
	return nil
}

// checkExpiry checks the expiry of a link, and truncates it to milliseconds, the
// resolution at which edges compare it.
func checkExpiry(at, now time.Time) (time.Time, error) {
	if at.IsZero() {
		return at, nil
	}
	at = at.UTC().Truncate(time.Millisecond)
	if !at.After(now) {
		return at, waypost.Errorf(waypost.EInvalid, "expires_at must be in the future")
	}
	if at.Year() > 9999 {
		return at, waypost.Errorf(waypost.EInvalid, "expires_at must be before the year 10000")
	}
	return at, nil
}

// checkText checks a text of at most that many bytes.
func checkText(field, s string, most int) error {
	if len(s) > most {
		return waypost.Errorf(waypost.EInvalid, "%s must be at most %d bytes", field, most)
	}
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return waypost.Errorf(waypost.EInvalid, "%s must be UTF-8 without NUL", field)
	}
	return nil
}

// checkTexts bounds the fields that are only stored, refuses text that PostgreSQL cannot
// store, and sets the tags in their canonical form.
func checkTexts(l *waypost.Link) error {
	l.Tags = canonicalTags(l.Tags)
	if len(l.Tags) > waypost.MaxTags {
		return waypost.Errorf(waypost.EInvalid, "at most %d tags", waypost.MaxTags)
	}
	for _, tag := range l.Tags {
		if tag == "" {
			return waypost.Errorf(waypost.EInvalid, "a tag must not be empty, or hold only blanks")
		}
		if err := checkText("a tag", tag, waypost.MaxTag); err != nil {
			return err
		}
		if strings.ContainsFunc(tag, unicode.IsControl) { // the index separates tags by them
			return waypost.Errorf(waypost.EInvalid, "a tag must not hold control characters")
		}
	}
	if len(l.Metadata) > 0 {
		if err := checkMetadata(l.Metadata); err != nil {
			return err
		}
	}
	for t := range l.Texts {
		if err := checkText(t.Field, t.Text, t.Most); err != nil {
			return err
		}
	}
	return checkText("created_by", l.CreatedBy, waypost.MaxTitle)
}

// canonicalTags returns tags as they are stored and compared, each of them once.
func canonicalTags(tags []string) []string {
	if tags == nil {
		return nil
	}
	all := make([]string, 0, len(tags))
	for _, tag := range tags {
		if tag = canonicalTag(tag); !slices.Contains(all, tag) {
			all = append(all, tag)
		}
	}
	return all
}

// canonicalTag returns a tag in Unicode's form NFC, so that tags that look alike are the
// same, without white space and invisible characters at its ends. Flags of regions end
// with other invisible characters, which stay.
func canonicalTag(tag string) string {
	return strings.TrimFunc(norm.NFC.String(tag), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.In(r, unicode.Bidi_Control, unicode.Other_Default_Ignorable_Code_Point) ||
			strings.ContainsRune("\u00ad\u180e\u200b\u200c\u200d\u2060\u2800\ufeff", r)
	})
}

// cut returns text of at most most bytes: s, or the beginning of s that ends between
// characters.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// checkMetadata checks metadata that are not empty: a JSON object that PostgreSQL can
// store, and that does not grow beyond the limit. PostgreSQL writes out numbers in full,
// so that the eight bytes 1e100000 become a hundred thousand.
func checkMetadata(text []byte) error {
	if len(text) > waypost.MaxMetadata {
		return waypost.Errorf(waypost.EInvalid, "metadata must be at most %d bytes", waypost.MaxMetadata)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return waypost.Errorf(waypost.EInvalid, "metadata must be a JSON object")
	}
	if !utf8.Valid(text) {
		return waypost.Errorf(waypost.EInvalid, "metadata must be UTF-8")
	}
	long := len(text)
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			n, ok := stringIn(text[i:])
			if !ok {
				return waypost.Errorf(waypost.EInvalid, `metadata must not hold NUL, nor half a surrogate pair such as \ud800`)
			}
			i += n
		case c == '-' || c >= '0' && c <= '9':
			n, more := numberIn(text[i:])
			if long += more; long > waypost.MaxMetadata {
				return waypost.Errorf(waypost.EInvalid, "metadata must be at most %d bytes with their numbers written out in full", waypost.MaxMetadata)
			}
			i += n
		default:
			i++
		}
	}
	return nil
}

// stringIn returns the length of the JSON string at the beginning of valid JSON, and
// whether text can hold the characters of its escapes.
func stringIn(text []byte) (n int, ok bool) {
	ok = true
	for n = 1; text[n] != '"'; {
		if text[n] != '\\' {
			n++
			continue
		}
		unit, is := escapeIn(text[n:])
		switch {
		case !is:
			n += 2
			continue
		case unit == 0:
			ok = false
		case utf16.IsSurrogate(unit):
			low, _ := escapeIn(text[n+6:])
			if utf16.DecodeRune(unit, low) == utf8.RuneError {
				ok = false
			} else {
				n += 6
			}
		}
		n += 6
	}
	return n + 1, ok
}

// escapeIn returns the UTF-16 unit of the \uXXXX at the beginning of a text, if there is
// one.
func escapeIn(text []byte) (unit rune, is bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(v), err == nil
}

// numberIn returns the length of the number at the beginning of valid JSON, and the most
// digits that its exponent adds.
func numberIn(text []byte) (n, more int) {
	exponent := 0
	for ; n < len(text); n++ {
		switch c := text[n]; {
		case c >= '0' && c <= '9', c == '-', c == '+', c == '.':
		case c == 'e', c == 'E':
			exponent = n + 1
		default:
			return n, exponentOf(text[exponent:n], exponent)
		}
	}
	return n, exponentOf(text[exponent:n], exponent)
}

func exponentOf(digits []byte, at int) int {
	if at == 0 {
		return 0
	}
	v, err := strconv.Atoi(string(digits))
	if err != nil || v > waypost.MaxMetadata || v < -waypost.MaxMetadata {
		return waypost.MaxMetadata + 1
	}
	return max(v, -v)
}
