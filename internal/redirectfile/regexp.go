package redirectfile

import (
	"fmt"
	"regexp"
	"strings"
)

// Reasons why a regular expression is no pattern.
const (
	notAtStart = "the regular expression does not begin with ^/, so that it fits in the middle of addresses, too"
	notAtEnd   = "the regular expression has no $ at its end, so that it also fits addresses which only begin so"
	notAPart   = "the regular expression says more than a pattern can: a segment as it is, ([^/]+) for any one, (.*) at the end"
)

var (
	// anySegments matches an end of a regular expression that fits any number of segments.
	// Without $ an optional end would fit all that begins so.
	anySegments = regexp.MustCompile(`(?:(?:\(/\.\*\)|\(\?:/\(\.\*\)\)|\(\?:/\.\*\))\?\$|(?:\(/\.[*+]\)|/\(\.[*+]\)|/\.[*+])\$?)$`)

	// literalPart matches a segment of literal characters.
	literalPart = regexp.MustCompile(`^(?:\\\W|[^\\.+*?()|\[\]{}^$])+$`)
	escaped     = regexp.MustCompile(`\\(.)`)

	// oneSegment replaces a group that fits a segment.
	oneSegment = strings.NewReplacer("([^/]+)", "\x00", "([^/]*)", "\x00")
)

// pathOfRegexp reads the regular expressions that patterns can say: literal characters,
// ([^/]+) as a segment, and (.*), (.+) or (/.*)? at the end. Names maps the numbers of
// groups to what stands for them in a target.
func pathOfRegexp(re string) (from []segment, names map[string]string, reason string) {
	rest, anchored := strings.CutPrefix(re, "^")
	if rest == "(.*)$" {
		rest = "(/.*)$"
	}
	switch {
	case strings.HasPrefix(re, "(?i)"):
		return nil, nil, "the regular expression ignores case: let the domain ignore it (case: insensitive), and import the line without (?i)"
	case !anchored || rest != "(/.*)$" && !strings.HasPrefix(rest, "/"):
		return nil, nil, notAtStart
	}
	names = make(map[string]string)
	tail, isPrefix := anySegments.FindString(rest), false
	if rest = strings.TrimSuffix(rest, tail); tail == "" {
		path, atEnd := strings.CutSuffix(rest, "$")
		isPrefix = !atEnd && len(path) > 1 && strings.HasSuffix(path, "/") // all that begins with a path and a slash
		if !atEnd && !isPrefix || strings.HasSuffix(path, `\`) {
			return nil, nil, notAtEnd
		}
		rest = strings.TrimSuffix(strings.TrimSuffix(path, "/?"), "/")
	}
	for _, part := range strings.Split(oneSegment.Replace(rest), "/")[1:] {
		switch {
		case part == "\x00":
			n := len(names) + 1
			from = append(from, segment{name: fmt.Sprintf("p%d", n)})
			names[fmt.Sprint(n)] = fmt.Sprintf("{p%d}", n)
		case strings.Contains(part, "\x00"):
			return nil, nil, "a placeholder is a whole segment"
		case !literalPart.MatchString(part):
			return nil, nil, notAPart
		default:
			from = append(from, segment{text: escaped.ReplaceAllString(part, "$1")})
		}
	}
	if tail == "" && !isPrefix {
		return from, names, ""
	}
	if tail != "" {
		stands := "{path}"
		if strings.HasPrefix(tail, "(/") {
			stands = "/{path}"
		}
		names[fmt.Sprint(len(names)+1)] = stands
	}
	return append(from, segment{star: true}), names, ""
}
