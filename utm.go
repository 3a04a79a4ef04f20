package waypost

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// UTM holds the values of a request's parameters utm_source, utm_medium, utm_campaign,
// utm_term and utm_content, in this order and with a newline between them, up to the last
// that is not empty. "" stands for a request without any.
type UTM string

// UTMValues are the single values of a [UTM].
type UTMValues [utmCount]string

const utmCount = 5

// MaxUTM bounds a value, and MaxUTMText all values of a click, in bytes.
const (
	MaxUTM     = 64
	MaxUTMText = utmCount*(MaxUTM+len(utmBreak)) - len(utmBreak)

	utmPrefix = "utm_"
	utmBreak  = "\n" // between the values of a click, none of which contains it
)

// HasUTM reports whether a query may have a parameter of a [UTM].
func HasUTM(query []byte) bool { return bytes.Contains(query, []byte(utmPrefix)) }

// AppendUTM appends the [UTM] of a query; nothing without any of its parameters. Values
// are lower case and cut at [MaxUTM]. A value that is not UTF-8, or has control
// characters, is skipped, and of a parameter that is there twice the first counts. It
// allocates only to grow dst.
func AppendUTM(dst, query []byte) []byte {
	var raw [utmCount][]byte
	for len(query) > 0 {
		pair := query
		if i := bytes.IndexByte(query, '&'); i >= 0 {
			pair, query = query[:i], query[i+1:]
		} else {
			query = nil
		}
		equals := bytes.IndexByte(pair, '=')
		if equals < 0 {
			continue
		}
		if i := utmIndex(pair[:equals]); i >= 0 && raw[i] == nil {
			raw[i] = pair[equals+1:]
		}
	}
	end := len(dst)
	for i, value := range raw {
		if i > 0 {
			dst = append(dst, utmBreak...)
		}
		begin := len(dst)
		if dst = appendUTMValue(dst, value); len(dst) > begin {
			end = len(dst)
		}
	}
	return dst[:end]
}

// utmIndex returns the place of a parameter; -1 if it is another one.
func utmIndex(name []byte) int {
	switch string(name) {
	case "utm_source":
		return 0
	case "utm_medium":
		return 1
	case "utm_campaign":
		return 2
	case "utm_term":
		return 3
	case "utm_content":
		return 4
	default:
		return -1
	}
}

// appendUTMValue decodes a value and appends it, or nothing if it is invalid.
func appendUTMValue(dst, raw []byte) []byte {
	begin := len(dst)
	var buf [MaxUTM + utf8.UTFMax]byte
	plain := buf[:0]
	for len(raw) > 0 && len(plain) < cap(plain) {
		c, escaped := Unescape(raw)
		switch {
		case escaped:
			raw = raw[len("%00"):]
		case raw[0] == '+':
			c, raw = ' ', raw[1:]
		default:
			c, raw = raw[0], raw[1:]
		}
		plain = append(plain, c)
	}
	cut := len(raw) > 0
	for len(plain) > 0 && len(dst)-begin < MaxUTM && (!cut || utf8.FullRune(plain)) {
		r, size := utf8.DecodeRune(plain)
		if r == utf8.RuneError && size <= 1 || unicode.IsControl(r) {
			return dst[:begin]
		}
		r = unicode.ToLower(r)
		if len(dst)-begin+utf8.RuneLen(r) > MaxUTM {
			break
		}
		dst, plain = utf8.AppendRune(dst, r), plain[size:]
	}
	return dst
}

// PackUTM returns the UTM of values.
func PackUTM(v UTMValues) UTM { return UTM(strings.TrimRight(strings.Join(v[:], utmBreak), utmBreak)) }

// Values returns the single values.
func (u UTM) Values() (v UTMValues) {
	rest := string(u)
	for i := 0; i < len(v) && rest != ""; i++ {
		v[i], rest, _ = strings.Cut(rest, utmBreak)
	}
	return v
}

// Valid reports whether a profile may have it.
func (u UTM) Valid() bool {
	if u == "" {
		return true
	}
	v := u.Values()
	for _, value := range v {
		if len(value) > MaxUTM || !ValidClickName(value) {
			return false
		}
	}
	return PackUTM(v) == u
}
