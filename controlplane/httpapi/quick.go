package httpapi

import (
	"unicode/utf8"

	"waypost"
)

// quickLink reads a wish as decode would, in one pass and at a tenth of its cost. It
// is for what nearly all wishes are: an object of plain fields within their limits. Of
// everything else, what is wrong or no JSON included, it says that it does not know.
func quickLink(data []byte) (n newLink, ok bool) {
	if !utf8.Valid(data) {
		return n, false
	}
	q := quick{data: data}
	if !q.take('{') {
		return n, false
	}
	for seen := uint(0); ; {
		name, ok := q.name()
		if !ok || !q.take(':') {
			return n, false
		}
		field := q.field(&n, name)
		if field == 0 || seen&field != 0 {
			return n, false
		}
		seen |= field
		if q.take(',') {
			continue
		}
		return n, q.take('}') && q.ended() && seen&quickURL != 0
	}
}

// Fields that were seen, to tell one that occurs twice.
const (
	quickURL uint = 1 << iota
	quickCode
	quickTitle
	quickDescription
	quickBy
	quickStatus
	quickQuery
	quickPath
	quickTags
)

// quick walks over text that should be JSON.
type quick struct {
	data []byte
	at   int
}

// field reads the value of a field into n. It gives 0 for a field that it leaves to
// others, or a value.
func (q *quick) field(n *newLink, name string) uint {
	which, ok := uint(0), false
	switch name {
	case "original_url":
		which = quickURL
		n.OriginalURL, ok = q.text(0, 1<<20)
	case "custom_code":
		which = quickCode
		n.CustomCode, ok = q.text(0, waypost.MaxCodeLength)
	case "title":
		which = quickTitle
		n.Title, ok = q.text(0, waypost.MaxTitle)
	case "description":
		which = quickDescription
		n.Description, ok = q.text(0, waypost.MaxDescription)
	case "created_by":
		which = quickBy
		n.CreatedBy, ok = q.text(0, waypost.MaxTitle)
	case "redirect_status":
		which = quickStatus
		n.RedirectStatus, ok = q.status()
	case "forward_query":
		which = quickQuery
		n.ForwardQuery, ok = q.truth()
	case "forward_path":
		which = quickPath
		n.ForwardPath, ok = q.truth()
	case "tags":
		which = quickTags
		n.Tags, ok = q.texts()
	}
	if !ok {
		return 0
	}
	return which
}

func (q *quick) space() {
	for q.at < len(q.data) {
		switch q.data[q.at] {
		case ' ', '\t', '\r', '\n':
			q.at++
		default:
			return
		}
	}
}

// take passes a character, and white space before it.
func (q *quick) take(c byte) bool {
	q.space()
	if q.at < len(q.data) && q.data[q.at] == c {
		q.at++
		return true
	}
	return false
}

func (q *quick) ended() bool {
	q.space()
	return q.at == len(q.data)
}

// name passes a name without escapes.
func (q *quick) name() (string, bool) {
	if !q.take('"') {
		return "", false
	}
	for start := q.at; q.at < len(q.data); q.at++ {
		switch q.data[q.at] {
		case '"':
			q.at++
			return string(q.data[start : q.at-1]), true
		case '\\':
			return "", false
		}
	}
	return "", false
}

// text passes a string of at least and at most so many bytes. Halves of surrogate
// pairs and NUL are left to others.
func (q *quick) text(least, most int) (string, bool) {
	if !q.take('"') {
		return "", false
	}
	start, plain := q.at, true
	for q.at < len(q.data) && q.data[q.at] != '"' {
		switch c := q.data[q.at]; {
		case c == '\\':
			plain = false
			q.at++
		case c < ' ':
			return "", false
		}
		q.at++
	}
	if q.at >= len(q.data) {
		return "", false
	}
	raw := q.data[start:q.at]
	q.at++
	if plain {
		return string(raw), least <= len(raw) && len(raw) <= most
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			continue
		}
		i++
		switch c := raw[i]; c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, ok := hexRune(raw[i+1:])
			if !ok {
				return "", false
			}
			out = utf8.AppendRune(out, r)
			i += 4
		default:
			return "", false
		}
	}
	return string(out), least <= len(out) && len(out) <= most
}

// hexRune reads four hexadecimal digits of a character that needs no second four.
func hexRune(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, r != 0 && (r < 0xD800 || r > 0xDFFF)
}

func (q *quick) texts() (all []string, ok bool) {
	if !q.take('[') {
		return nil, false
	}
	if q.take(']') {
		return []string{}, true
	}
	for len(all) < waypost.MaxTags {
		tag, ok := q.text(1, waypost.MaxTag)
		if !ok {
			return nil, false
		}
		all = append(all, tag)
		if !q.take(',') {
			return all, q.take(']')
		}
	}
	return nil, false
}

func (q *quick) truth() (is, ok bool) {
	q.space()
	for _, word := range []string{"true", "false"} {
		if end := q.at + len(word); end <= len(q.data) && string(q.data[q.at:end]) == word {
			q.at = end
			return word == "true", true
		}
	}
	return false, false
}

// status passes one of the statuses of a redirect.
func (q *quick) status() (int, bool) {
	q.space()
	if q.at+4 > len(q.data) {
		return 0, false
	}
	switch c := q.data[q.at+3]; c {
	case ',', '}', ' ', '\n':
	default:
		return 0, false
	}
	status := 0
	switch string(q.data[q.at : q.at+3]) {
	case "301":
		status = 301
	case "302":
		status = 302
	case "307":
		status = 307
	case "308":
		status = 308
	}
	q.at += 3
	return status, status != 0
}

// quickItems takes the links out of a bulk body that is an object of links and nothing
// else, as bulkItems would but without a copy. The text is valid JSON when all of the
// links are.
func quickItems(data []byte) (items [][]byte, ok bool) {
	q := quick{data: data}
	if !q.take('{') {
		return nil, false
	}
	if name, ok := q.name(); !ok || name != "links" || !q.take(':') || !q.take('[') {
		return nil, false
	}
	for len(items) < waypost.MaxBulk {
		q.space()
		start := q.at
		if !q.skipObject() {
			return nil, false
		}
		items = append(items, data[start:q.at])
		if !q.take(',') {
			return items, q.take(']') && q.take('}') && q.ended()
		}
	}
	return nil, false
}

// skipObject passes an object.
func (q *quick) skipObject() bool {
	if q.at >= len(q.data) || q.data[q.at] != '{' {
		return false
	}
	for depth := 0; q.at < len(q.data); q.at++ {
		switch q.data[q.at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				q.at++
				return true
			}
		case '"':
			for q.at++; q.at < len(q.data) && q.data[q.at] != '"'; q.at++ {
				if q.data[q.at] == '\\' {
					q.at++
				}
			}
		}
	}
	return false
}
