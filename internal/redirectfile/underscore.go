package redirectfile

import (
	"slices"
	"strconv"
	"strings"
)

// readUnderscore reads a file _redirects: lines with a path, a target, and perhaps a
// status and conditions.
func (b *builder) readUnderscore(f Format) {
	b.starMayBeEmpty = f == Netlify
	for i, text := range b.file.Lines {
		words := strings.Fields(text)
		if comment := slices.IndexFunc(words, func(w string) bool { return w[0] == '#' }); comment >= 0 {
			words = words[:comment]
		}
		if len(words) > 0 {
			b.add(underscoreRule(i+1, f, words))
		}
	}
}

func underscoreRule(line int, f Format, words []string) rule {
	r := rule{line: line, status: 302, inOrder: true}
	if f == Netlify {
		r.status = 301
	}
	from := words[0]
	words = words[1:]
	if strings.Contains(from, "://") {
		r.host, from = hostAndPath(from)
	}
	from, _, _ = strings.Cut(from, "#") // browsers keep it to themselves
	// Netlify has the parameters of a query between the path and the target.
	if len(words) > 1 && strings.Contains(words[0], "=") && !strings.HasPrefix(words[0], "/") && !strings.Contains(words[0], "://") {
		return r.refuse("it depends on the query (%s): give the link a rule with a condition on its query", words[0])
	}
	switch {
	case from != "" && from[0] != '/':
		return r.refuse("the path %.60q does not begin with a slash", from)
	case strings.Contains(from, "?"):
		return r.refuse("no path holds a question mark: give the link a rule with a condition on its query")
	case len(words) == 0:
		return r.refuse("it has no target")
	}
	to := words[0]
	if words = words[1:]; len(words) > 0 {
		status, err := strconv.Atoi(strings.TrimSuffix(words[0], "!"))
		switch {
		case err != nil || len(words) > 1:
			return r.refuse("it has a condition (%s): give the link rules for countries and languages", words[len(words)-1])
		case status == 200:
			return r.refuse("the status 200 answers with another page's content, and a link only redirects")
		case status == 404 || status == 410:
			return r.refuse("the status %d is no redirect: an address without a link answers 404, a disabled link 410", status)
		}
		r.status = status
	}
	var names map[string]string
	r.from, names, r.refused = underscorePath(from)
	r.to = fillNames(to, ':', names)
	r.forwardQuery = f == Netlify || !strings.Contains(to, "?") // Pages keeps the query of a target that has one
	return r
}

// underscorePath reads a path with :name and *. Names maps what a target calls a
// placeholder to what stands for it.
func underscorePath(path string) (from []segment, names map[string]string, reason string) {
	from, err := splitPath(path)
	if err != nil {
		return nil, nil, err.Error()
	}
	names = make(map[string]string)
	for i, s := range from {
		switch {
		case s.text == "*" && i == len(from)-1:
			from[i] = segment{star: true}
			names["splat"] = "{path}"
		case strings.Contains(s.text, "*"):
			return nil, nil, "* is possible as the last segment only"
		case strings.HasPrefix(s.text, ":"):
			name := placeholder(s.text[1:])
			if name == "" {
				return nil, nil, "a placeholder is a whole segment, its name has letters, digits and _, and is not path: " + s.text
			}
			if _, twice := names[s.text[1:]]; twice {
				return nil, nil, "two placeholders have one name"
			}
			from[i] = segment{name: name}
			names[s.text[1:]] = "{" + name + "}"
		}
	}
	return from, names, ""
}

// fillNames replaces the names behind a mark in the target of a pattern. Names are nil
// for a link that is no pattern. A name ends where its letters end, so that $env_id has
// nothing of $env.
func fillNames(to string, mark byte, names map[string]string) string {
	if names == nil {
		return to
	}
	var out strings.Builder
	for len(to) > 0 {
		i := strings.IndexByte(to, mark)
		if i < 0 {
			i = len(to)
		}
		out.WriteString(literally.Replace(to[:i]))
		if to = to[i:]; to == "" {
			break
		}
		end := 1
		for end < len(to) && isName(to[end]) {
			if end++; '0' <= to[1] && to[1] <= '9' {
				break // a group has one digit
			}
		}
		if with, ok := names[to[1:end]]; ok && end > 1 {
			out.WriteString(with)
		} else {
			out.WriteString(to[:end])
		}
		to = to[end:]
	}
	return out.String()
}

func isName(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}
