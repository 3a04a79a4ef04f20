package httpapi

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
)

// decode reads one JSON value as a T, judged by the schema that the OpenAPI
// document shows for T. At says where the value stands in the body, such as
// "body.links[3]". The text must be valid JSON.
//
// It is stricter than encoding/json: names are matched exactly, and what
// checkJSON refuses is refused.
func decode[T any](s *server, raw []byte, at string) (T, error) {
	var v T
	if err := checkJSON(raw); err != nil {
		return v, err
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return v, waypost.WrapError(waypost.EMalformed, "the body is no JSON", err)
	}
	registry := s.api.OpenAPI().Components.Schemas
	schema := registry.Schema(reflect.TypeFor[T](), false, "")
	if unknown := unknownNames(registry, schema, tree, at, nil); len(unknown) > 0 {
		return v, fieldErrorsOf(unknown)
	}
	var found huma.ValidateResult
	huma.Validate(registry, schema, huma.NewPathBuffer([]byte(at), len(at)), huma.ModeWriteToServer, tree, &found)
	if len(found.Errors) > 0 {
		return v, fieldErrorsOf(found.Errors)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		// The schema lets whole numbers through in every notation and size.
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return v, fieldErrors{{Location: at + "." + e.Field, Message: "expected an integer in plain digits"}}
		}
		return v, waypost.WrapError(waypost.EInvalid, "the body does not fit its schema", err)
	}
	return v, nil
}

// unknownNames adds the names of objects that their schemas do not have. Huma and
// encoding/json would let them differ in case. Objects that may have any name are
// left alone.
func unknownNames(registry huma.Registry, schema *huma.Schema, tree any, at string, unknown []error) []error {
	if schema != nil && schema.Ref != "" {
		schema = registry.SchemaFromRef(schema.Ref)
	}
	if schema == nil {
		return unknown
	}
	switch tree := tree.(type) {
	case map[string]any:
		if schema.Type != huma.TypeObject || schema.AdditionalProperties != false {
			return unknown
		}
		for name, value := range tree {
			if property := schema.Properties[name]; property != nil {
				unknown = unknownNames(registry, property, value, at+"."+name, unknown)
			} else {
				unknown = append(unknown, unexpected(at, name, unknownField))
			}
		}
	case []any:
		for i, value := range tree {
			if object, ok := value.(map[string]any); ok {
				unknown = unknownNames(registry, schema.Items, object, at+"["+strconv.Itoa(i)+"]", unknown)
			}
		}
	}
	return unknown
}

const unknownField = "unknown field"

// unexpected names what nobody knows, cut when it is long.
func unexpected(at, name, message string) *huma.ErrorDetail {
	const most = 64
	if r := []rune(name); len(r) > most {
		name = string(slices.Concat(r[:most], []rune("…")))
	}
	return &huma.ErrorDetail{Location: at + "." + name, Message: message}
}
