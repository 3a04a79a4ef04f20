// Package redirectfile reads the redirects of a whole site, as other servers have them in
// their files, as links and patterns, and writes links as such files. Every line that
// cannot be said as a link is named with its number and the reason. It decides nothing
// about the links: the API checks them as it checks others.
package redirectfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"waypost"
)

// Format names the format of a file.
type Format string

// The formats.
const (
	Netlify         Format = "netlify"          // _redirects, 301 without a status
	CloudflarePages Format = "cloudflare-pages" // _redirects, 302 without a status
	CloudflareBulk  Format = "cloudflare-bulk"  // CSV of bulk redirects, without a header
	Nginx           Format = "nginx"            // map, rewrite, and return in a location
	Apache          Format = "apache"           // Redirect and RedirectMatch
)

// Formats lists the formats that can be read.
func Formats() []Format {
	return []Format{Netlify, CloudflarePages, CloudflareBulk, Nginx, Apache}
}

// MaxFile bounds a file, in bytes: 400,000 lines of usual length.
const MaxFile = 64 << 20

// maxCompared bounds the comparisons of lines with the patterns before them, which take
// half a second.
const maxCompared = 40e6

// Redirect is a redirect of a file.
type Redirect struct {
	Line         int    // of the file, from 1
	Host         string // "": the file names no host
	Code         string // custom code or pattern
	Target       string // absolute URL, with {name} and {path} for what a pattern holds
	Status       int    // 301, 302, 307 or 308
	ForwardPath  bool
	ForwardQuery bool
	Reason       string // why the line cannot be said as a link, and has a number alone; "": it can
}

// File holds all that was read, by line.
type File struct {
	Redirects []Redirect
	Lines     []string // of the text, from the first one
	Notes     []string // what is true of many lines, such as an option that no link has
}

// Read reads a file. Site is the address of the site that targets without a host are on,
// such as https://www.example.com; "": such lines are refused. An error says that the
// file as a whole cannot be read.
func Read(r io.Reader, f Format, site string) (*File, error) {
	var read strings.Builder
	_, err := io.Copy(&read, io.LimitReader(r, MaxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the file: %w", err)
	case read.Len() > MaxFile:
		return nil, fmt.Errorf("the file is larger than %d MiB", MaxFile>>20)
	case !utf8.ValidString(read.String()):
		return nil, errors.New("the text is not in UTF-8")
	}
	text := strings.TrimPrefix(read.String(), "\uFEFF")
	b := builder{site: strings.TrimSuffix(site, "/"), seen: make(map[string]int)}
	b.file.Lines = strings.Split(text, "\n")
	switch f {
	case CloudflareBulk:
		err = b.readBulk(text)
	case Nginx:
		err = b.readNginx(text)
	case Apache:
		b.readApache()
	default:
		b.readUnderscore(f)
	}
	slices.SortStableFunc(b.file.Redirects, func(a, b Redirect) int { return cmp.Compare(a.Line, b.Line) })
	return &b.file, err
}

// builder gathers a file.
type builder struct {
	file     File
	site     string
	seen     map[string]int // line of the first redirect of a host and shape
	patterns []rule         // redirects with placeholders or *, in the order of the file

	compared int // how often a line was compared with a pattern before it

	starMayBeEmpty bool // a/* is also a, which Netlify alone says
}

// segment is a part of a path between slashes.
type segment struct {
	text string // literal, decoded
	name string // of a placeholder; "": it is no placeholder
	star bool   // it holds any number of segments
}

// rank orders segments as visitors meet them: a literal, a placeholder, *.
func (s segment) rank() int {
	switch {
	case s.star:
		return 2
	case s.name != "":
		return 1
	}
	return 0
}

func isPattern(way []segment) bool {
	return slices.ContainsFunc(way, func(s segment) bool { return s.rank() > 0 })
}

// rule is a redirect of the file before it is a link.
type rule struct {
	line         int
	host         string
	from         []segment
	prefix       bool   // all addresses below the path are meant too, and keep their rest
	to           string // {name} and {path} stand for what from holds
	status       int
	forwardQuery bool
	inOrder      bool   // the first line of the file that fits an address decides, as on most servers
	refused      string // why the line cannot be said as a link; "": it can
}

// refuse returns the rule with a reason against it.
func (r rule) refuse(format string, args ...any) rule {
	r.refused = fmt.Sprintf(format, args...)
	return r
}

// note adds a note once.
func (b *builder) note(text string) {
	if !slices.Contains(b.file.Notes, text) {
		b.file.Notes = append(b.file.Notes, text)
	}
}

// add adds a redirect, or why it is refused. A rule without a line is none.
func (b *builder) add(r rule) {
	if r.line == 0 {
		return
	}
	if r.refused == "" {
		r = b.addLink(r)
	}
	if r.refused != "" {
		b.file.Redirects = append(b.file.Redirects, Redirect{Line: r.line, Reason: r.refused})
	}
}

func (b *builder) addLink(r rule) rule {
	switch {
	case len(r.from) == 0 && !r.prefix:
		return r.refuse("it is the root of the domain, which has a target of its own: root_url of the domain")
	case !slices.Contains([]int{301, 302, 307, 308}, r.status):
		return r.refuse("a link has the status 301, 302, 307 or 308, and not %d", r.status)
	}
	for _, s := range r.from {
		if s.rank() == 0 && strings.ContainsAny(s.text, "*{}/") {
			return r.refuse("the segment %.60q of the path has a character that no code has", s.text)
		}
	}
	if r = b.withHost(r); r.refused != "" {
		return r
	}
	if r.prefix && len(r.from) == 0 { // the root with all below it
		r.from, r.prefix = []segment{{star: true}}, false
		r.to = appendPath(r.to)
	}
	key := r.host + "/" + shape(r.from)
	if first, ok := b.seen[key]; ok {
		return r.refuse("line %d has the same address", first)
	}
	if r.inOrder {
		b.compared += len(b.patterns)
	}
	if b.compared > maxCompared {
		return r.refuse("the file has too many patterns to be compared: import it in parts")
	}
	for _, e := range b.patterns {
		if r.inOrder && e.host == r.host && b.overlap(e.from, r.from) && order(r.from, e.from) < 0 {
			return r.refuse("line %d comes first for an address that both fit, and here this line would: the most literal path decides", e.line)
		}
	}
	b.seen[key] = r.line
	way := r
	if r.prefix {
		way.from = append(slices.Clone(r.from), segment{star: true})
	}
	if isPattern(way.from) {
		b.patterns = append(b.patterns, way)
	}
	b.file.Redirects = append(b.file.Redirects, Redirect{
		Line: r.line, Host: r.host, Code: codeOf(r.from), Target: r.to, Status: r.status, ForwardPath: r.prefix, ForwardQuery: r.forwardQuery,
	})
	return r
}

// withHost returns a rule whose target has a host.
func (b *builder) withHost(r rule) rule {
	switch {
	case strings.HasPrefix(r.to, "http://"), strings.HasPrefix(r.to, "https://"):
	case strings.HasPrefix(r.to, "//"):
		r.to = "https:" + r.to
	case !strings.HasPrefix(r.to, "/"):
		return r.refuse("the target %.80q is neither a URL nor a path", r.to)
	case b.site == "":
		return r.refuse("the target is a path: say with --site on which site it is, such as https://www.example.com")
	default:
		r.to = b.site + r.to
	}
	return r
}

// appendPath adds {path} to the path of a target.
func appendPath(to string) string {
	end := strings.IndexAny(to, "?#")
	if end < 0 {
		end = len(to)
	}
	return strings.TrimSuffix(to[:end], "/") + "/{path}" + to[end:]
}

// codeOf returns the code or pattern of a path.
func codeOf(from []segment) string {
	parts := make([]string, len(from))
	for i, s := range from {
		switch {
		case s.star:
			parts[i] = "*"
		case s.name != "":
			parts[i] = "{" + s.name + "}"
		default:
			parts[i] = s.text
		}
	}
	return strings.Join(parts, "/")
}

// shape is the path without the names of its placeholders.
func shape(from []segment) string {
	nameless := slices.Clone(from)
	for i := range nameless {
		if nameless[i].name != "" {
			nameless[i].name = "_"
		}
	}
	return codeOf(nameless)
}

// overlap reports whether an address fits both paths.
func (b *builder) overlap(a, c []segment) bool {
	for i := 0; ; i++ {
		switch {
		case i < len(a) && a[i].star:
			return i < len(c) || b.starMayBeEmpty
		case i < len(c) && c[i].star:
			return i < len(a) || b.starMayBeEmpty
		case i == len(a) || i == len(c):
			return len(a) == len(c)
		case a[i].rank() == 0 && c[i].rank() == 0 && a[i].text != c[i].text:
			return false
		}
	}
}

// splitPath divides a percent-encoded path into literal segments. A slash at its end is
// left out: visitors with and without it get the same link.
func splitPath(path string) (from []segment, err error) {
	path = strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/")
	if path == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(path, "/") {
		text, err := url.PathUnescape(part)
		if err != nil {
			return nil, fmt.Errorf("the path has a percent sign without two hexadecimal digits: %.60q", part)
		}
		from = append(from, segment{text: text})
	}
	return from, nil
}

// literally writes the braces of a target so that they are no placeholders.
var literally = strings.NewReplacer("{", "%7B", "}", "%7D")

// placeholder returns the name of a placeholder as patterns have it, "" for one that
// cannot be.
func placeholder(name string) string {
	name = strings.ToLower(name)
	for i, c := range []byte(name) {
		if c != '_' && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return ""
		}
	}
	if len(name) > 32 || name == "path" {
		return ""
	}
	return name
}

// hostAndPath divides an absolute URL, with or without its scheme.
func hostAndPath(s string) (host, path string) {
	if i := strings.Index(s, "://"); i >= 0 {
		s = s[i+len("://"):]
	}
	i := strings.IndexAny(s, "/?#")
	if i < 0 {
		i = len(s)
	}
	return waypost.HostName(s[:i]), s[i:]
}
