package redirectfile

import (
	"regexp"
	"strconv"
	"strings"
)

// apacheStatus has the words that Apache has for statuses.
var apacheStatus = map[string]int{"permanent": 301, "temp": 302, "seeother": 303, "gone": 410}

// readApache reads Redirect, RedirectPermanent, RedirectTemp and RedirectMatch. It passes
// over the other directives, and refuses the rules of mod_rewrite.
func (b *builder) readApache() {
	for i := 0; i < len(b.file.Lines); i++ {
		line, text := i+1, b.file.Lines[i]
		for strings.HasSuffix(text, `\`) && i+1 < len(b.file.Lines) {
			i++
			text = strings.TrimSuffix(text, `\`) + b.file.Lines[i]
		}
		words, ok := apacheWords(text)
		if !ok {
			b.add(rule{line: line, refused: "a quotation mark is not closed"})
			continue
		}
		if len(words) > 0 {
			b.add(apacheRule(line, strings.ToLower(words[0]), words[1:]))
		}
	}
}

// apacheRule returns the rule of a directive; without a line: the directive is none.
func apacheRule(line int, directive string, words []string) rule {
	r := rule{line: line, status: 302, forwardQuery: true, inOrder: true}
	switch directive {
	case "redirect", "redirectmatch":
		if len(words) == 0 {
			break
		}
		n, err := strconv.Atoi(words[0])
		switch status, word := apacheStatus[strings.ToLower(words[0])]; {
		case word:
			r.status, words = status, words[1:]
		case err == nil:
			r.status, words = n, words[1:]
		}
	case "redirectpermanent":
		r.status = 301
	case "redirecttemp":
	case "rewriterule", "rewritecond", "rewritemap":
		return r.refuse("rules of mod_rewrite are not read: say it as RedirectMatch, or as a pattern")
	default:
		return rule{}
	}
	switch {
	case r.status == 410:
		return r.refuse("the status 410 is no redirect: disable a link, or leave it out")
	case len(words) != 2:
		return r.refuse("a path and a target are expected behind the status")
	}
	r.to = words[1]
	if directive == "redirectmatch" {
		var names map[string]string
		r.from, names, r.refused = pathOfRegexp(words[0])
		r.to = fillNames(r.to, '$', names)
	} else {
		if !strings.HasPrefix(words[0], "/") {
			return r.refuse("the path %.60q does not begin with a slash", words[0])
		}
		from, err := splitPath(words[0])
		if err != nil {
			return r.refuse("%v", err)
		}
		r.from, r.prefix = from, true
	}
	return r
}

var apacheWord = regexp.MustCompile(`"[^"]*"?|\S+`)

// apacheWords divides a line into words, which may be in quotation marks.
func apacheWords(text string) (words []string, ok bool) {
	for _, w := range apacheWord.FindAllString(text, -1) {
		switch {
		case w[0] == '#':
			return words, true
		case w[0] == '"' && (len(w) == 1 || !strings.HasSuffix(w, `"`)):
			return nil, false
		case w[0] == '"':
			w = w[1 : len(w)-1]
		}
		words = append(words, w)
	}
	return words, true
}
