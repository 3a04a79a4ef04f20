package controlplane

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
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
// same, without white space and invisible characters at its ends. Those that change what
// is before them, as in flags of regions, go at the beginning alone.
func canonicalTag(tag string) string {
	blank := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.In(r, unicode.Bidi_Control, unicode.Other_Default_Ignorable_Code_Point) ||
			strings.ContainsRune("\u00ad\u180e\u200b\u200c\u200d\u2060\u2800\ufeff", r)
	}
	return strings.TrimLeftFunc(strings.TrimRightFunc(norm.NFC.String(tag), blank), func(r rune) bool {
		return blank(r) || unicode.Is(unicode.Variation_Selector, r) || r>>7 == 0xe0000>>7
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
	if !jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true)) || bytes.TrimSpace(text)[0] != '{' {
		return waypost.Errorf(waypost.EInvalid, `metadata must be a JSON object in UTF-8, without half a surrogate pair such as \ud800`)
	}
	long, tokens := len(text), jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	for token, err := tokens.ReadToken(); err == nil; token, err = tokens.ReadToken() {
		switch token.Kind() {
		case '"':
			if strings.ContainsRune(token.String(), 0) {
				return waypost.Errorf(waypost.EInvalid, "metadata must not hold NUL")
			}
		case '0':
			long += exponentOf(token.String())
		}
		if long > waypost.MaxMetadata {
			return waypost.Errorf(waypost.EInvalid, "metadata must be at most %d bytes with their numbers written out in full", waypost.MaxMetadata)
		}
	}
	return nil
}

// exponentOf returns the most digits that the exponent of a number adds.
func exponentOf(number string) int {
	i := strings.IndexAny(number, "eE")
	if i < 0 {
		return 0
	}
	v, err := strconv.Atoi(number[i+1:])
	if err != nil || v > waypost.MaxMetadata || v < -waypost.MaxMetadata {
		return waypost.MaxMetadata + 1
	}
	return max(v, -v)
}
