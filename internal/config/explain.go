package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
)

// explain turns an error of the YAML decoder into "FILE:LINE:COLUMN: FAULT" and, on the
// lines below, the place with a caret.
func explain(name string, err error) error {
	bad, ok := errors.AsType[yaml.Error](err)
	if !ok || bad.GetToken() == nil || bad.GetToken().Position == nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	message := bad.GetMessage()
	if m := unknownField.FindStringSubmatch(message); m != nil {
		message = fmt.Sprintf("unknown key %q%s", m[1], didYouMean(m[1], keys()))
	}
	if m := wrongType.FindStringSubmatch(message); m != nil {
		message = expected(m[1])
	}
	at := bad.GetToken().Position
	// The decoder's own rendering begins with "[LINE:COLUMN] message".
	_, place, _ := strings.Cut(bad.FormatError(false, true), "\n")
	return fmt.Errorf("%s:%d:%d: %s\n%s", name, at.Line, at.Column, message, strings.TrimRight(place, "\n"))
}

var unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)

// wrongType matches the decoder's error for a value that a setting cannot have.
var wrongType = regexp.MustCompile(`^cannot unmarshal .* of type (\S+)$`)

// expected describes the values that a setting of a Go type takes.
func expected(kind string) string {
	switch {
	case kind == "time.Duration":
		return "this must be a time with a unit, such as 5s, 1m30s or 90d"
	case kind == "bool":
		return "this must be true or false"
	case kind == "string":
		return "this must be one text"
	case strings.HasPrefix(kind, "[]"):
		return "this must be a list, such as [a, b]"
	case strings.HasPrefix(kind, "int"):
		return "this must be a whole number"
	}
	return "this is no value for the key"
}

// keys returns the names of all sections and settings.
func keys() []string {
	var all []string
	for _, s := range settings() {
		section, key, _ := strings.Cut(s.Path, ".")
		all = append(all, section, key)
	}
	return all
}

// didYouMean hints at the nearest known name, or is "" when none is near.
func didYouMean(name string, known []string) string {
	if nearest := Nearest(name, known); nearest != "" {
		return fmt.Sprintf(" (did you mean %s?)", nearest)
	}
	return ""
}

// Nearest returns the known name that differs least from a mistyped one, "" when none is
// near.
func Nearest(name string, known []string) string {
	nearest, distance := "", len(strings.TrimPrefix(name, "WAYPOST_"))/3+1
	for _, k := range known {
		if d := editDistance(name, k); d < distance || d == distance && k < nearest {
			nearest, distance = k, d
		}
	}
	return nearest
}

// editDistance counts the bytes to insert, delete or replace, and the neighbours to swap.
func editDistance(a, b string) int {
	var before, last []int // the rows of the two letters of a before
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
