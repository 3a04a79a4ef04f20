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
	"sync"

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
	d := decoders.Get().(*decoder)
	defer d.release()
	d.dec.Reset(bytes.NewBuffer(text))
	d.path = append(d.path, segment{name: at})
	if err := d.value(s, reflect.ValueOf(v).Elem()); err != nil {
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

// decoder reads values by their schemas. Its methods return an error for text that cannot
// be read, and collect all other faults.
type decoder struct {
	dec   *jsontext.Decoder
	path  []segment // of the value that is read, from the outside
	wrong fieldErrors
}

// segment is a step of a path: a member, or, with an empty name, an item.
type segment struct {
	name  string
	index int
}

var decoders = sync.Pool{New: func() any { return &decoder{dec: jsontext.NewDecoder(&bytes.Buffer{})} }}

// release keeps the decoder for another text, and nothing of this one.
func (d *decoder) release() {
	d.dec.Reset(&bytes.Buffer{})
	d.path, d.wrong = d.path[:0], nil
	decoders.Put(d)
}

func (d *decoder) fault(message string) {
	var at strings.Builder
	for i, step := range d.path {
		switch {
		case i == 0:
			at.WriteString(step.name)
		case step.name == "":
			fmt.Fprintf(&at, "[%d]", step.index)
		default:
			at.WriteString("." + step.name)
		}
	}
	d.wrong = append(d.wrong, api.FieldError{Location: at.String(), Message: message})
}

// within calls read for a value one step further.
func (d *decoder) within(step segment, read func() error) error {
	d.path = append(d.path, step)
	err := read()
	d.path = d.path[:len(d.path)-1]
	return err
}

func (d *decoder) value(s *schema, v reflect.Value) error {
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
		return d.object(s, v)
	case kindArray:
		return d.array(s, v)
	case kindMap:
		return d.names(s, v)
	case kindRaw:
		return d.raw(v)
	}
	return d.scalar(s, v)
}

// names reads an object that has any names.
func (d *decoder) names(s *schema, v reflect.Value) error {
	if ok, err := d.expect('{', "object"); err != nil || !ok {
		return err
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	v.Set(reflect.MakeMap(v.Type()))
	for d.dec.PeekKind() == '"' {
		name, err := d.dec.ReadToken()
		if err != nil {
			return err
		}
		key, value := name.String(), reflect.New(v.Type().Elem()).Elem()
		err = d.within(segment{name: shortened(key)}, func() error { return d.value(s.AdditionalProperties.(*schema), value) })
		if err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(key), value)
	}
	_, err := d.dec.ReadToken()
	return err
}

// expect reports whether the next value is of a kind, and passes over it otherwise.
func (d *decoder) expect(kind jsontext.Kind, name string) (bool, error) {
	switch found := d.dec.PeekKind(); found {
	case kind:
		return true, nil
	case 0, '}', ']':
		return true, nil // reading on returns the error
	}
	d.fault("expected " + name)
	return false, d.dec.SkipValue()
}

func (d *decoder) object(s *schema, v reflect.Value) error {
	if ok, err := d.expect('{', "object"); err != nil || !ok {
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
			err := d.within(segment{name: shortened(name)}, func() error { d.fault(s.unknown); return d.dec.SkipValue() })
			if err != nil {
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
		d.path = append(d.path, segment{name: m.name})
		if err := d.value(m.schema, v.FieldByIndex(m.index)); err != nil {
			return err
		}
		d.path = d.path[:len(d.path)-1]
	}
	for i := range s.list {
		if s.list[i].required && seen&(1<<i) == 0 {
			_ = d.within(segment{name: s.list[i].name}, func() error { d.fault("required"); return nil })
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

func (d *decoder) array(s *schema, v reflect.Value) error {
	if ok, err := d.expect('[', "array"); err != nil || !ok {
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
		d.path = append(d.path, segment{index: n})
		if err := d.value(s.Items, v.Index(n)); err != nil {
			return err
		}
		d.path = d.path[:len(d.path)-1]
	}
	switch {
	case s.MaxItems != nil && n > *s.MaxItems:
		d.fault(fmt.Sprintf("expected at most %d items", *s.MaxItems))
	case s.MinItems != nil && n < *s.MinItems:
		d.fault(fmt.Sprintf("expected at least %d items", *s.MinItems))
	case s.UniqueItems && s.Items.kind == kindString:
		texts := slices.Clone(v.Interface().([]string))
		if slices.Sort(texts); len(slices.Compact(texts)) < n {
			d.fault("expected different items")
		}
	}
	_, err := d.dec.ReadToken()
	return err
}

func (d *decoder) scalar(s *schema, v reflect.Value) error {
	switch s.kind {
	case kindBoolean:
		kind := d.dec.PeekKind()
		if kind == 't' {
			kind = 'f'
		}
		if kind != 'f' {
			_, err := d.expect('f', "boolean")
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
		return d.number(s, v)
	}
	if ok, err := d.expect('"', "string"); err != nil || !ok {
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
		t, err := api.ParseTime(text)
		if err != nil {
			fault = noTime
		}
		v.Set(reflect.ValueOf(t))
	default:
		v.SetString(text)
		fault = s.fault(v)
	}
	if fault != "" {
		d.fault(fault)
	}
	return nil
}

func (d *decoder) number(s *schema, v reflect.Value) error {
	name := "number"
	if s.kind == kindInteger {
		name = "an integer in plain digits"
	}
	if ok, err := d.expect('0', name); err != nil || !ok {
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
		d.fault("expected " + name)
		return nil
	}
	if fault := s.fault(v); fault != "" {
		d.fault(fault)
	}
	return nil
}

const (
	noNUL   = "the character NUL is not allowed"
	noTime  = "expected an RFC 3339 time, such as 2030-12-31T23:59:59Z"
	tooDeep = "the body is nested too deeply"
)

// raw keeps an object as it is, without white space.
func (d *decoder) raw(v reflect.Value) error {
	if ok, err := d.expect('{', "object"); err != nil || !ok {
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
				d.fault(noNUL)
				return nil
			}
		case '0':
			if !inRange(token) {
				d.fault("a number is out of range")
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
	name = strings.ToValidUTF8(name, "\uFFFD") // of a query; an answer cannot hold anything else
	if r := []rune(name); len(r) > most {
		return string(r[:most]) + "…"
	}
	return name
}
