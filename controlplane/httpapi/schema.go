package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"waypost/api"
)

// schema describes the JSON values of a Go type within the limits that its tags set. The
// OpenAPI document shows the exported fields; requests are judged by the same schema.
type schema struct {
	Ref                  string             `json:"$ref,omitzero"`
	AnyOf                []*schema          `json:"anyOf,omitzero"`
	Type                 any                `json:"type,omitzero"` // a string, or a list with "null"
	Description          string             `json:"description,omitzero"`
	Format               string             `json:"format,omitzero"`
	Pattern              string             `json:"pattern,omitzero"`
	Enum                 []any              `json:"enum,omitzero"`
	Default              any                `json:"default,omitzero"`
	Examples             []any              `json:"examples,omitzero"`
	Minimum              *float64           `json:"minimum,omitzero"`
	Maximum              *float64           `json:"maximum,omitzero"`
	MinLength            *int               `json:"minLength,omitzero"`
	MaxLength            *int               `json:"maxLength,omitzero"`
	MinItems             *int               `json:"minItems,omitzero"`
	MaxItems             *int               `json:"maxItems,omitzero"`
	UniqueItems          bool               `json:"uniqueItems,omitzero"`
	WriteOnly            bool               `json:"writeOnly,omitzero"`
	Items                *schema            `json:"items,omitzero"`
	Properties           map[string]*schema `json:"properties,omitzero"`
	Required             []string           `json:"required,omitzero"`
	AdditionalProperties any                `json:"additionalProperties,omitzero"`

	kind     valueKind
	nullable bool
	field    bool           // the Go type is an api.Field
	choices  []any          // as in Enum, without null
	target   *schema        // of Ref
	members  map[string]int // of an object: places in list
	list     []member
	unknown  string // the fault of a member that is none of them
	pattern  *regexp.Regexp
	wanted   string // the pattern in words
}

// member is a field of a struct that stands for a JSON object.
type member struct {
	name     string
	index    []int
	required bool
	schema   *schema
}

type valueKind string

const (
	kindObject  valueKind = "object"
	kindArray   valueKind = "array"
	kindString  valueKind = "string"
	kindInteger valueKind = "integer"
	kindNumber  valueKind = "number"
	kindBoolean valueKind = "boolean"
	kindTime    valueKind = "time"
	kindRaw     valueKind = "raw" // any JSON object
	kindMap     valueKind = "map"
	kindAny     valueKind = "any" // in answers only
)

// schemas collects the schemas of named structs, which the document shows once.
type schemas map[string]*schema

var (
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
	anyType  = reflect.TypeFor[any]()
)

// isField reports whether t is an [api.Field], and returns the type of its value.
func isField(t reflect.Type) (value reflect.Type, ok bool) {
	if t.Kind() != reflect.Struct || t.PkgPath() != reflect.TypeFor[api.Field[int]]().PkgPath() || !strings.HasPrefix(t.Name(), "Field[") {
		return nil, false
	}
	return t.Field(1).Type.Elem(), true
}

// of returns the schema of t with the limits of a tag. It panics for a type or tag that
// cannot be described, which is an error of the program.
func (all schemas) of(t reflect.Type, tag reflect.StructTag) *schema {
	if t.Kind() == reflect.Pointer {
		s := all.of(t.Elem(), tag)
		s.setNullable(!strings.Contains(tag.Get("json"), ",omitzero"))
		return s
	}
	if value, ok := isField(t); ok {
		s := all.of(value, tag)
		s.field = true
		if tag.Get("nullable") != "false" {
			s.setNullable(true)
		}
		return s
	}
	s := &schema{Description: tag.Get("doc")}
	switch t {
	case timeType:
		s.kind, s.Type, s.Format = kindTime, "string", "date-time"
	case anyType:
		s.kind = kindAny
	case rawType:
		s.kind, s.Type, s.AdditionalProperties = kindRaw, "object", true
		s.setNullable(true)
	default:
		all.describe(s, t, tag)
	}
	return s
}

func (all schemas) describe(s *schema, t reflect.Type, tag reflect.StructTag) {
	switch t.Kind() {
	case reflect.Struct:
		s.kind, s.target, s.Ref = kindObject, all.component(t), "#/components/schemas/"+t.Name()
		return
	case reflect.Slice:
		s.kind, s.Type = kindArray, "array"
		s.MinItems, s.MaxItems = whole(tag, "minItems"), whole(tag, "maxItems")
		s.UniqueItems = tag.Get("uniqueItems") == "true"
		s.Items = all.of(t.Elem(), itemTag(tag))
		return
	case reflect.Map:
		s.kind, s.Type, s.AdditionalProperties = kindMap, "object", all.of(t.Elem(), "")
		return
	case reflect.String:
		s.kind, s.Type = kindString, "string"
	case reflect.Bool:
		s.kind, s.Type = kindBoolean, "boolean"
	case reflect.Int, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s.kind, s.Type, s.Format = kindInteger, "integer", "int64"
	case reflect.Float64:
		s.kind, s.Type, s.Format = kindNumber, "number", "double"
	default:
		panic("httpapi: no schema for " + t.String())
	}
	s.limit(tag)
}

// itemTag keeps the part of a list's tag that bounds its items.
func itemTag(tag reflect.StructTag) reflect.StructTag {
	var kept []string
	for _, name := range []string{"minLength", "maxLength", "pattern", "patternDescription", "enum"} {
		if value, ok := tag.Lookup(name); ok {
			kept = append(kept, name+":"+strconv.Quote(value))
		}
	}
	return reflect.StructTag(strings.Join(kept, " "))
}

// limit reads the limits of a string, number or boolean.
func (s *schema) limit(tag reflect.StructTag) {
	s.MinLength, s.MaxLength = whole(tag, "minLength"), whole(tag, "maxLength")
	s.Minimum, s.Maximum = decimal(tag, "minimum"), decimal(tag, "maximum")
	s.WriteOnly = tag.Get("writeOnly") == "true"
	if format := tag.Get("format"); format != "" {
		s.Format = format
	}
	if s.Pattern = tag.Get("pattern"); s.Pattern != "" {
		s.pattern, s.wanted = regexp.MustCompile(s.Pattern), tag.Get("patternDescription")
		if s.wanted == "" {
			panic("httpapi: a tag has the pattern " + s.Pattern + " and no patternDescription")
		}
	}
	if choices, ok := tag.Lookup("enum"); ok {
		for choice := range strings.SplitSeq(choices, ",") {
			s.Enum = append(s.Enum, s.literal(choice))
		}
		s.choices = s.Enum
	}
	if text, ok := tag.Lookup("default"); ok {
		s.Default = s.literal(text)
	}
	if text, ok := tag.Lookup("example"); ok {
		s.Examples = []any{s.literal(text)}
	}
}

// literal reads a value of the schema's kind from a tag.
func (s *schema) literal(text string) any {
	switch s.kind {
	case kindInteger:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic("httpapi: a tag has the number " + text)
		}
		return n
	case kindNumber:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic("httpapi: a tag has the number " + text)
		}
		return n
	case kindBoolean:
		return text == "true"
	}
	return text
}

func whole(tag reflect.StructTag, name string) *int {
	n, err := strconv.Atoi(tag.Get(name))
	if err != nil {
		return nil
	}
	return &n
}

func decimal(tag reflect.StructTag, name string) *float64 {
	n, err := strconv.ParseFloat(tag.Get(name), 64)
	if err != nil {
		return nil
	}
	return &n
}

// setNullable lets null be a value. The document shows null for a struct only where
// answers can hold it.
func (s *schema) setNullable(shown bool) {
	s.nullable = true
	if s.Ref != "" {
		if shown {
			s.AnyOf, s.Ref = []*schema{{Ref: s.Ref}, {Type: "null"}}, ""
		}
		return
	}
	if len(s.Enum) > 0 { // generators of clients take null for none of the values of an enum
		s.AnyOf = []*schema{{Type: s.Type, Format: s.Format, Enum: s.Enum}, {Type: "null"}}
		s.Type, s.Format, s.Enum = nil, "", nil
	} else if name, ok := s.Type.(string); ok {
		s.Type = []string{name, "null"}
	}
}

// component returns the schema of a named struct.
func (all schemas) component(t reflect.Type) *schema {
	if s := all[t.Name()]; s != nil {
		return s
	}
	s := &schema{kind: kindObject, Type: "object", AdditionalProperties: false, Properties: map[string]*schema{}, members: map[string]int{}}
	all[t.Name()] = s
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" {
			continue
		}
		m := member{name: name, index: f.Index, required: options != "omitzero", schema: all.of(f.Type, f.Tag)}
		s.members[name] = len(s.list)
		s.list = append(s.list, m)
		if s.Properties[name] = m.schema; m.required {
			s.Required = append(s.Required, name)
		}
	}
	s.unknown = unknownName("field", slices.Sorted(maps.Keys(s.members)))
	return s
}

// unknownName is the fault of an unknown name. It lists the known names where
// they are few, because a body can have many such faults.
func unknownName(what string, known []string) string {
	const few = 8
	if len(known) == 0 || len(known) > few {
		return "unknown " + what
	}
	return "unknown " + what + "; known: " + strings.Join(known, ", ")
}

// fault checks a string, number or time that was decoded, and returns the fault, or "".
func (s *schema) fault(v reflect.Value) string {
	switch s.kind {
	case kindString:
		return s.faultOfText(v.String())
	case kindInteger:
		var n float64
		if v.CanInt() {
			n = float64(v.Int())
		} else {
			n = float64(v.Uint())
		}
		if len(s.choices) > 0 && v.CanInt() {
			return s.faultOfChoice(v.Int())
		}
		return s.faultOfNumber(n)
	case kindNumber:
		return s.faultOfNumber(v.Float())
	}
	return ""
}

func (s *schema) faultOfText(text string) string {
	if s.MinLength != nil || s.MaxLength != nil {
		n := utf8.RuneCountInString(text)
		if s.MinLength != nil && n < *s.MinLength {
			return fmt.Sprintf("expected length >= %d", *s.MinLength)
		}
		if s.MaxLength != nil && n > *s.MaxLength {
			return fmt.Sprintf("expected length <= %d", *s.MaxLength)
		}
	}
	if s.pattern != nil && !s.pattern.MatchString(text) {
		return "expected " + s.wanted
	}
	if len(s.choices) > 0 {
		return s.faultOfChoice(text)
	}
	return ""
}

func (s *schema) faultOfNumber(n float64) string {
	if s.Minimum != nil && n < *s.Minimum {
		return fmt.Sprintf("expected number >= %v", *s.Minimum)
	}
	if s.Maximum != nil && n > *s.Maximum {
		return fmt.Sprintf("expected number <= %.0f", *s.Maximum)
	}
	return ""
}

func (s *schema) faultOfChoice(value any) string {
	var choices []string
	for _, choice := range s.choices {
		if choice == value {
			return ""
		}
		if choice != "" {
			choices = append(choices, fmt.Sprint(choice))
		}
	}
	return "expected value to be one of " + strings.Join(choices, ", ")
}

// parse reads the value of a parameter, and returns the fault, or "".
func (s *schema) parse(text string, v reflect.Value) string {
	switch s.kind {
	case kindString:
		v.SetString(text)
	case kindBoolean:
		is, err := strconv.ParseBool(text)
		if err != nil {
			return "expected boolean"
		}
		v.SetBool(is)
	case kindInteger:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "invalid integer"
		}
		v.SetInt(n)
	case kindNumber:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return "invalid number"
		}
		v.SetFloat(n)
	case kindTime:
		// A plus sign that was not escaped in the URL arrives as a space.
		t, err := api.ParseTime(strings.Replace(text, " ", "+", 1))
		if err != nil {
			return noTime
		}
		v.Set(reflect.ValueOf(t))
	}
	return s.fault(v)
}

// parameter is a part of a request's path, query or header that an operation reads.
type parameter struct {
	In          string  `json:"in"`
	Name        string  `json:"name"`
	Required    bool    `json:"required,omitzero"`
	Description string  `json:"description,omitzero"`
	Schema      *schema `json:"schema"`

	index []int
	list  bool // a header that may occur several times, as if the values were one with commas between
}

// parametersOf finds the fields of an operation's input that hold parameters.
func (all schemas) parametersOf(t reflect.Type) (found []parameter) {
	for _, f := range reflect.VisibleFields(t) {
		for _, in := range []string{"path", "query", "header"} {
			if name, ok := f.Tag.Lookup(in); ok {
				s := all.of(f.Type, f.Tag)
				p := parameter{
					In: in, Name: name, Required: in == "path", Description: s.Description, Schema: s,
					index: f.Index, list: f.Tag.Get("list") == "true",
				}
				s.Description = ""
				found = append(found, p)
			}
		}
	}
	return found
}

// read sets the parameters of an input from a request, and adds their faults.
func readParameters(all []parameter, in reflect.Value, query url.Values, header map[string][]string,
	path func(string) string,
) (wrong fieldErrors) {
	for i := range all {
		p := &all[i]
		var values []string
		switch p.In {
		case "path":
			values = []string{path(p.Name)}
		case "query":
			if values = query[p.Name]; len(values) == 1 && values[0] == "" {
				values = nil // as if it were left out
			}
		case "header":
			if values = header[p.Name]; p.list && len(values) > 1 {
				values = []string{strings.Join(values, ", ")}
			}
		}
		v, s := in.FieldByIndex(p.index), p.Schema
		fault, at := "", p.In+"."+p.Name
		switch {
		case s.kind == kindArray:
			fault = s.parseList(values, v)
		case len(values) > 1:
			fault = "expected once"
		case len(values) == 1:
			fault = s.parse(values[0], v)
		case s.Default != nil:
			fault = s.parse(fmt.Sprint(s.Default), v)
		}
		if fault != "" {
			wrong = append(wrong, api.FieldError{Location: at, Message: fault})
		}
	}
	return wrong
}

func (s *schema) parseList(values []string, v reflect.Value) string {
	if s.MaxItems != nil && len(values) > *s.MaxItems {
		return fmt.Sprintf("expected at most %d times", *s.MaxItems)
	}
	for _, text := range values {
		if fault := s.Items.faultOfText(text); fault != "" {
			return fault
		}
	}
	v.Set(reflect.ValueOf(values))
	return ""
}
