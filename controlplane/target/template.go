package target

import (
	"strings"

	"waypost"
)

// CheckTemplate checks the target of a pattern, in which placeholders in braces stand for
// parts of a visitor's address. Names are the names of the pattern. Next to the errors of
// Check, it returns EInvalid for a placeholder before the path, and for a name that the
// pattern does not have. The placeholders stay as they are in Location.
func (r Rules) CheckTemplate(original string, names []string) (Target, error) {
	invalid := func(format string, args ...any) (Target, error) {
		return Target{}, waypost.Errorf(waypost.EInvalid, format, args...)
	}
	first := strings.IndexByte(original, '{')
	if first < 0 {
		return r.Check(original)
	}
	_, behind, _ := strings.Cut(original[:first], "://")
	if lacksScheme(original) {
		behind = original[:first]
	}
	if !strings.ContainsAny(behind, "/?#") {
		return invalid("a placeholder of a target must be in its path, query or fragment, and never in its scheme, user or host")
	}
	t, err := r.Check(original)
	if err != nil {
		return Target{}, err
	}
	rest := t.Original[strings.IndexByte(t.Original, '{'):]
	location := []byte(t.Location[:len(t.Location)-waypost.EncodedLen(rest)])
	probe := waypost.Visit{Held: make([]waypost.Held, len(names))}
	for i, name := range names {
		probe.Held[i] = waypost.Held{Name: []byte(name), Value: []byte("x")}
	}
	for {
		literal, more, opens := strings.Cut(rest, "{")
		location = waypost.AppendEncoded(location, literal)
		if !opens {
			break
		}
		name, more, closes := strings.Cut(more, "}")
		if !closes || !knownName(name, names) {
			return invalid("the target has the placeholder %s, and the pattern has %s; parameters of the visitor are {query.NAME}, and a brace itself is %%7B",
				quote("{"+name+"}"), "{"+strings.Join(names, "}, {")+"}")
		}
		location = append(append(append(location, '{'), name...), '}')
		rest = more
	}
	t.Location = string(location)
	if res, _ := (waypost.Resolution{Status: 302, Location: location, Link: true}).Follow(nil, &probe); res.Status != 302 {
		return invalid("the path of a target with placeholders must have no segment . or .., and no escape that is cut off")
	}
	return t, nil
}

// knownName reports whether a name in a target is a name of its pattern, or of a
// visitor's parameter.
func knownName(name string, names []string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	parameter, ok := strings.CutPrefix(name, waypost.QueryPrefix)
	return ok && parameter != "" && len(parameter) <= maxParameter && strings.Trim(parameter, parameterBytes) == ""
}

// Bounds of the name of a visitor's parameter in a target.
const (
	maxParameter   = 64
	parameterBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~[]"
)
