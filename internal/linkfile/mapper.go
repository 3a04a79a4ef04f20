package linkfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"waypost/api"
)

// Link is the link of a row.
type Link struct {
	api.NewLink

	Aliases   []api.NewAlias `json:"aliases,omitzero"`    // further addresses
	CreatedAt time.Time      `json:"created_at,omitzero"` // elsewhere; zero: unknown

	PasswordHash string `json:"password_hash,omitzero"` // as [rules.ParsePasswordHash] reads it
}

// MapOptions say how rows become links.
type MapOptions struct {
	// Zone is the time zone of days, and of times without a zone; nil: UTC.
	Zone *time.Location

	// KeepCodes keeps the codes and aliases of the file. Default: all links but patterns
	// get new codes, and have no alias.
	KeepCodes bool

	// Domain is the host of rows without one; "": the shared default one.
	Domain string
}

// Mapper makes links of rows. Its methods may be called by several goroutines at once.
type Mapper struct {
	options MapOptions
	shape   *Shape
	tags    string // characters between tags
	dates   *notation
	zone    *time.Location
	nulls   bool              // a cell NULL is empty, as databases write it, unless it is the code
	code    int               // index of the cell with the code
	columns []setter          // of a table, by cell; nil for a column that is left out
	names   map[string]setter // of JSON, by column
}

// NewMapper checks a mapping. An error is for the owner of the file.
func NewMapper(s *Shape, m Mapping, o MapOptions) (*Mapper, error) {
	if err := s.checkMapping(m); err != nil {
		return nil, err
	}
	p := &Mapper{
		options: o, shape: s, tags: m.Tags, dates: notations.named(m.Dates), zone: o.Zone,
		nulls: s.Format == "yourls" && s.Separator != "", code: -1, names: make(map[string]setter),
	}
	if p.tags == "" {
		p.tags = ","
	}
	if p.dates == nil {
		p.dates = notations.named(ISO)
	}
	if p.zone == nil {
		p.zone = time.UTC
	}
	for i, column := range s.Columns {
		p.columns = append(p.columns, setters[m.Columns[column]])
		if m.Columns[column] == "custom_code" {
			p.code = i
		}
	}
	if s.Layout != JSON {
		return p, nil
	}
	for column, field := range s.Suggest(nil).Columns {
		if setters[field] != nil && !slices.Contains(slices.Collect(maps.Values(m.Columns)), field) {
			p.names[column] = setters[field]
		}
	}
	for column, field := range m.Columns {
		p.names[column] = setters[field]
	}
	return p, nil
}

// Link returns the link of a row. An error is the reason why there is no link, for the
// owner of the file.
func (m *Mapper) Link(r Row) (Link, error) {
	if r.Reason != "" {
		return Link{}, errors.New(r.Reason)
	}
	d := draft{mapper: m}
	if m.shape.Layout == JSON {
		if err := m.setObject(&d, r.Cells[0]); err != nil {
			return Link{}, err
		}
		return d.finish()
	}
	if len(r.Cells) < len(m.columns) {
		return Link{}, fmt.Errorf("%d fields instead of %d", len(r.Cells), len(m.columns))
	}
	for i, set := range m.columns {
		if set == nil {
			continue
		}
		cell := r.Cells[i]
		if !m.shape.Raw {
			cell = api.PlainCell(cell)
		}
		if cell == "NULL" && m.nulls && i != m.code {
			continue
		}
		if err := set(&d, value{text: cell}); err != nil {
			return Link{}, err
		}
	}
	return d.finish()
}
