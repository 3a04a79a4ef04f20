package api

import "encoding/json"

// Field is a field of a change. Its zero value leaves the field as it is; a Field that is
// Given sets it, and with a nil Value resets it to its default.
type Field[T any] struct {
	Given bool
	Value *T // nil: null
}

// Set makes a field that becomes v.
func Set[T any](v T) Field[T] { return Field[T]{Given: true, Value: &v} }

// Reset makes a field that returns to its default.
func Reset[T any]() Field[T] { return Field[T]{Given: true} }

// Change returns the new value, the zero value for null, and nil for no change.
func (f Field[T]) Change() *T {
	if f.Given && f.Value == nil {
		return new(T)
	}
	return f.Value
}

// MarshalJSON writes the value, or null. A field that is not given is left out by the
// option omitzero.
func (f Field[T]) MarshalJSON() ([]byte, error) { return json.Marshal(f.Value) }
