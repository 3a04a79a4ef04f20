package linkfile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// lists are the names under which services keep the links of a file or of an answer.
var lists = []string{"links", "data", "items", "bitlinks"}

// whole are the names of objects that are one value. Of other objects each name has a
// value.
var whole = []string{"metadata", "geo", "countryurls", "rules", "aliases", "tags"}

// jsonRows reads objects of JSON: one from each line, or those of an array.
type jsonRows struct {
	shape *Shape
	seen  map[string]bool // names in the shape, and others

	lines *lineSource // nil: the objects are in text
	text  *bufio.Reader
	line  int // of text
}

func newJSONRows(text *bufio.Reader, begin []byte, shape *Shape) (*jsonRows, error) {
	shape.Layout, shape.Raw = JSON, true
	r := &jsonRows{shape: shape, seen: make(map[string]bool)}
	first, _, _ := bytes.Cut(bytes.TrimSpace(begin), []byte("\n"))
	at, isArray := arrayIn(begin)
	if !isArray && (bytes.HasSuffix(bytes.TrimSpace(first), []byte("}")) || !bytes.HasPrefix(first, []byte("{"))) {
		r.lines = newLineSource(text)
		return r, nil
	}
	r.text, r.line = text, 1+bytes.Count(begin[:at], []byte("\n"))
	_, err := text.Discard(at) // it was there
	return r, err
}

// arrayIn returns the place behind the bracket that opens the array of the links.
func arrayIn(begin []byte) (at int, found bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(begin))
	for {
		token, err := dec.ReadToken()
		switch {
		case err != nil, token.Kind() == '}' && dec.StackDepth() == 0:
			return 0, false
		case token.Kind() == '[':
			return int(dec.InputOffset()), true
		case token.Kind() != '"' || dec.StackDepth() == 0:
			continue
		}
		name, kind := token.String(), dec.PeekKind()
		if (kind != '[' || !slices.Contains(lists, name)) && (kind != '{' || name != "shortUrls") && dec.SkipValue() != nil {
			return 0, false
		}
	}
}

func (r *jsonRows) next() (row Row, err error) {
	var text string
	if r.lines != nil {
		text, row.Reason, err = r.lines.nextText()
		row.Line = r.lines.line
	} else {
		text, row.Reason, err = r.object()
		row.Line = r.line - strings.Count(text, "\n")
		text = strings.ReplaceAll(text, "\n", " ")
	}
	if err != nil {
		return Row{}, err
	}
	row.Cells = []string{text}
	if row.Reason == "" && utf8.ValidString(text) {
		object := jsontext.Value(text)
		if err = object.Compact(); err == nil {
			row.Cells[0], err = r.nameValues(object)
		}
		if err != nil {
			row.refuse(jsonFault(err))
		}
	}
	return row, nil
}

// object reads the next object of an array. It returns the beginning of an object above
// the limit of a row, and why the object is refused.
func (r *jsonRows) object() (text, reason string, err error) {
	var object []byte
	for depth, inText, escaped := 0, false, false; ; {
		c, err := r.text.ReadByte()
		switch {
		case errors.Is(err, io.EOF) && depth > 0:
			return string(object), "the JSON has no end", nil
		case err != nil:
			return "", "", readFault(r.line, err)
		case c == '\n':
			r.line++
		}
		switch {
		case depth == 0 && strings.IndexByte(" \t\r\n,", c) >= 0:
			continue
		case depth == 0 && c == ']':
			return "", "", io.EOF
		case depth == 0 && c != '{':
			return "", "", fmt.Errorf("line %d: %w: %q is no object of JSON", r.line, ErrUnreadable, c)
		case escaped:
			escaped = false
		case inText:
			inText, escaped = c != '"', c == '\\'
		case c == '"':
			inText = true
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			depth--
		}
		if len(object) <= maxRow {
			object = append(object, c)
		}
		switch {
		case depth > 0:
		case len(object) > maxRow:
			return strings.ToValidUTF8(string(object[:maxReason]), ""), fmt.Sprintf("the object is longer than %d bytes", maxRow), nil
		default:
			return string(object), "", nil
		}
	}
}

// nameValues adds the names of an object to the shape, and returns the object without the
// values that are in no row.
func (r *jsonRows) nameValues(object jsontext.Value) (kept string, err error) {
	var out []string
	err = members(object, false, func(name string, raw jsontext.Value) error {
		switch plain := plainName(name); {
		case slices.Contains(personal, plain):
			return r.addName(name, &r.shape.Personal)
		case plain == refusedColumn:
			return nil
		}
		quoted, err := jsontext.AppendQuote(nil, name)
		out = append(out, string(quoted)+":"+string(raw))
		return err
	})
	kept = "{" + strings.Join(out, ",") + "}"
	if err == nil {
		err = members([]byte(kept), true, func(name string, _ jsontext.Value) error { return r.addName(name, &r.shape.Columns) })
	}
	if err != nil {
		return string(object), err
	}
	return kept, nil
}

// addName adds a name that was not seen before.
func (r *jsonRows) addName(name string, to *[]string) error {
	switch {
	case r.seen[name]:
		return nil
	case len(r.seen) == maxColumns:
		return fmt.Errorf("the objects of the file have more than %d names, and %.60q is one more", maxColumns, name)
	}
	r.seen[name] = true
	*to = append(*to, name)
	return checkName(name)
}

// members calls a function with the names and values of an object. Deep, names within an
// object follow its name and a dot, unless the object is one value.
func members(object jsontext.Value, deep bool, call func(name string, raw jsontext.Value) error) error {
	if object.Kind() != '{' {
		return fmt.Errorf("expected an object, and there is %s", kinds[object.Kind()])
	}
	dec := jsontext.NewDecoder(bytes.NewReader(object))
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != '}' {
		var token jsontext.Token
		if token, err = dec.ReadToken(); err != nil {
			break
		}
		name := token.String()
		var raw jsontext.Value
		if raw, err = dec.ReadValue(); err != nil {
			break
		}
		if deep && raw.Kind() == '{' && !slices.Contains(whole, plainName(name)) {
			err = members(raw, false, func(inner string, raw jsontext.Value) error { return call(name+"."+inner, raw) })
		} else {
			err = call(name, raw)
		}
	}
	return err
}

// jsonFault describes a fault of JSON in words.
func jsonFault(err error) string {
	if bad, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return "the JSON has no end"
		}
		return "no valid JSON: " + strings.TrimPrefix(bad.Error(), "jsontext: ")
	}
	return err.Error()
}

// jsonValue returns a value of JSON as a cell has it: null is an empty one. An object in
// a list stands for its name.
func jsonValue(raw []byte) (v value, err error) {
	var decoded any
	if err := json.Unmarshal(raw, &decoded); err != nil {
		return v, err
	}
	switch of := decoded.(type) {
	case nil:
		return v, nil
	case string:
		return value{text: of}, nil
	case []any:
		v.list = []string{}
		for _, element := range of {
			if object, ok := element.(map[string]any); ok {
				element = object["name"]
			}
			text, ok := element.(string)
			if !ok {
				return value{text: string(raw)}, nil
			}
			v.list = append(v.list, text)
		}
	}
	v.text = string(raw)
	return v, nil
}

// setObject sets the values of an object.
func (m *Mapper) setObject(d *draft, object string) error {
	return members([]byte(object), true, func(name string, raw jsontext.Value) error {
		set, known := m.names[name]
		switch {
		case !known && raw.Kind() != 'n':
			return fmt.Errorf("the row has %.60q, which is not in the mapping", name)
		case set == nil:
			return nil
		}
		v, err := jsonValue(raw)
		if err == nil && strings.IndexByte(v.text, 0) >= 0 {
			err = errors.New(nul)
		}
		if err != nil {
			return err
		}
		return set(d, v)
	})
}
