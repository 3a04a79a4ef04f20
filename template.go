package waypost

import "bytes"

// Held is the part of a visitor's path that a placeholder or the star of a pattern holds.
//
// The target of a pattern is a template: {name} stands for the segment that the
// placeholder holds, {path} for the segments that the star holds, and {query.NAME} for
// the visitor's parameter of that name. They may be in the path, the query and the
// fragment of a target. All other braces of a Location are percent-encoded.
//
// A value is as the visitor sent it. Bytes that would end the place of the value, or
// begin another, are percent-encoded: a value stays within its segment or its parameter.
type Held struct{ Name, Value []byte }

// place is the part of a URL that a value gets into.
type place uint8

const (
	inPath place = iota
	inQuery
	inFragment
)

// fillTemplate is Follow for the link of a pattern. A path that could climb, before or
// after values were put into the target's path, is answered 400. A template that names
// what the pattern does not hold has no Location.
func (r Resolution) fillTemplate(dst []byte, v *Visit) (res Resolution, grown []byte) {
	if !r.Redirects() || !r.Link {
		return r, dst
	}
	refused := func(status int) (Resolution, []byte) { return Resolution{Status: status}, dst }
	if !staysBelow(v.Path) {
		return refused(400)
	}
	path, query, ok := splitLocation(r.Location)
	if !ok {
		r.Location = nil
		return r, dst
	}
	host := hostOf(path) // where it ends
	if slash := bytes.IndexByte(path[host:], '/'); slash >= 0 {
		host += slash
	} else {
		host = len(path)
	}
	fragment := query[len(query):]
	if i := bytes.IndexByte(query, '#'); i >= 0 {
		query, fragment = query[:i], query[i:]
	}
	if bytes.IndexByte(path[:host], '{') >= 0 {
		r.Location = nil
		return r, dst
	}
	most := len(dst) + MaxPayload
	grown, status := v.fill(append(dst, path[:host]...), path[host:], inPath, most)
	if bytes.IndexByte(path[host:], '{') >= 0 && status == 0 && !staysBelow(grown[len(dst)+host:]) {
		status = 400
	}
	begin := len(grown)
	if status == 0 {
		grown, status = v.fill(grown, query, inQuery, most)
	}
	if own := grown[begin:]; status == 0 && r.Flags&ForwardQuery != 0 && len(v.Query) > 0 {
		switch {
		case !fitsQuery(v.Query):
			status = 400
		case len(own) == 0:
			grown = append(grown, '?')
		case len(own) > 1 && own[len(own)-1] != '&':
			grown = append(grown, '&')
		}
		grown = AppendEncoded(grown, v.Query)
	}
	if status == 0 {
		grown, status = v.fill(grown, fragment, inFragment, most)
	}
	switch {
	case status == templateBroken:
		r.Location = nil
		return r, dst
	case status != 0:
		return refused(status)
	}
	r.Location = grown[len(dst):]
	return r, grown
}

// templateBroken is the status of a template that only a change by hand can have written.
const templateBroken = -1

// fill appends a part of a template, with its values, up to a length of dst. A status
// other than 0 says why it stopped.
func (v *Visit) fill(dst, template []byte, in place, most int) (grown []byte, status int) {
	for {
		literal, rest, more := bytes.Cut(template, []byte("{"))
		dst = append(dst, literal...)
		if len(dst) > most {
			return dst, 414
		}
		if !more {
			return dst, 0
		}
		name, rest, closed := bytes.Cut(rest, []byte("}"))
		value, fromQuery, known := v.valueOf(name)
		switch {
		case !closed || !known:
			return dst, templateBroken
		case fromQuery && !fitsQuery(value):
			return dst, 400
		}
		dst, template = appendValue(dst, value, in, fromQuery), rest
	}
}

// valueOf returns the value of a name in a template.
func (v *Visit) valueOf(name []byte) (value []byte, fromQuery, known bool) {
	for i := range v.Held {
		if bytes.Equal(v.Held[i].Name, name) {
			return v.Held[i].Value, false, true
		}
	}
	if !bytes.HasPrefix(name, []byte(QueryPrefix)) {
		return nil, false, false
	}
	return parameter(v.Query, name[len(QueryPrefix):]), true, true
}

// parameter returns the value of the first parameter of that name in a query, as it was
// sent.
func parameter(query, name []byte) []byte {
	for len(query) > 0 {
		var one []byte
		one, query, _ = bytes.Cut(query, []byte("&"))
		if key, value, _ := bytes.Cut(one, []byte("=")); spells(key, name) {
			return value
		}
	}
	return nil
}

// spells reports whether a text is a name once its escapes are decoded.
func spells(text, name []byte) bool {
	for _, want := range name {
		c, escaped := Unescape(text)
		switch {
		case escaped && c == want:
			text = text[len("%00"):]
		case escaped, len(text) == 0, text[0] != want:
			return false
		default:
			text = text[1:]
		}
	}
	return len(text) == 0
}

// appendValue appends a value as it was sent, in the visitor's path or query, with the
// bytes percent-encoded that mean something else in its new place.
func appendValue(dst, value []byte, in place, fromQuery bool) []byte {
	const hex = "0123456789ABCDEF"
	for i, c := range value {
		moves := Unfit(c) || c == '#'
		switch c {
		case '%':
			_, escape := Unescape(value[i:])
			moves = !escape
		case '?':
			moves = in == inPath
		case '/':
			moves = in == inPath && fromQuery
		case '&', '=', ';':
			moves = in == inQuery
		case '+':
			if moves = fromQuery != (in == inQuery); moves && fromQuery {
				c = ' ' // as queries write it
			}
		}
		if moves {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}
