package linkfields_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/api/linkfields"
)

func TestFields_AreCalledAsInTheAPI(t *testing.T) {
	var n api.NewLink
	var c api.LinkChange
	var l api.Link
	for _, f := range linkfields.Fields {
		if f.New != nil {
			require.Equal(t, f.Name, nameIn(&n, f.New(&n)))
		}
		if f.Change != nil {
			require.Equal(t, f.Name, nameIn(&c, f.Change(&c)))
		}
		if f.Link != nil {
			require.Equal(t, f.Name, nameIn(&l, f.Link(&l)))
		}
	}
}

// nameIn returns the name in JSON of the field of a struct to which a pointer points.
func nameIn(of, field any) string {
	v := reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		if v.Field(i).Addr().Interface() == field {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "a field of another struct"
}

func TestFields_HoldAllThatCanBeChanged(t *testing.T) {
	changeable := reflect.TypeFor[api.LinkChange]()
	var named []string
	for _, f := range linkfields.Fields {
		if f.Change != nil {
			named = append(named, f.Name)
		}
	}
	require.Equal(t, changeable.NumField(), len(named)+len([]string{"expires_in_seconds", "expires_in_hours"}))
	named = append(named, "aliases") // which have requests of their own
	slices.Sort(named)
	history, _ := reflect.TypeFor[api.FieldChange]().FieldByName("Name")
	require.Equal(t, strings.Join(named, ","), history.Tag.Get("enum"), "the fields in the history")
}

func TestFields_HoldAllDetails(t *testing.T) {
	details := reflect.TypeFor[waypost.Details]()
	require.Len(t, linkfields.Details, details.NumField())
	d := reflect.New(details)
	for i := range details.NumField() {
		require.True(t, slices.ContainsFunc(linkfields.Details, func(f linkfields.Field) bool {
			return f.Detail(d.Interface().(*waypost.Details)) == d.Elem().Field(i).Addr().Interface()
		}), details.Field(i).Name)
	}
}

func TestDetails_AreSetChangedAndShown(t *testing.T) {
	for _, f := range linkfields.Details {
		var n api.NewLink
		var c api.LinkChange
		var l api.Link
		var d waypost.Details
		fill(f.New(&n), 1)
		linkfields.SetDetails(&d, &n)
		require.Equal(t, f.New(&n), f.Detail(&d), f.Name)
		linkfields.ShowDetails(&l, &d)
		require.Equal(t, f.New(&n), f.Link(&l), f.Name)

		linkfields.ChangeDetails(&d, &c)
		require.Equal(t, f.New(&n), f.Detail(&d), "%s is not changed", f.Name)
		change := reflect.ValueOf(f.Change(&c)).Elem()
		change.FieldByName("Given").SetBool(true)
		linkfields.ChangeDetails(&d, &c)
		require.Zero(t, reflect.ValueOf(f.Detail(&d)).Elem().Interface(), "%s is reset", f.Name)
		value := reflect.New(reflect.TypeOf(f.Detail(&d)).Elem())
		fill(value.Interface(), 2)
		change.FieldByName("Value").Set(value)
		linkfields.ChangeDetails(&d, &c)
		require.Equal(t, value.Interface(), f.Detail(&d), f.Name)
	}
}

// fill sets a field to a value that is not zero.
func fill(field any, n int) {
	switch v := reflect.ValueOf(field).Elem(); v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("x", n))
	default:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
	}
}
