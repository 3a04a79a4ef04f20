package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waypost"
	"waypost/api"
)

const (
	// maxDepth bounds the nesting of arrays and objects in metadata.
	maxDepth = 32

	// maxExponent bounds the exponent of a number in metadata, so that both a float64
	// and PostgreSQL's numeric can hold it.
	maxExponent = 308
)

// encode writes v as JSON with a final newline. Text is not escaped for HTML, so that
// URLs stay readable.
func encode(to []byte, v any) ([]byte, error) {
	buf := bytes.NewBuffer(to)
	if err := jsonv2.MarshalWrite(buf, v, jsonv2.Deterministic(true)); err != nil {
		return nil, err
	}
	buf.WriteByte('\n')
	return buf.Bytes(), nil
}

// decode reads one JSON value into v, judged by its schema. At is its location in the
// body, such as "body.links[3]".
//
// Text that is not JSON is EMalformed; so are duplicate names, invalid UTF-8, lone
// surrogates and deep nesting. Names are matched exactly. Unknown names, values outside
// of the schema, and NUL, which PostgreSQL cannot store, are EInvalid. No error holds a
// value of the body.
func (s *schema) decode(text []byte, v any, at string) error {
	d := decoder{dec: jsontext.NewDecoder(bytes.NewBuffer(text))}
	if err := d.value(s, reflect.ValueOf(v).Elem(), &location{name: at}); err != nil {
		return malformed(err)
	}
	if _, err := d.dec.ReadToken(); err != io.EOF { //nolint:errorlint // never wrapped
		return malformed(err)
	}
	if len(d.wrong) > 0 {
		return d.wrong.sorted()
	}
	return nil
}

// malformed describes text that cannot be read, without repeating any of it.
func malformed(err error) error {
	at, what := int64(0), "the body is not JSON"
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = syntax.ByteOffset
		switch cause := syntax.Err.Error(); {
		case errors.Is(err, jsontext.ErrDuplicateName):
			what = "a name occurs twice in one object"
		case strings.Contains(cause, "UTF-8"):
			what = "the body is not valid UTF-8"
		case strings.Contains(cause, "surrogate"):
			what = "the body has half of a surrogate pair"
		case strings.Contains(cause, "depth"):
			what = tooDeep
		}
	}
	return waypost.WrapError(waypost.EMalformed, fmt.Sprintf("%s, at byte %d", what, at+1), err)
}

// location is a value's place in a body, from the inside to the outside.
type location struct {
	outer *location
	name  string // of a member, or of the body
	index int    // of an item, where name is empty
}

func (l *location) String() string {
	switch {
	case l.outer == nil:
		return l.name
	case l.name == "":
		return l.outer.String() + "[" + strconv.Itoa(l.index) + "]"
	}
	return l.outer.String() + "." + l.name
}

// decoder reads values by their schemas. Its methods return an error for text that cannot
// be read, and collect what is wrong otherwise.
type decoder struct {
	dec   *jsontext.Decoder
	wrong fieldErrors
}

func (d *decoder) fault(at *location, message string) {
	d.wrong = append(d.wrong, api.FieldError{Location: at.String(), Message: message})
}

func (d *decoder) value(s *schema, v reflect.Value, at *location) error {
	if s.nullable && d.dec.PeekKind() == 'n' {
		if s.field {
			v.Field(0).SetBool(true)
		}
		return d.dec.SkipValue()
	}
	if s.field {
		v.Field(0).SetBool(true)
		v = v.Field(1)
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if s.target != nil {
		s = s.target
	}
	switch s.kind {
	case kindObject:
		return d.object(s, v, at)
	case kindArray:
		return d.array(s, v, at)
	case kindRaw:
		return d.raw(v, at)
	}
	return d.scalar(s, v, at)
}

// expect reports whether the next value is of a kind, and passes over it otherwise.
func (d *decoder) expect(kind jsontext.Kind, name string, at *location) (bool, error) {
	switch found := d.dec.PeekKind(); found {
	case kind:
		return true, nil
	case 0, '}', ']':
		return true, nil // reading on returns the error
	}
	d.fault(at, "expected "+name)
	return false, d.dec.SkipValue()
}

func (d *decoder) object(s *schema, v reflect.Value, at *location) error {
	if ok, err := d.expect('{', "object", at); err != nil || !ok {
		return err
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	var seen uint64 // at most 64 members
	for d.dec.PeekKind() == '"' {
		i, name, err := d.name(s)
		if err != nil {
			return err
		}
		if i < 0 {
			d.fault(&location{outer: at, name: shortened(name)}, unknownField)
			if err := d.dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		m := &s.list[i]
		seen |= 1 << i
		if !m.required && !m.schema.nullable && !m.schema.field && d.dec.PeekKind() == 'n' { // as if it were left out
			if err := d.dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if err := d.value(m.schema, v.FieldByIndex(m.index), &location{outer: at, name: m.name}); err != nil {
			return err
		}
	}
	for i := range s.list {
		if s.list[i].required && seen&(1<<i) == 0 {
			d.fault(&location{outer: at, name: s.list[i].name}, "required")
		}
	}
	_, err := d.dec.ReadToken()
	return err
}

// name reads the name of a member, and returns the place of its field, -1 for none.
func (d *decoder) name(s *schema) (place int, name string, err error) {
	quoted, err := d.dec.ReadValue()
	if err != nil {
		return 0, "", err
	}
	if i, ok := s.members[string(quoted[1:len(quoted)-1])]; ok { // without escapes
		return i, "", nil
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return 0, "", err
	}
	if i, ok := s.members[string(text)]; ok {
		return i, "", nil
	}
	return -1, string(text), nil
}

func (d *decoder) array(s *schema, v reflect.Value, at *location) error {
	if ok, err := d.expect('[', "array", at); err != nil || !ok {
		return err
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	n := 0
	for ; d.dec.PeekKind() != ']' && d.dec.PeekKind() != 0; n++ {
		if s.MaxItems != nil && n >= *s.MaxItems { // nothing is kept of what is too much
			if err := d.dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		v.Grow(1)
		v.SetLen(n + 1)
		if err := d.value(s.Items, v.Index(n), &location{outer: at, index: n}); err != nil {
			return err
		}
	}
	switch {
	case s.MaxItems != nil && n > *s.MaxItems:
		d.fault(at, fmt.Sprintf("expected at most %d items", *s.MaxItems))
	case s.MinItems != nil && n < *s.MinItems:
		d.fault(at, fmt.Sprintf("expected at least %d items", *s.MinItems))
	case s.UniqueItems && s.Items.kind == kindString:
		texts := slices.Clone(v.Interface().([]string))
		if slices.Sort(texts); len(slices.Compact(texts)) < n {
			d.fault(at, "expected different items")
		}
	}
	_, err := d.dec.ReadToken()
	return err
}

func (d *decoder) scalar(s *schema, v reflect.Value, at *location) error {
	switch s.kind {
	case kindBoolean:
		kind := d.dec.PeekKind()
		if kind == 't' {
			kind = 'f'
		}
		if kind != 'f' {
			_, err := d.expect('f', "boolean", at)
			if kind == 0 {
				_, err = d.dec.ReadToken()
			}
			return err
		}
		token, err := d.dec.ReadToken()
		if err == nil {
			v.SetBool(token.Bool())
		}
		return err
	case kindInteger, kindNumber:
		return d.number(s, v, at)
	}
	if ok, err := d.expect('"', "string", at); err != nil || !ok {
		return err
	}
	token, err := d.dec.ReadToken()
	if err != nil {
		return err
	}
	text := token.String()
	fault := ""
	switch {
	case strings.IndexByte(text, 0) >= 0:
		fault = noNUL
	case s.kind == kindTime:
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			fault = "expected an RFC 3339 time"
		}
		v.Set(reflect.ValueOf(t))
	default:
		v.SetString(text)
		fault = s.fault(v)
	}
	if fault != "" {
		d.fault(at, fault)
	}
	return nil
}

func (d *decoder) number(s *schema, v reflect.Value, at *location) error {
	name := "number"
	if s.kind == kindInteger {
		name = "an integer in plain digits"
	}
	if ok, err := d.expect('0', name, at); err != nil || !ok {
		return err
	}
	token, err := d.dec.ReadToken()
	if err != nil {
		return err
	}
	switch {
	case s.kind == kindNumber:
		var n float64
		n, err = token.Float()
		v.SetFloat(n)
	case v.CanInt():
		var n int64
		n, err = token.Int()
		v.SetInt(n)
	default:
		var n uint64
		if n, err = token.Uint(); err == nil && v.OverflowUint(n) {
			err = strconv.ErrRange
		}
		v.SetUint(n)
	}
	if err != nil {
		d.fault(at, "expected "+name)
		return nil
	}
	if fault := s.fault(v); fault != "" {
		d.fault(at, fault)
	}
	return nil
}

const (
	unknownField = "unknown field"
	noNUL        = "the character NUL is not allowed"
	tooDeep      = "the body is nested too deeply"
)

// raw keeps an object as it is, without white space.
func (d *decoder) raw(v reflect.Value, at *location) error {
	if ok, err := d.expect('{', "object", at); err != nil || !ok {
		return err
	}
	text, err := d.dec.ReadValue()
	if err != nil {
		return err
	}
	kept := text.Clone()
	if err := kept.Compact(); err != nil {
		return err
	}
	inner := jsontext.NewDecoder(bytes.NewReader(kept))
	for {
		token, err := inner.ReadToken()
		if err == io.EOF { //nolint:errorlint // never wrapped
			break
		}
		if err != nil {
			return err
		}
		if inner.StackDepth() > maxDepth {
			return &jsontext.SyntacticError{ByteOffset: d.dec.InputOffset(), Err: errors.New("exceeds the depth")}
		}
		switch token.Kind() {
		case '"':
			if strings.IndexByte(token.String(), 0) >= 0 {
				d.fault(at, noNUL)
				return nil
			}
		case '0':
			if !inRange(token) {
				d.fault(at, "a number is out of range")
				return nil
			}
		}
	}
	v.Set(reflect.ValueOf(json.RawMessage(kept)))
	return nil
}

func inRange(number jsontext.Token) bool {
	text := number.String()
	if _, err := strconv.ParseFloat(text, 64); err != nil {
		return false
	}
	i := strings.IndexAny(text, "eE")
	if i < 0 {
		return true
	}
	exponent, err := strconv.Atoi(text[i+1:])
	return err == nil && -maxExponent <= exponent && exponent <= maxExponent
}

// shortened cuts a name that a client made up, for an error.
func shortened(name string) string {
	const most = 64
	if r := []rune(name); len(r) > most {
		return string(r[:most]) + "…"
	}
	return name
}
