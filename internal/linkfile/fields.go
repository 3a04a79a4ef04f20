package linkfile

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"waypost/api"
	"waypost/api/linkfields"
)

// value is a cell, or the value of a name in JSON.
type value struct {
	text string   // of a list and an object: as it is in JSON
	list []string // of texts
}

// setter reads a value into the draft of a link.
type setter func(d *draft, v value) error

// targets names the fields that hold the target of a link.
var targets = []string{"original_url", "dynamic_link", "go_template"}

// more are fields that a new link has no column for: each a pointer into the draft.
var more = map[string]func(*draft) any{
	"created_at":         func(d *draft) any { return &d.link.CreatedAt },
	"created_by":         func(d *draft) any { return &d.link.CreatedBy },
	"dedupe":             func(d *draft) any { return &d.link.Dedupe },
	"expires_in_seconds": func(d *draft) any { return &d.link.ExpiresInSeconds },
	"expires_in_hours":   func(d *draft) any { return &d.link.ExpiresInHours },
	"short_code":         func(d *draft) any { return &d.shortCode },
	"short_url":          func(d *draft) any { return &d.shortURL },
	"custom_short_urls":  func(d *draft) any { return &d.customURLs },
	"inactive":           func(d *draft) any { return &d.inactive },
	"ios_url":            func(d *draft) any { return &d.ios },
	"android_url":        func(d *draft) any { return &d.android },
}

// setters has a setter for each field of a mapping.
var setters = func() map[string]setter {
	all := map[string]setter{
		"aliases":       setAliases,
		"click_count":   setClicks,
		"has_password":  setHasPassword,
		"password":      setPassword,
		"password_hash": setPasswordHash,
		"country_urls":  setCountries,
		"dynamic_link":  setDynamicLink,
		"go_template":   setTemplate,
	}
	for _, name := range linkParameters {
		all[name] = func(d *draft, v value) error {
			d.setParameter(name, v.text)
			return nil
		}
	}
	for name, field := range more {
		all[name] = func(d *draft, v value) error { return d.setField(field(d), name, v) }
	}
	for f := range linkfields.Importable {
		if all[f.Name] == nil {
			all[f.Name] = func(d *draft, v value) error { return d.setField(f.New(&d.link.NewLink), f.Name, v) }
		}
	}
	return all
}()

// Fields lists the fields that a column can be mapped to: those of a new link first.
func Fields() []string {
	var names []string
	for f := range linkfields.Importable {
		names = append(names, f.Name)
	}
	of := len(names)
	for name := range setters {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names[of:])
	return names
}

// IsDate reports whether a field is a date, which needs a notation.
func IsDate(field string) bool {
	return field == "expires_at" || field == "valid_from" || field == "created_at"
}

// setField reads a value into a field of a new link.
func (d *draft) setField(field any, name string, v value) (err error) {
	switch to := field.(type) {
	case *string:
		*to = v.text
	case *int:
		var n int64
		n, err = readNumber(name, v.text)
		*to = int(n)
	case *int64:
		*to, err = readNumber(name, v.text)
	case *bool:
		*to, err = readBool(name, v.text)
	case **bool:
		var is bool
		if is, err = readBool(name, v.text); v.text != "" {
			*to = &is
		}
	case *time.Time:
		*to, err = d.mapper.readDate(name, v.text)
	case *[]string:
		*to, err = d.mapper.split("tags", v)
	case *json.RawMessage:
		return setMetadata(to, v.text)
	case *[]api.Rule:
		return d.setRules(to, v.text)
	default:
		return fmt.Errorf("no cell holds %s", name)
	}
	return err
}

// readNumber reads a whole number. A spreadsheet may have written it with a fraction, but
// 1.000 is a thousand in many languages.
func readNumber(column, s string) (int64, error) {
	if s = strings.TrimSpace(s); s == "" {
		return 0, nil
	}
	whole, fraction, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || strings.Trim(fraction, "0") != "" || len(fraction) == 3 {
		return 0, fmt.Errorf("%s %.40q is no whole number", column, s)
	}
	return n, nil
}

func readBool(column, s string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "1", "yes", "t":
		return true, nil
	case "false", "0", "no", "f", "":
		return false, nil
	}
	return false, fmt.Errorf("%s %.40q is neither true nor false", column, s)
}

// setClicks reads a number of clicks, and ignores all but numbers.
func setClicks(d *draft, v value) error {
	d.clicks, _ = readNumber("click_count", v.text)
	return nil
}

func setMetadata(to *json.RawMessage, s string) error {
	if s == "" || s == "null" {
		return nil
	}
	if !json.Valid([]byte(s)) || !strings.HasPrefix(strings.TrimSpace(s), "{") {
		return errors.New("metadata is no JSON object")
	}
	*to = json.RawMessage(s)
	return nil
}

// split divides the texts in a cell at the separators of tags. The cell is a line of CSV
// of its own, such as a,"b, with a comma", or a list of JSON.
func (m *Mapper) split(field string, v value) ([]string, error) {
	cell := strings.TrimSpace(v.text)
	switch {
	case cell == "":
		return nil, nil
	case v.list != nil:
		return plainTexts(v.list), nil
	case cell[0] == '[':
		if of, err := jsonValue([]byte(cell)); err == nil && of.list != nil {
			return plainTexts(of.list), nil
		}
	}
	if !strings.ContainsAny(cell, "\"\r\n") {
		return plainTexts(strings.FieldsFunc(cell, func(c rune) bool { return strings.ContainsRune(m.tags, c) })), nil
	}
	quoted := false
	reader := csv.NewReader(strings.NewReader(strings.Map(func(c rune) rune {
		if quoted = quoted != (c == '"'); !quoted && strings.ContainsRune(m.tags, c) {
			return separatorOfTags
		}
		return c
	}, cell)))
	reader.Comma, reader.TrimLeadingSpace = separatorOfTags, true
	lines, err := reader.ReadAll()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %.40q: write a text with a quotation mark in quotation marks, and the mark twice", field, cell)
	case len(lines) != 1:
		return nil, fmt.Errorf("%s %.40q are on several lines: separate them with one of %s", field, cell, m.tags)
	}
	return withoutBlank(lines[0]), nil // blanks within quotes belong to a text
}

// plainTexts returns texts without blanks around them, and without blank texts.
func plainTexts(texts []string) []string {
	for i := range texts {
		texts[i] = strings.TrimSpace(texts[i])
	}
	return withoutBlank(texts)
}

func withoutBlank(texts []string) []string {
	if texts = slices.DeleteFunc(texts, func(text string) bool { return strings.TrimSpace(text) == "" }); len(texts) == 0 {
		return nil
	}
	return texts
}

// separatorOfTags stands for all separators of tags. No text has it.
const separatorOfTags = '\x1f'
