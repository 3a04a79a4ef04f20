// Package linkfields is the table of a link's fields. Columns of the database and of CSV,
// flags and the forms of the console come from it; CONTRIBUTING.md says how to add a
// field. Package controlplane judges the values: none of its rules are here.
package linkfields

import (
	"encoding/json"

	"waypost"
	"waypost/api"
)

// Field is a field of a link. Its functions return a pointer to the field in a struct.
// The type of the pointer says how the field is written: *string, *[]string, *time.Time.
type Field struct {
	Name string // in the API, in CSV, in the history and in the console's texts

	New    func(*api.NewLink) any     // nil: a request for a link has no such field
	Change func(*api.LinkChange) any  // an api.Field; nil: the field cannot change
	Link   func(*api.Link) any        // nil: answers and exports do not have the field
	Detail func(*waypost.Details) any // nil: the field has code of its own in the control plane

	Flag     string // of the commands that create and change a link; "": none, or one with code of its own
	Usage    string // of the flag
	Changing string // follows the usage where a link is changed

	Optional bool // a cell of CSV is empty for zero
	Long     bool // the console asks for several lines
}

// Named returns the field with a name, or nil if no field has it.
func Named(name string) *Field {
	for i := range Fields {
		if Fields[i].Name == name {
			return &Fields[i]
		}
	}
	return nil
}

// Exported yields the fields that an export as CSV has.
func Exported(yield func(*Field) bool) {
	for i := range Fields {
		if Fields[i].Link != nil && !yield(&Fields[i]) {
			return
		}
	}
}

// Importable yields the fields that a row of CSV may have.
func Importable(yield func(*Field) bool) {
	for i := range Fields {
		if Fields[i].New != nil && !yield(&Fields[i]) {
			return
		}
	}
}

// Flagged yields the fields that have a flag.
func Flagged(yield func(*Field) bool) {
	for i := range Fields {
		if Fields[i].Flag != "" && !yield(&Fields[i]) {
			return
		}
	}
}

// Details are the fields among the details of a link.
var Details = func() (details []Field) {
	for _, f := range Fields {
		if f.Detail != nil {
			details = append(details, f)
		}
	}
	return details
}()

// SetDetails sets the details that a request for a link asks for.
func SetDetails(d *waypost.Details, n *api.NewLink) {
	for _, f := range Details {
		assign(f.Detail(d), f.New(n))
	}
}

// ShowDetails sets the details in an answer.
func ShowDetails(l *api.Link, d *waypost.Details) {
	for _, f := range Details {
		assign(f.Link(l), f.Detail(d))
	}
}

// ChangeDetails makes a change of details.
func ChangeDetails(d *waypost.Details, c *api.LinkChange) {
	for _, f := range Details {
		switch to := f.Detail(d).(type) {
		case *string:
			change(to, f.Change(c))
		case *[]string:
			change(to, f.Change(c))
		case *json.RawMessage:
			change(to, f.Change(c))
		}
	}
}

func change[T any](to *T, field any) {
	if v := field.(*api.Field[T]).Change(); v != nil {
		*to = *v
	}
}

// assign copies a detail. Both are pointers of the same type.
func assign(to, from any) {
	switch to := to.(type) {
	case *string:
		*to = *from.(*string)
	case *[]string:
		*to = *from.(*[]string)
	case *json.RawMessage:
		*to = *from.(*json.RawMessage)
	}
}
