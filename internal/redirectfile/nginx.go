package redirectfile

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// word is a word of an nginx configuration: a directive, an argument, {, } or ;.
type word struct {
	text   string
	line   int
	quoted bool
}

// readNginx reads map blocks of $uri or $request_uri, rewrite with redirect or permanent,
// and return in a location of one path. It passes over all other directives.
func (b *builder) readNginx(text string) error {
	words, err := nginxWords(text)
	if err != nil {
		return err
	}
	x := nginx{b: b, statuses: map[string]int{}, queries: map[string]bool{}}
	// A map does not say which status its targets are sent with: a return does.
	x.walk(words, func(d, _ []word) { x.noteReturn(d) })
	x.walk(words, x.directive)
	return nil
}

// queryVariables are ways to add the visitor's query to a target.
var queryVariables = []string{"$is_args$args", "?$args", "$is_args$query_string", "?$query_string"}

// nginx reads the directives of a configuration.
type nginx struct {
	b        *builder
	statuses map[string]int  // by variable, of the return that sends it
	queries  map[string]bool // variables to which a return adds the visitor's query
}

func is(directive []word, name string) bool { return len(directive) > 0 && directive[0].text == name }

// walk calls visit for each directive that ends with a semicolon, with the directive
// of the block around it.
func (x *nginx) walk(words []word, visit func(directive, inner []word)) {
	in := [][]word{nil}
	begin := 0
	for i, w := range words {
		if w.quoted {
			continue
		}
		switch w.text {
		case "{":
			in, begin = append(in, words[begin:i]), i+1
		case "}":
			in, begin = in[:max(len(in)-1, 1)], i+1
		case ";":
			if i > begin {
				visit(words[begin:i], in[len(in)-1])
			}
			begin = i + 1
		}
	}
}

// noteReturn notes the status with which a return sends a variable.
func (x *nginx) noteReturn(d []word) {
	if len(d) != 3 || d[0].text != "return" || !strings.HasPrefix(d[2].text, "$") {
		return
	}
	name := d[2].text
	for _, query := range queryVariables {
		if trimmed, ok := strings.CutSuffix(name, query); ok {
			name = trimmed
			x.queries[name] = true
		}
	}
	if status, err := strconv.Atoi(d[1].text); err == nil {
		x.statuses[name] = status
	}
}

func (x *nginx) directive(d, inner []word) {
	switch {
	case is(inner, "map"):
		x.b.add(x.mapRule(d, inner))
	case d[0].text == "rewrite":
		x.b.add(x.rewriteRule(d, inner))
	case d[0].text == "return":
		x.b.add(x.returnRule(d, inner))
	}
}

// mapRule reads a line of a map.
func (x *nginx) mapRule(d, head []word) rule {
	r := rule{line: d[0].line, status: 302}
	if len(head) != 3 || head[1].text != "$uri" && head[1].text != "$request_uri" {
		return r.refuse("the map is not one of $uri or $request_uri")
	}
	if !d[0].quoted && (d[0].text == "hostnames" || d[0].text == "volatile") {
		return rule{}
	}
	if len(d) != 2 || d[0].text == "include" {
		return r.refuse("a map has lines of an address and a target: import a file that it includes separately")
	}
	key, to := d[0].text, d[1].text
	if key == "default" && !d[0].quoted {
		if to == "" {
			return rule{}
		}
		return r.refuse("the default of a map is not_found_url of the domain")
	}
	r.forwardQuery = x.queries[head[2].text]
	if status, target, ok := strings.Cut(to, " "); ok && len(status) == 3 { // as Write writes it
		r.status, _ = strconv.Atoi(status)
		to = target
	} else if status, ok := x.statuses[head[2].text]; ok {
		r.status = status
	} else {
		x.b.note("the file says with no return which status the map " + head[2].text + " has: its links get 302")
	}
	var names map[string]string
	switch {
	case strings.HasPrefix(key, "~*"):
		r.refused = "the regular expression ignores case: let the domain ignore it (case: insensitive), and import the line with ~"
	case strings.HasPrefix(key, "~"):
		r.from, names, r.refused = pathOfRegexp(key[1:])
	case !strings.HasPrefix(key, "/"):
		r.refused = "the address does not begin with a slash"
	case strings.Contains(key, "?"):
		r.refused = "the address has a query: give the link a rule with a condition on its query"
	default:
		from, err := splitPath(strings.ReplaceAll(key, "%", "%25")) // $uri is decoded
		if head[1].text == "$request_uri" {
			from, err = splitPath(key)
		}
		if r.from = from; err != nil {
			r.refused = err.Error()
		}
		x.b.note("nginx ignores the case of addresses in a map, and a link does so only on a domain with case: insensitive")
	}
	if r.refused == "" {
		r.refused = x.setTarget(&r, to, names)
	}
	r.inOrder = strings.HasPrefix(key, "~")
	return r
}

// rewriteRule reads rewrite REGEXP TARGET [FLAG].
func (x *nginx) rewriteRule(d, in []word) rule {
	r := rule{line: d[0].line, status: 302, inOrder: true}
	if is(in, "if") {
		return r.refuse("it is within an if, which a link does not have: give the link rules")
	}
	if len(d) < 3 || len(d) > 4 {
		return r.refuse("a rewrite has a regular expression, a target and perhaps a flag")
	}
	flag := ""
	if len(d) == 4 {
		flag = d[3].text
	}
	to, silent := strings.CutSuffix(d[2].text, "?")
	switch {
	case flag == "permanent":
		r.status = 301
	case flag == "redirect":
	case !strings.HasPrefix(to, "http://") && !strings.HasPrefix(to, "https://") && !strings.HasPrefix(to, "$scheme"):
		return r.refuse("it changes the address within nginx, and redirects no visitor")
	}
	r.forwardQuery = !silent
	var names map[string]string
	if r.from, names, r.refused = pathOfRegexp(d[1].text); r.refused == "" {
		r.refused = x.setTarget(&r, to, names)
	}
	return r
}

// returnRule reads the return of location = PATH.
func (x *nginx) returnRule(d, in []word) rule {
	r := rule{line: d[0].line, status: 302}
	to := d[len(d)-1].text
	if len(d) == 3 {
		r.status, _ = strconv.Atoi(d[1].text)
	}
	switch {
	case len(d) < 2 || len(d) > 3 || r.status/100 != 3 && len(d) == 3, len(d) == 2 && !strings.Contains(to, "://"):
		return rule{} // no redirect
	case strings.HasPrefix(to, "$") && x.statuses[to] != 0, x.queries[strings.TrimSuffix(to, "$is_args$args")]:
		return rule{} // of a map, whose lines are read
	case !is(in, "location") || len(in) != 3 || in[1].text != "=":
		return r.refuse("it is not within location = and a path: say it as a pattern, or as the root_url or not_found_url of the domain")
	}
	from, err := splitPath(strings.ReplaceAll(in[2].text, "%", "%25"))
	if err != nil {
		return r.refuse("%v", err)
	}
	r.from, r.refused = from, x.setTarget(&r, to, nil)
	return r
}

// setTarget sets the target of a rule. Placeholders take the place of groups, and the
// site takes the place of the present host. It refuses other variables.
func (x *nginx) setTarget(r *rule, to string, names map[string]string) (reason string) {
	for _, query := range queryVariables {
		if before, after, ok := strings.Cut(to, query); ok {
			to, r.forwardQuery = before+after, true
		}
	}
	for _, here := range []string{"$scheme://$host", "$scheme://$server_name", "https://$host", "http://$host", "https://$server_name"} {
		if rest, ok := strings.CutPrefix(to, here); ok && (rest == "" || rest[0] == '/') {
			to = "/" + strings.TrimPrefix(rest, "/")
			break
		}
	}
	to = fillNames(to, '$', names)
	if i := strings.IndexByte(to, '$'); i >= 0 {
		end := i + 1
		for end < len(to) && isName(to[end]) {
			end++
		}
		return fmt.Sprintf("the target has the variable %s, which a link does not know", to[i:end])
	}
	r.to = to
	return ""
}

// nginxWord matches blanks, a comment, or a word of a configuration at the beginning of a
// text.
var nginxWord = regexp.MustCompile(`(?s)^(?:\s+|#[^\n]*|[{};]|"(?:\\["\\]|[^"])*"|'(?:\\['\\]|[^'])*'|` +
	`(?:\\.?|\$\{|[^\s;{}"'\\])(?:\\.?|\$\{|[^\s;{\\])*)`)

// nginxWords divides a configuration into words.
func nginxWords(text string) (words []word, err error) {
	for line := 1; text != ""; {
		found := nginxWord.FindString(text)
		if found == "" {
			return nil, fmt.Errorf("line %d: a quotation mark is not closed", line)
		}
		switch quote := found[:1]; quote {
		case " ", "\t", "\r", "\n", "\f", "#":
		case `"`, "'":
			plain := strings.NewReplacer(`\\`, `\`, `\`+quote, quote).Replace(found[1 : len(found)-1])
			words = append(words, word{plain, line, true})
		default:
			words = append(words, word{found, line, false})
		}
		text, line = text[len(found):], line+strings.Count(found, "\n")
	}
	return words, nil
}
