package redirectfile

import (
	"fmt"
	"strings"
)

// Reasons why a regular expression is no pattern.
const (
	notAtStart = "the regular expression does not begin with ^/, so that it fits in the middle of addresses, too"
	notAtEnd   = "the regular expression has no $ at its end, so that it also fits addresses which only begin so"
	notAPart   = "the regular expression says more than a pattern can: a segment as it is, ([^/]+) for any one, (.*) at the end"
)

// pathOfRegexp reads the regular expressions that patterns can say: literal characters,
// ([^/]+) as a segment, and (.*), (.+) or (/.*)? at the end. Names maps the numbers of
// groups to what stands for them in a target.
func pathOfRegexp(re string) (from []segment, names map[string]string, reason string) {
	names = make(map[string]string)
	rest, ok := strings.CutPrefix(re, "^/")
	switch {
	case strings.HasPrefix(re, "(?i)"):
		return nil, nil, "the regular expression ignores case: let the domain ignore it (case: insensitive), and import the line without (?i)"
	case !ok && re == "^(.*)$" || !ok && re == "^(/.*)$":
		names["1"] = "/{path}"
		return []segment{{star: true}}, names, ""
	case !ok:
		return nil, nil, notAtStart
	}
	x := pathReader{names: names}
	for rest != "" {
		if rest == "$" || rest == "/?$" {
			x.endSegment()
			return x.from, names, ""
		}
		if x.readTail(rest) {
			return x.from, names, ""
		}
		if rest, reason = x.readOne(rest); reason != "" {
			return nil, nil, reason
		}
	}
	if x.open() || len(x.from) == 0 {
		return nil, nil, notAtEnd
	}
	return append(x.from, segment{star: true}), names, "" // all that begins with a path and a slash
}

// pathReader reads the segments of a regular expression.
type pathReader struct {
	from   []segment
	names  map[string]string
	groups int
	text   string // of the literal segment so far
	held   bool   // a placeholder has ended, and no slash has followed
}

// open reports whether a segment has begun and not ended.
func (x *pathReader) open() bool { return x.text != "" || x.held }

func (x *pathReader) endSegment() {
	if x.text != "" {
		x.from = append(x.from, segment{text: x.text})
	}
	x.text, x.held = "", false
}

// readOne reads a slash, a placeholder or a literal character.
func (x *pathReader) readOne(rest string) (left, reason string) {
	switch {
	case strings.HasPrefix(rest, "([^/]+)"), strings.HasPrefix(rest, "([^/]*)"):
		if x.open() {
			return "", "a placeholder is a whole segment"
		}
		x.groups++
		name := fmt.Sprintf("p%d", x.groups)
		x.from, x.held = append(x.from, segment{name: name}), true
		x.names[fmt.Sprint(x.groups)] = "{" + name + "}"
		return rest[len("([^/]+)"):], ""
	case rest[0] == '/' && x.open():
		x.endSegment()
		return rest[1:], ""
	case x.held:
		return "", "a placeholder is a whole segment"
	case rest[0] == '\\' && len(rest) > 1 && !isName(rest[1]):
		x.text, rest = x.text+rest[1:2], rest[2:]
	case strings.IndexByte(`/\.+*?()|[]{}^$`, rest[0]) >= 0:
		return "", notAPart
	default:
		x.text, rest = x.text+rest[:1], rest[1:]
	}
	if rest != "" && strings.IndexByte("?*+{", rest[0]) >= 0 {
		return "", notAPart
	}
	return rest, ""
}

// readTail reports whether the rest of a regular expression holds any number of segments,
// and adds the segments if so.
func (x *pathReader) readTail(rest string) bool {
	tail, atEnd := strings.CutSuffix(rest, "$")
	var stands string
	switch tail {
	case "(.*)", "(.+)", ".*", ".+":
		if x.open() {
			return false
		}
		stands = "{path}"
	case "(/.*)?", "(?:/(.*))?", "(?:/.*)?":
		if !atEnd { // then it fits all that begins so
			return false
		}
		fallthrough
	case "(/.*)", "(/.+)", "/.*":
		if !x.open() {
			return false
		}
		if stands = "/{path}"; tail == "(?:/(.*))?" {
			stands = "{path}"
		}
	default:
		return false
	}
	x.endSegment()
	x.from = append(x.from, segment{star: true})
	x.groups++
	x.names[fmt.Sprint(x.groups)] = stands
	return true
}
