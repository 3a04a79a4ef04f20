// Package rulefile reads and writes the rules of a link as a YAML file that people edit.
package rulefile

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"waypost/api"
)

// MaxSize bounds a file, in bytes.
const MaxSize = 256 << 10

// File holds all that a link decides on beyond its target.
type File struct {
	State      string     `json:"state,omitzero"` // entity tag of the link that it was written for; "": any
	ValidFrom  time.Time  `json:"valid_from,omitzero"`
	ExpiredURL string     `json:"expired_url,omitzero"`
	Rules      []api.Rule `json:"rules,omitzero"`
}

// Of returns the file of a link in a state.
func Of(l *api.Link, state string) File {
	f := File{State: state, ExpiredURL: l.ExpiredURL, Rules: l.Rules}
	if l.ValidFrom != nil {
		f.ValidFrom = *l.ValidFrom
	}
	return f
}

// Change returns the change that makes a link decide as the file says, and on nothing
// else.
func (f *File) Change() (c api.LinkChange) {
	c.Rules, c.ValidFrom, c.ExpiredURL = api.Reset[[]api.Rule](), api.Reset[time.Time](), api.Reset[string]()
	if len(f.Rules) > 0 {
		c.Rules = api.Set(f.Rules)
	}
	if !f.ValidFrom.IsZero() {
		c.ValidFrom = api.Set(f.ValidFrom)
	}
	if f.ExpiredURL != "" {
		c.ExpiredURL = api.Set(f.ExpiredURL)
	}
	return c
}

// ReadDay returns the time of a day, such as 2030-12-31, in a field of a file.
type ReadDay func(field, day string) (time.Time, error)

// Parse reads a file. An error names the file, the line and the column, and shows the
// place below. Unknown fields are errors.
func Parse(name string, text []byte, day ReadDay) (f File, err error) {
	if len(text) > MaxSize {
		return f, fmt.Errorf("%s: more than %d bytes", name, MaxSize)
	}
	parsed, err := parser.ParseBytes(text, 0)
	if err != nil {
		return f, explain(name, err)
	}
	switch {
	case len(parsed.Docs) > 1:
		return f, fmt.Errorf("%s: more than one document", name)
	case len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil:
		return f, fmt.Errorf("%s: the file is empty", name)
	}
	days := days{read: day}
	if ast.Walk(&days, parsed.Docs[0].Body); days.err != nil {
		return f, fmt.Errorf("%s: %w", name, days.err)
	}
	if err := yaml.NodeToValue(parsed.Docs[0].Body, &f, yaml.Strict(), yaml.CustomUnmarshaler(parseTime)); err != nil {
		if bad, ok := errors.AsType[*timeError](err); ok { // the decoder does not say where
			before, _, _ := bytes.Cut(text, []byte(bad.text))
			return File{}, fmt.Errorf("%s:%d: %w", name, 1+bytes.Count(before, []byte("\n")), bad)
		}
		return File{}, explain(name, err)
	}
	return f, nil
}

// days replaces the days in fields with times.
type days struct {
	read ReadDay
	err  error
}

// Visit implements ast.Visitor.
func (d *days) Visit(n ast.Node) ast.Visitor {
	field, ok := n.(*ast.MappingValueNode)
	if !ok || !slices.Contains([]string{"valid_from", "from", "until"}, field.Key.String()) {
		return d
	}
	if text, ok := field.Value.(*ast.StringNode); ok && api.IsDay(text.Value) {
		at, err := d.read(field.Key.String(), text.Value)
		d.err = errors.Join(d.err, err)
		text.Token.Origin = at.Format(time.RFC3339) // which the decoder passes on
	}
	return d
}

// parseTime reads a time as the API does. The decoder would take any other text for none.
func parseTime(to *time.Time, text []byte) (err error) {
	value := strings.Trim(strings.TrimSpace(string(text)), `"'`)
	if *to, err = api.ParseTime(value); err != nil {
		return &timeError{value}
	}
	return nil
}

type timeError struct{ text string }

func (e *timeError) Error() string {
	return fmt.Sprintf("%.40q is no time such as 2026-12-01T09:00:00+01:00, and no day such as 2026-12-01", e.text)
}

// explain turns an error of the decoder into "FILE:LINE:COLUMN: FAULT", with the place
// below.
func explain(name string, err error) error {
	bad, ok := errors.AsType[yaml.Error](err)
	if !ok || bad.GetToken() == nil || bad.GetToken().Position == nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	at, message := bad.GetToken().Position, bad.GetMessage()
	if m := wrongType.FindStringSubmatch(message); m != nil {
		given, kind := m[1], m[2]
		message = "expected " + kinds[kind]
		switch {
		case kinds[kind] == "":
			message = "this is no value for the field"
		case kind == "string" && strings.HasPrefix(given, "map["):
			message += `; one with a colon, such as "mon-fri 09:00-17:30", needs quotation marks`
		}
	}
	_, place, _ := strings.Cut(bad.FormatError(false, true), "\n")
	return fmt.Errorf("%s:%d:%d: %s\n%s", name, at.Line, at.Column, message, strings.TrimRight(place, "\n"))
}

var wrongType = regexp.MustCompile(`^cannot unmarshal (.*) of type (\S+)$`)

var kinds = map[string]string{"int": "a whole number", "string": "a text", "bool": "true or false", "time.Time": "a time such as 2026-12-01T09:00:00+01:00"}

// place finds the field that an error of the API names, such as rules[1].when[0].agent.
var place = regexp.MustCompile(`(?:body\.)?((?:rules(?:\[\d+\]|\.\w+)*)|valid_from|expired_url)`)

// Where returns the line of a file that an error of the API is about, 0 when it names
// none.
func Where(text []byte, message string) int {
	m := place.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	parsed, err := parser.ParseBytes(text, 0)
	if err != nil {
		return 0
	}
	// A missing field has the line of the object that lacks it.
	for path := m[1]; path != ""; path = path[:max(strings.LastIndexAny(path, ".["), 0)] {
		at, err := yaml.PathString("$." + path)
		if err != nil {
			continue
		}
		node, err := at.FilterFile(parsed)
		if err == nil && node != nil && node.GetToken() != nil && node.GetToken().Position != nil {
			return node.GetToken().Position.Line
		}
	}
	return 0
}

// Format writes a file, with comments that explain it. Link names the link.
func (f *File) Format(link string) []byte {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "# What the link %s decides on. After a change:\n#   waypost links rules %s --set FILE\n", link, link)
	if f.State != "" {
		b.WriteString("# The state that this file was written for: a link that has changed since is not\n" +
			"# touched. Without this line the file is set in any case.\n")
	}
	b.WriteString(encoded(File{State: f.State}))
	if f.ValidFrom.IsZero() {
		b.WriteString("# valid_from: 2026-12-01T09:00:00+01:00  # before, the link answers 404\n")
	} else {
		b.WriteString("# Before this moment the link answers 404.\n" + encoded(File{ValidFrom: f.ValidFrom}))
	}
	if f.ExpiredURL == "" {
		b.WriteString("# expired_url: https://example.com/over  # once the link has expired; otherwise 410\n")
	} else {
		b.WriteString("# Where visitors are led once the link has expired.\n" + encoded(File{ExpiredURL: f.ExpiredURL}))
	}
	if len(f.Rules) == 0 {
		b.WriteString(example)
		return []byte(b.String())
	}
	b.WriteString("# The first rule whose conditions all hold decides; without one the link's target\n" +
		"# does. Numbers (id) name rules and variants in statistics: keep them.\n" + encoded(File{Rules: f.Rules}))
	return []byte(b.String())
}

// example stands in the place of rules.
const example = `# The first rule whose conditions all hold decides; without one the link's target does.
# rules:
#   - name: iPhones in Germany and Austria
#     when:
#       - agent: [ios]
#       - country: [DE, AT]
#     to: https://example.com/ios
#   - name: a split of all others
#     split:
#       by: visitor  # or cookie, or none
#       variants:
#         - {name: old page, weight: 70, to: https://example.com/old}
#         - {name: new page, weight: 30, to: https://example.com/new}
`

// encoded encodes a part of a file, "" for none.
func encoded(f File) string {
	if f.State == "" && f.ValidFrom.IsZero() && f.ExpiredURL == "" && len(f.Rules) == 0 {
		return ""
	}
	text, err := yaml.MarshalWithOptions(f, yaml.Indent(2), yaml.IndentSequence(true))
	if err != nil {
		panic("rulefile: " + err.Error()) // texts, numbers and times can be encoded
	}
	return string(text)
}
