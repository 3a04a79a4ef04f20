package waypost

import "bytes"

// Visit is a request for a code, taken apart. Its slices refer to the request's bytes,
// which are not decoded, until codes.Walk finds the codes that the visitor may mean.
type Visit struct {
	Path    []byte // all of it, without its first slash
	Code    []byte // the first segment of the path, without the plus sign, or a code of a walk
	Rest    []byte // the path behind the code, with its slash; nil when there is none
	Query   []byte // without the question mark
	Preview bool   // a plus sign follows the code: the visitor asks for the target
	Held    []Held // if Code is a pattern: what its placeholders and its star hold
}

// ParseVisit parses the path and query of a request. It decodes and normalises nothing.
// It does not allocate.
func ParseVisit(pathAndQuery []byte) (v Visit) {
	path := pathAndQuery
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		path, v.Query = path[:i], path[i+1:]
	}
	v.Path = bytes.TrimPrefix(path, []byte("/"))
	v.Code = v.Path
	if i := bytes.IndexByte(v.Code, '/'); i >= 0 {
		v.Code, v.Rest = v.Code[:i], v.Code[i:]
	} else if n := len(v.Code) - 1; n >= 0 && v.Code[n] == '+' {
		v.Code, v.Preview = v.Code[:n], true
	}
	return v
}

// Follow returns the answer to a visit to a link with the resolution r. If the link's
// flags forward the visitor's path or query, the new Location is appended to dst, which
// is returned grown. Otherwise dst is returned unchanged. It does not allocate if dst has
// room.
//
// The rest of the path is appended to the target's path, and the query to the target's
// query, after its own parameters. The fragment stays last. [Unfit] bytes are
// percent-encoded. Host and scheme are always the target's. A rest that is not
// forwarded is answered 404. A rest that could climb out of the target's path, and bytes
// that no URL may hold, are answered 400. A Location above [MaxPayload] is answered 414.
// A Location that is no URL becomes empty. Nothing is appended to a target that is not
// the link's own, such as the target of an expired link. The target of a pattern is a
// template, see [Held].
func (r Resolution) Follow(dst []byte, v *Visit) (res Resolution, grown []byte) {
	if len(v.Held) > 0 {
		return r.fillTemplate(dst, v)
	}
	rest, query := v.Rest, v.Query
	if rest != nil && r.Flags&ForwardPath == 0 {
		return NotFound, dst
	}
	if r.Flags&ForwardQuery == 0 {
		query = nil
	}
	if !r.Redirects() || len(rest) == 0 && len(query) == 0 {
		return r, dst
	}
	if !staysBelow(rest) || !fitsQuery(query) {
		return Resolution{Status: 400}, dst
	}
	if !r.Link {
		return r, dst
	}
	head, tail, ok := splitLocation(r.Location)
	if !ok {
		r.Location = nil
		return r, dst
	}
	if len(rest) > 0 && head[len(head)-1] == '/' {
		rest = rest[1:]
	}
	fragment := tail[len(tail):]
	if i := bytes.IndexByte(tail, '#'); i >= 0 {
		tail, fragment = tail[:i], tail[i:]
	}
	if len(r.Location)+len("?")+EncodedLen(rest)+EncodedLen(query) > MaxPayload {
		return Resolution{Status: 414}, dst
	}
	grown = AppendEncoded(append(dst, head...), rest)
	grown = append(grown, tail...)
	if len(query) > 0 {
		switch {
		case len(tail) == 0:
			grown = append(grown, '?')
		case len(tail) > 1 && tail[len(tail)-1] != '&':
			grown = append(grown, '&')
		}
		grown = AppendEncoded(grown, query)
	}
	grown = append(grown, fragment...)
	r.Location = grown[len(dst):]
	return r, grown
}

// splitLocation divides a Location behind its path. It refuses a Location that a path
// would turn into another host's URL.
func splitLocation(location []byte) (head, tail []byte, ok bool) {
	if !ValidLocation(location) || bytes.IndexByte([]byte(`/\?#`), location[hostOf(location)]) >= 0 {
		return nil, nil, false
	}
	end := len(location)
	for _, mark := range []byte("?#") {
		if i := bytes.IndexByte(location[:end], mark); i >= 0 {
			end = i
		}
	}
	return location[:end], location[end:], true
}

// hostOf returns where the host of a Location begins.
func hostOf(location []byte) int { return bytes.IndexByte(location, ':') + len("://") }

// staysBelow reports whether a path that begins with a slash, or is empty, stays below
// any path that it is appended to, however a server reads it: it has no segment . or ..,
// encoded or not, between slashes, encoded slashes, backslashes or before a semicolon.
// Control bytes are refused in every notation.
func staysBelow(path []byte) bool {
	dots, plain := 0, false // of the segment so far; plain: it is more than dots
	climbs := func() bool { return !plain && (dots == 1 || dots == 2) }
	for i := 0; i < len(path); i++ {
		c := path[i]
		if plainByte[c] { // as most are
			plain = true
			continue
		}
		switch {
		case c <= ' ', c == 0x7f, c == '\\', c == '#', c == '?':
			return false
		case c == '%':
			var ok bool
			if c, ok = Unescape(path[i:]); !ok || c < ' ' || c == 0x7f {
				return false
			}
			i += 2
		}
		switch c {
		case '.':
			dots++
		case '/', '\\':
			if climbs() {
				return false
			}
			dots, plain = 0, false
		case ';':
			if climbs() {
				return false
			}
			plain = true
		default:
			plain = true
		}
	}
	return !climbs()
}

// fitsQuery reports whether bytes can be a part of a query once they are encoded.
func fitsQuery(query []byte) bool {
	for _, c := range query {
		if c <= ' ' || c == 0x7f || c == '#' {
			return false
		}
	}
	return true
}

// Unfit reports whether no URI may hold a byte as it is (RFC 3986, 2), so that a
// Location has it percent-encoded. Square brackets stay, because browsers leave them.
func Unfit(c byte) bool {
	switch c {
	case '"', '<', '>', '\\', '^', '`', '{', '|', '}':
		return true
	}
	return c <= ' ' || c >= 0x7f
}

// EncodedLen returns the length of the bytes that [AppendEncoded] appends.
func EncodedLen[T string | []byte](s T) int {
	n := len(s)
	for i := range len(s) {
		if Unfit(s[i]) {
			n += len("%80") - 1
		}
	}
	return n
}

// AppendEncoded appends a part of a URL, in which each [Unfit] byte is percent-encoded.
// It allocates only to grow dst.
func AppendEncoded[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		if c := s[i]; Unfit(c) {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// Unescape returns the byte for a percent-encoding at the beginning of a text.
func Unescape(text []byte) (c byte, ok bool) {
	if len(text) < len("%00") || text[0] != '%' {
		return 0, false
	}
	high, low := hexDigits[text[1]], hexDigits[text[2]]
	return high<<4 | low, high|low < 16
}

// hexDigits has the value of each hexadecimal digit, and 255 for all other bytes.
var hexDigits = func() (t [256]byte) {
	for c := range t {
		t[c] = 255
	}
	for i := range byte(16) {
		t["0123456789abcdef"[i]], t["0123456789ABCDEF"[i]] = i, i
	}
	return t
}()
