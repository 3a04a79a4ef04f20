package linkfile

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Mapping says which fields of a link the columns of a file are.
type Mapping struct {
	// Columns maps a column to a field of [Fields]; "" leaves the column out. Without a
	// field, a name of JSON gets the suggested one, because later rows may have new names.
	Columns map[string]string `json:"columns"`

	// Tags are the characters between tags; "": commas.
	Tags string `json:"tags,omitzero"`

	// Dates is the notation of all dates, one of [Notations]; "": it is to be chosen,
	// because the dates in the file fit more than one.
	Dates string `json:"dates,omitzero"`
}

// LeftOut returns the columns without a field, in the order of the file.
func (m Mapping) LeftOut(s *Shape) []string {
	out := slices.Clone(s.Personal)
	for _, column := range s.Columns {
		if m.Columns[column] == "" {
			out = append(out, column)
		}
	}
	return out
}

// Suggest proposes a mapping from the names of the columns and the cells of rows. It
// guesses no notation of dates.
func (s *Shape) Suggest(rows []Row) Mapping {
	m := Mapping{Columns: make(map[string]string, len(s.Columns)), Tags: ","}
	of := make(map[string]string) // the column of a plain name
	for _, column := range slices.Backward(s.Columns) {
		m.Columns[column] = ""
		of[plainName(column)] = column
	}
	taken := make(map[string]bool)
	for _, names := range [2]fieldNames{s.source().fields, usualNames} {
		for _, f := range names {
			for name := range strings.FieldsSeq(f.names) {
				if column, ok := of[name]; ok && (!taken[f.field] || f.field == "") {
					m.Columns[column] = f.field
					taken[f.field] = true
					delete(of, name)
				}
			}
		}
	}
	s.suggestTags(rows, &m)
	m.SuggestDates(func(column string) []string { return s.Notations(column, rows) })
	return m
}

// suggestTags sets the separator of tags that is seen in cells.
func (s *Shape) suggestTags(rows []Row, m *Mapping) {
	for column, field := range m.Columns {
		if field != "tags" && field != "aliases" {
			continue
		}
		all := strings.Join(slices.Collect(s.cells(column, rows)), "\n")
		for _, separator := range []string{"|", ";", ","} { // a later one decides
			if strings.Contains(all, separator) && (separator != "|" || s.Format == "shlink" || !strings.ContainsAny(all, ",;")) {
				m.Tags = separator
			}
		}
	}
}

// SuggestDates sets the one notation that fits all columns of dates, ISO without a date.
func (m *Mapping) SuggestDates(notationsOf func(column string) []string) {
	fit := Notations()
	for column, field := range m.Columns {
		if IsDate(field) {
			here := notationsOf(column)
			fit = slices.DeleteFunc(fit, func(n string) bool { return !slices.Contains(here, n) })
		}
	}
	switch len(fit) {
	case 0, len(notations): // no date fits, or there is no date
		m.Dates = ISO
	case 1:
		m.Dates = fit[0]
	default:
		m.Dates = ""
	}
}

// Notations returns the notations that all dates of a column fit, all of them if the
// column has no date.
func (s *Shape) Notations(column string, rows []Row) []string {
	fit := Notations()
	for cell := range s.cells(column, rows) {
		fit = slices.DeleteFunc(fit, func(n string) bool { return !fits(n, cell) })
	}
	return fit
}

// checkMapping checks the names of a mapping.
func (s *Shape) checkMapping(m Mapping) error {
	taken := make(map[string]string)
	for _, column := range slices.Sorted(maps.Keys(m.Columns)) {
		field := m.Columns[column]
		if field == "" {
			continue
		}
		if !slices.Contains(s.Columns, column) && s.Layout != JSON {
			return fmt.Errorf("the file has no column %q", column)
		}
		if _, ok := setters[field]; !ok {
			return fmt.Errorf("the column %q is mapped to %q, which is no field of a link: the fields are %s",
				column, field, strings.Join(Fields(), ", "))
		}
		if other, ok := taken[field]; ok {
			return fmt.Errorf("two columns, %q and %q, are mapped to %s", other, column, field)
		}
		taken[field] = column
		if IsDate(field) && m.Dates == "" {
			return fmt.Errorf("say in which notation the dates of %q are", column)
		}
	}
	if strings.ContainsAny(m.Tags, "\"\r\n\x1f") {
		return fmt.Errorf("no quotation mark and no line end separates tags, as in %q", m.Tags)
	}
	if m.Dates != "" && notations.named(m.Dates) == nil {
		return fmt.Errorf("the notation of dates %q is unknown: expected one of %s", m.Dates, strings.Join(Notations(), ", "))
	}
	if !slices.ContainsFunc(targets, func(field string) bool { return taken[field] != "" }) {
		return fmt.Errorf("no column is mapped to original_url, the target of a link: the columns are %s", strings.Join(s.Columns, ", "))
	}
	return nil
}

// cells yields the cells of a column that are not blank.
func (s *Shape) cells(column string, rows []Row) iter.Seq[string] {
	at := slices.Index(s.Columns, column)
	return func(yield func(string) bool) {
		for _, row := range rows {
			cell := ""
			switch {
			case row.Reason != "":
				continue
			case s.Layout == JSON:
				_ = members([]byte(row.Cells[0]), true, func(name string, raw jsontext.Value) error { // was read before
					if name == column {
						v, err := jsonValue(raw)
						cell = v.text
						return err
					}
					return nil
				})
			case at >= 0 && at < len(row.Cells):
				cell = row.Cells[at]
			}
			if strings.TrimSpace(cell) != "" && !yield(cell) {
				return
			}
		}
	}
}
