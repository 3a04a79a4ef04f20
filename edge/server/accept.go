package server

import "waypost/edge/fastpath"

// acceptsHTML reports whether an Accept header (RFC 9110, section 12.5.1) asks for a page
// rather than for JSON: it names text/html or all of text, with a weight above zero and
// no lower than the weight of JSON, if it names JSON. So a browser gets pages, and an API
// client that accepts anything, or says nothing, gets JSON. It does not allocate.
func acceptsHTML(accept []byte) bool {
	const unnamed = -1
	html, anyText, json, anyApplication := unnamed, unnamed, unnamed, unnamed
	for len(accept) > 0 {
		end := 0
		for end < len(accept) && accept[end] != ',' {
			end++
		}
		name, weight := mediaRange(accept[:end])
		switch {
		case fastpath.EqualFold(name, "text/html"):
			html = max(html, weight)
		case fastpath.EqualFold(name, "text/*"):
			anyText = max(anyText, weight)
		case fastpath.EqualFold(name, "application/json"), fastpath.EqualFold(name, "application/problem+json"):
			json = max(json, weight)
		case fastpath.EqualFold(name, "application/*"):
			anyApplication = max(anyApplication, weight)
		}
		accept = accept[min(end+1, len(accept)):]
	}
	if html == unnamed {
		html = anyText
	}
	if json == unnamed {
		json = anyApplication
	}
	return html > 0 && html >= json
}

// mediaRange divides an element of Accept into the name and its weight in thousandths. A
// weight that cannot be read counts as 1, the default.
func mediaRange(s []byte) (name []byte, weight int) {
	name, rest := cutSemicolon(s)
	weight = 1000
	for len(rest) > 0 {
		var param []byte
		param, rest = cutSemicolon(rest)
		if len(param) >= 3 && param[0]|0x20 == 'q' && param[1] == '=' {
			if q, ok := thousandths(param[2:]); ok {
				weight = q
			}
		}
	}
	return name, weight
}

// cutSemicolon divides s behind its first part, and trims white space off that part.
func cutSemicolon(s []byte) (part, rest []byte) {
	end := 0
	for end < len(s) && s[end] != ';' {
		end++
	}
	part, rest = s[:end], s[min(end+1, len(s)):]
	for len(part) > 0 && (part[0] == ' ' || part[0] == '\t') {
		part = part[1:]
	}
	for len(part) > 0 && (part[len(part)-1] == ' ' || part[len(part)-1] == '\t') {
		part = part[:len(part)-1]
	}
	return part, rest
}

// thousandths reads a weight: 0 or 1 with up to three decimals.
func thousandths(s []byte) (int, bool) {
	if s[0] != '0' && s[0] != '1' || len(s) > len("0.000") || len(s) > 1 && s[1] != '.' {
		return 0, false
	}
	n := int(s[0]-'0') * 1000
	for i, unit := 2, 100; i < len(s); i, unit = i+1, unit/10 {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n += int(s[i]-'0') * unit
	}
	return min(n, 1000), true
}
