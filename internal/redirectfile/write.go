package redirectfile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
)

// Link is a link to write.
type Link struct {
	Code         string // or pattern
	Target       string
	Status       int
	ForwardPath  bool
	ForwardQuery bool
	More         string // what the link does besides redirecting, which no file can say; "": nothing
}

// Unsaid is a link that a file cannot say.
type Unsaid struct{ Code, Reason string }

// written is a link on its way into a file.
type written struct {
	Link
	way []segment // with * for forwarded paths
	to  string    // with {path} for them
}

// Write writes the links of one domain as _redirects, for Netlify and Cloudflare Pages,
// or as a map of nginx, and returns the links that the file cannot say. Where the first
// line of a file decides, the lines are in the order in which visitors meet the links.
func Write(w io.Writer, f Format, links []Link) ([]Unsaid, error) {
	var all []written
	var unsaid []Unsaid
	for _, l := range links {
		x := written{Link: l, way: segmentsOf(l.Code), to: l.Target}
		pattern := isPattern(x.way)
		switch {
		case l.More != "":
			unsaid = append(unsaid, Unsaid{l.Code, l.More})
			continue
		case pattern && strings.Contains(l.Target, "{query."):
			unsaid = append(unsaid, Unsaid{l.Code, "its target takes a parameter of the visitor's query"})
			continue
		case l.ForwardPath:
			x.way = append(x.way, segment{star: true})
			x.to = appendPath(literally.Replace(l.Target))
		case !pattern:
			x.to = literally.Replace(l.Target)
		}
		all = append(all, x)
	}
	slices.SortStableFunc(all, func(a, b written) int { return order(a.way, b.way) })
	out := bufio.NewWriter(w)
	if f == Nginx {
		unsaid = append(unsaid, writeNginx(out, all)...)
	} else {
		unsaid = append(unsaid, writeUnderscore(out, all)...)
	}
	return unsaid, out.Flush()
}

// order is the order in which visitors meet links: at each segment a literal, a
// placeholder, *.
func order(a, b []segment) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if d := cmp.Or(a[i].rank()-b[i].rank(), cmp.Compare(a[i].text, b[i].text)); d != 0 {
			return d
		}
	}
	return len(a) - len(b)
}

// segmentsOf reads a code or a pattern.
func segmentsOf(code string) []segment {
	var way []segment
	for part := range strings.SplitSeq(code, "/") {
		switch {
		case part == "*":
			way = append(way, segment{star: true})
		case strings.HasPrefix(part, "{"):
			way = append(way, segment{name: strings.Trim(part, "{}")})
		default:
			way = append(way, segment{text: part})
		}
	}
	return way
}

// fill puts what stands for the placeholders of a way into a target, and reports whether
// that can be read again: a text of the target may look like a placeholder.
func (x *written) fill(mark byte, name func(i int, s segment) string) (to string, ok bool) {
	names := make(map[string]string)
	to = x.to
	for i, s := range x.way {
		if s.rank() == 0 {
			continue
		}
		in, out := "{"+s.name+"}", name(i, s)
		if s.star {
			in = "{path}"
		}
		names[out] = in
		to = strings.ReplaceAll(to, in, string(mark)+out)
	}
	return to, fillNames(to, mark, names) == x.to
}

const lookAlike = "a text of its target looks like a placeholder of the file"

func writeUnderscore(out *bufio.Writer, all []written) (unsaid []Unsaid) {
	for i := range all {
		x := &all[i]
		to, ok := x.fill(':', func(_ int, s segment) string {
			if s.star {
				return "splat"
			}
			return s.name
		})
		if !ok {
			unsaid = append(unsaid, Unsaid{x.Code, lookAlike})
			continue
		}
		path := ""
		for _, s := range x.way {
			switch {
			case s.star:
				path += "/*"
			case s.name != "":
				path += "/:" + s.name
			default:
				path += "/" + url.PathEscape(s.text)
			}
		}
		_, _ = fmt.Fprintln(out, path, to, x.Status) // the writer keeps an error until Flush
	}
	return unsaid
}

// nginxHead is the beginning of a map. One map has all statuses, so that the order of its
// regular expressions is the order in which visitors meet the links.
const nginxHead = `# For the http block. In the server block, for each status that is used:
# if ($redirect ~ "^301 (.+)$") { return 301 $1; }
map $uri $redirect {
`

// writeNginx writes a map from addresses to a status and a target. In a map nginx ignores
// the case of strings, so that codes which differ by case alone become regular
// expressions.
func writeNginx(out *bufio.Writer, all []written) (unsaid []Unsaid) {
	folded := make(map[string]int)
	for i := range all {
		folded[strings.ToLower(all[i].Code)]++
	}
	_, _ = out.WriteString(nginxHead) // the writer keeps an error until Flush
	for i := range all {
		x := &all[i]
		to, reason := nginxTarget(x)
		if reason != "" {
			unsaid = append(unsaid, Unsaid{x.Code, reason})
			continue
		}
		key := "/" + x.Code
		if isPattern(x.way) || folded[strings.ToLower(x.Code)] > 1 {
			key = nginxRegexp(x.way)
		}
		_, _ = fmt.Fprintf(out, "    \"%s\" \"%d %s\";\n", strings.ReplaceAll(key, `\`, `\\`), x.Status, to)
	}
	_, _ = out.WriteString("}\n")
	return unsaid
}

// nginxTarget returns the target of a link for nginx, or why there is none.
func nginxTarget(x *written) (to, reason string) {
	group := 0
	to, ok := x.fill('$', func(int, segment) string { group++; return fmt.Sprint(group) })
	switch {
	case !ok || group > 9 || strings.ContainsAny(x.Target, "$\"\\"):
		return "", "its target has a character that nginx reads in another way"
	case x.ForwardQuery && strings.Contains(to, "?"):
		return "", "it adds the visitor's query to a query of its own"
	case x.ForwardQuery:
		address, fragment, found := strings.Cut(to, "#")
		if to = address + "$is_args$args"; found {
			to += "#" + fragment
		}
	}
	return to, ""
}

func nginxRegexp(way []segment) string {
	re := "~^"
	for _, s := range way {
		switch {
		case s.star && len(way) == 1:
			re += "/(.*)"
		case s.star:
			re += "(?:/(.*))?"
		case s.name != "":
			re += "/([^/]+)"
		default:
			re += "/" + quoteRegexp(s.text)
		}
	}
	return re + "$"
}

// quoteRegexp quotes the characters that a code may have and a regular expression reads
// in another way.
func quoteRegexp(text string) string { return strings.ReplaceAll(text, ".", `\.`) }
