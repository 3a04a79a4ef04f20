package linkfile

import (
	"bufio"
	"bytes"
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
	seen  map[string]bool // names of the shape, and those that are in no row

	lines *lineSource // nil: the objects are in text
	text  *bufio.Reader
	line  int // of text
}

func newJSONRows(text *bufio.Reader, begin []byte, shape *Shape) (*jsonRows, error) {
	shape.Layout, shape.Raw = JSON, true
	r := &jsonRows{shape: shape, seen: make(map[string]bool)}
	trimmed := bytes.TrimSpace(begin)
	first, _, _ := bytes.Cut(trimmed, []byte("\n"))
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
		switch name := token.String(); {
		case slices.Contains(lists, name) && dec.PeekKind() == '[', name == "shortUrls" && dec.PeekKind() == '{':
		default:
			if err := dec.SkipValue(); err != nil {
				return 0, false
			}
		}
	}
}

func (r *jsonRows) next() (Row, error) {
	var row Row
	if r.lines != nil {
		text, reason, err := r.lines.nextText()
		if err != nil {
			return row, err
		}
		row = Row{Line: r.lines.line, Cells: []string{text}, Reason: reason}
	} else {
		text, reason, err := r.object()
		if err != nil {
			return row, err
		}
		row = Row{Line: r.line - strings.Count(text, "\n"), Cells: []string{strings.ReplaceAll(text, "\n", " ")}, Reason: reason}
	}
	if row.Reason == "" && utf8.ValidString(row.Cells[0]) {
		object := jsontext.Value(row.Cells[0])
		if err := object.Compact(); err != nil {
			row.refuse(jsonFault(err).Error())
		} else if row.Cells[0], err = r.nameValues(object); err != nil {
			row.refuse(err.Error())
		}
	}
	return row, nil
}

// object reads the next object of an array. It returns the beginning of an object above
// the limit of a row, and why the object is refused.
func (r *jsonRows) object() (text, reason string, err error) {
	var object []byte
	depth, inText, escaped, long := 0, false, false, false
	for {
		c, err := r.text.ReadByte()
		switch {
		case errors.Is(err, io.EOF) && depth > 0:
			return string(object), "the JSON has no end", nil
		case err != nil:
			return "", "", readFault(err)
		case c == '\n':
			r.line++
		}
		if depth == 0 {
			switch c {
			case ' ', '\t', '\r', '\n', ',':
				continue
			case ']':
				return "", "", io.EOF
			case '{':
			default:
				return "", "", fmt.Errorf("line %d: %w: %q is no object of JSON", r.line, ErrUnreadable, c)
			}
		}
		if long = len(object) >= maxRow; !long {
			object = append(object, c)
		}
		switch {
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
		switch {
		case depth > 0:
		case long:
			return strings.ToValidUTF8(string(object[:maxReason]), ""), fmt.Sprintf("the object is longer than %d bytes", maxRow), nil
		default:
			return string(object), "", nil
		}
	}
}

// nameValues adds the names of an object to the shape, and returns the object without the
// values that are in no row.
func (r *jsonRows) nameValues(object []byte) (kept string, err error) {
	var out []string
	left := false
	err = members(object, "", func(name string, _ jsontext.Value) error {
		top, _, _ := strings.Cut(name, ".")
		plain := plainName(top)
		isPersonal := slices.Contains(personal, plain)
		if isPersonal || plain == refusedColumn {
			left, name = true, top
		}
		if err := checkName(name); err != nil {
			return err
		}
		if !r.seen[name] {
			if len(r.seen) == maxColumns {
				return fmt.Errorf("the objects of the file have more than %d names, and %.60q is one more", maxColumns, name)
			}
			r.seen[name] = true
			if isPersonal {
				r.shape.Personal = append(r.shape.Personal, name)
			} else if plain != refusedColumn {
				r.shape.Columns = append(r.shape.Columns, name)
			}
		}
		return nil
	})
	if err != nil || !left {
		return string(object), err
	}
	err = eachMember(object, func(name string, raw jsontext.Value) error {
		if plain := plainName(name); plain != refusedColumn && !slices.Contains(personal, plain) {
			quoted, err := jsontext.AppendQuote(nil, name)
			out = append(out, string(quoted)+":"+string(raw))
			return err
		}
		return nil
	})
	return "{" + strings.Join(out, ",") + "}", err
}

// members calls a function with the names and values of an object. Names within an object
// follow its name and a dot, unless it is one value.
func members(object []byte, prefix string, call func(name string, raw jsontext.Value) error) error {
	return eachMember(object, func(name string, raw jsontext.Value) error {
		if raw.Kind() == '{' && prefix == "" && !slices.Contains(whole, plainName(name)) {
			return members(raw, name+".", call)
		}
		return call(prefix+name, raw)
	})
}

// eachMember calls a function with the names and values of an object.
func eachMember(object []byte, call func(name string, raw jsontext.Value) error) error {
	dec := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowInvalidUTF8(true))
	if kind := dec.PeekKind(); kind != '{' && kind != jsontext.KindInvalid {
		return fmt.Errorf("expected an object, and there is %s", kinds[kind])
	}
	if _, err := dec.ReadToken(); err != nil {
		return jsonFault(err)
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return jsonFault(err)
		}
		text := name.String()
		raw, err := dec.ReadValue()
		if err != nil {
			return jsonFault(err)
		}
		if err := call(text, raw); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return jsonFault(err)
	}
	if dec.InputOffset() != int64(len(object)) {
		return errors.New("something follows the object")
	}
	return nil
}

// jsonFault describes a fault of JSON in words.
func jsonFault(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the JSON has no end")
	}
	return errors.New("no valid JSON: " + strings.TrimPrefix(err.Error(), "jsontext: "))
}

// jsonValue returns a value of JSON as a cell has it: null is an empty one. An object in
// a list stands for its name.
func jsonValue(raw jsontext.Value) (value, error) {
	switch raw.Kind() {
	case 'n':
		return value{}, nil
	case '"':
		text, err := jsontext.AppendUnquote(nil, raw)
		return value{text: string(text)}, err
	case '[':
		return listValue(raw)
	}
	return value{text: string(raw)}, nil
}

func listValue(raw jsontext.Value) (value, error) {
	v := value{text: string(raw), list: []string{}}
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != ']' {
		var element jsontext.Value
		if element, err = dec.ReadValue(); err != nil {
			break
		}
		switch element.Kind() {
		case '"':
			var text []byte
			text, err = jsontext.AppendUnquote(nil, element)
			v.list = append(v.list, string(text))
		case '{':
			name := ""
			err = eachMember(element, func(of string, raw jsontext.Value) error {
				if of == "name" && raw.Kind() == '"' {
					text, err := jsontext.AppendUnquote(nil, raw)
					name = string(text)
					return err
				}
				return nil
			})
			if name == "" {
				return value{text: v.text}, err
			}
			v.list = append(v.list, name)
		default:
			return value{text: v.text}, nil
		}
	}
	return v, err
}

// setObject sets the values of an object.
func (m *Mapper) setObject(d *draft, object string) error {
	return members([]byte(object), "", func(name string, raw jsontext.Value) error {
		set, known := m.names[name]
		switch {
		case !known && raw.Kind() != 'n':
			return fmt.Errorf("the row has %.60q, which is not in the mapping", name)
		case set == nil:
			return nil
		}
		v, err := jsonValue(raw)
		if err != nil {
			return jsonFault(err)
		}
		if strings.IndexByte(v.text, 0) >= 0 {
			return errors.New(nul)
		}
		return set(d, v)
	})
}
