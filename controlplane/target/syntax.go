package target

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"waypost"
)

// checkText refuses characters that no URL may hold: browsers drop tabs, line breaks and
// outer white space and read a backslash as a slash, other programs do not.
func checkText(s string) error {
	if s == "" {
		return waypost.Errorf(waypost.EMalformed, "the URL is empty")
	}
	ascii := true
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == 0x7f {
			return waypost.Errorf(waypost.EMalformed, "the URL holds the control character U+%04X at byte %d", c, i+1)
		} else if c >= utf8.RuneSelf {
			ascii = false
		}
	}
	if !ascii {
		if err := checkUnicode(s); err != nil {
			return err
		}
	}
	if strings.TrimFunc(s, unicode.IsSpace) != s {
		return waypost.Errorf(waypost.EMalformed, "the URL begins or ends with white space")
	}
	if i := strings.IndexByte(s, '\\'); i >= 0 && !strings.ContainsAny(s[:i], "?#") {
		return waypost.Errorf(waypost.EMalformed, "the URL holds a backslash before its query, at byte %d", i+1)
	}
	return nil
}

func checkUnicode(s string) error {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return waypost.Errorf(waypost.EMalformed, "the URL is not valid UTF-8 at byte %d", i+1)
			}
		}
		if unicode.IsControl(r) {
			return waypost.Errorf(waypost.EMalformed, "the URL holds the control character U+%04X at byte %d", r, i+1)
		}
	}
	return nil
}

// lacksScheme reports whether a text begins with the name of a host instead of a scheme,
// as people write it: with a dot in it, and with nothing behind it but a port, a path, a
// query or a fragment.
func lacksScheme(s string) bool {
	authority := s
	if i := strings.IndexAny(s, "/?#"); i >= 0 {
		authority = s[:i]
	}
	host, port, _ := strings.Cut(authority, ":")
	dot := strings.IndexByte(host, '.')
	return dot > 0 && dot < len(host)-1 && !strings.ContainsAny(authority, "@ ") && strings.Trim(port, "0123456789") == ""
}

// findHost checks a URL up to its path and returns the position of the host,
// s[start:end], with the brackets of an IPv6 address.
func findHost(s string) (start, end int, err error) {
	colon := strings.IndexByte(s, ':')
	if colon < 0 || !isWebScheme(s[:colon]) {
		begin := s
		if colon >= 0 {
			begin = s[:colon+1]
		}
		return 0, 0, waypost.Errorf(waypost.EMalformed, "the URL must begin with http:// or https://, not with %s", quote(begin))
	}
	rest := s[colon+1:]
	if !strings.HasPrefix(rest, "//") {
		return 0, 0, waypost.Errorf(waypost.EMalformed, "the URL must have two slashes after %s", s[:colon+1])
	}
	if strings.HasPrefix(rest, "///") {
		return 0, 0, waypost.Errorf(waypost.EMalformed, "the URL has more than two slashes after %s", s[:colon+1])
	}
	start = colon + len("://")
	authority := s[start:]
	if i := strings.IndexAny(authority, "/?#"); i >= 0 {
		authority = authority[:i]
	}
	if strings.IndexByte(authority, '@') >= 0 {
		return 0, 0, waypost.Errorf(waypost.EInvalid, "the URL must not hold a user name or password before an @")
	}
	length, err := hostLength(authority)
	if err != nil {
		return 0, 0, err
	}
	return start, start + length, nil
}

// isWebScheme compares bytes: strings.EqualFold would take U+017F for an s.
func isWebScheme(s string) bool {
	const scheme = "https"
	if len(s) != len("http") && len(s) != len("https") {
		return false
	}
	for i := range len(s) {
		if s[i]|0x20 != scheme[i] {
			return false
		}
	}
	return true
}

// hostLength divides an authority without user information into host and port,
// and checks the port. An empty port is the default one.
func hostLength(authority string) (int, error) {
	length := len(authority)
	if strings.HasPrefix(authority, "[") {
		length = strings.IndexByte(authority, ']') + 1
		if length == 0 {
			return 0, waypost.Errorf(waypost.EMalformed, "the URL's host begins with [ but does not end with ]")
		}
	} else if i := strings.LastIndexByte(authority, ':'); i >= 0 {
		length = i
	}
	if length == 0 {
		return 0, waypost.Errorf(waypost.EMalformed, "the URL has no host")
	}
	after := authority[length:]
	if after == "" || after == ":" {
		return length, nil
	}
	if after[0] != ':' {
		return 0, waypost.Errorf(waypost.EMalformed, "after the host's ] only a port may follow, not %s", quote(after))
	}
	port := after[1:]
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 { // ParseUint accepts ASCII digits only, and no sign
		return 0, waypost.Errorf(waypost.EMalformed, "the port %s is not a number from 1 to 65535", quote(port))
	}
	return length, nil
}

// quote shows the first 64 bytes of a user's text, which need not be UTF-8, with
// unprintable characters escaped.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		cut := most
		for cut > most-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strconv.Quote(s)
}
