package linkimport

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"waypost/client"
)

// jsonRows reads one JSON object from each line. Its fields have the names of the API for
// a new link. jsonRows skips empty lines and the fields that only the API sets, as in an
// export.
type jsonRows struct {
	lines *bufio.Reader // with a buffer of one row
	line  int
	read  int64
	begin int64 // of the last line
	old   exported
	times readTime
}

// jsonRow is a line.
type jsonRow struct {
	client.NewLink

	ID             json.RawMessage `json:"id"`
	ShortCode      json.RawMessage `json:"short_code"`
	ShortURL       json.RawMessage `json:"short_url"`
	ClickCount     json.RawMessage `json:"click_count"`
	LastAccessedAt json.RawMessage `json:"last_accessed_at"`
	CreatedAt      json.RawMessage `json:"created_at"`
	ExpiresAt      json.RawMessage `json:"expires_at"` // the API's times, or days
	ValidFrom      json.RawMessage `json:"valid_from"`
	Rules          json.RawMessage `json:"rules"`
	UpdatedAt      json.RawMessage `json:"updated_at"`
	HasPassword    bool            `json:"has_password"`
	Blocked        json.RawMessage `json:"blocked"`
	Refused        json.RawMessage `json:"refused"` // the reason, in the console's file of refused rows
}

func newJSONRows(file io.Reader, times readTime) *jsonRows {
	return &jsonRows{times: times, lines: bufio.NewReaderSize(file, maxRow)}
}

// readLine returns the next line, valid until the next call, or io.EOF. For a line above
// the limit of a row it returns a badRow.
func (r *jsonRows) readLine() ([]byte, error) {
	r.begin = r.read
	text, err := r.lines.ReadSlice('\n')
	r.line++
	r.read += int64(len(text))
	long := errors.Is(err, bufio.ErrBufferFull)
	for errors.Is(err, bufio.ErrBufferFull) {
		var more []byte
		more, err = r.lines.ReadSlice('\n')
		r.read += int64(len(more))
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("read the file: %w", err)
	case long:
		return nil, &badRow{line: r.line, reason: fmt.Sprintf("the line is longer than %d bytes", maxRow)}
	case len(text) == 0:
		return nil, io.EOF
	}
	return text, nil
}

func (r *jsonRows) next() (row, error) {
	for {
		text, err := r.readLine()
		if err != nil {
			return row{}, err
		}
		if r.line == 1 {
			text = bytes.TrimPrefix(text, []byte("\uFEFF"))
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		read, err := decodeRow(text, r.times)
		if err != nil {
			return row{}, &badRow{line: r.line, reason: err.Error()}
		}
		if read.HasPassword && read.Password == "" {
			return row{}, &badRow{line: r.line, reason: noPassword}
		}
		if string(read.Metadata) == "null" {
			read.Metadata = nil
		}
		if read.Active != nil && *read.Active {
			read.Active = nil // as usual
		}
		var code string
		if len(read.ShortCode) > 0 && json.Unmarshal(read.ShortCode, &code) != nil && r.old.keepCodes {
			return row{}, &badRow{line: r.line, reason: "short_code is no text"}
		}
		var clicks int64
		_ = json.Unmarshal(read.ClickCount, &clicks) // ignores all but numbers
		r.old.keepCode(&read.NewLink, code, clicks)
		return row{line: r.line, link: read.NewLink}, nil
	}
}

func (r *jsonRows) span() (from, to int64) { return r.begin, r.read }

// decodeRow reads the object of a line. An error is for people.
func decodeRow(text []byte, times readTime) (read jsonRow, err error) {
	if !utf8.Valid(text) {
		return read, errEncoding
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&read); err != nil {
		return read, errors.New(plainly(err))
	}
	if dec.InputOffset() != int64(len(text)) {
		return read, errors.New("something follows the object")
	}
	if err := checkMode(read.NewLink.MaxClicksMode); err != nil {
		return read, err
	}
	if rules := string(read.Rules); rules != "null" {
		if err := setRules(&read.NewLink.Rules, rules, times); err != nil {
			return read, err
		}
	}
	if err := decodeTime(&read.NewLink.ExpiresAt, "expires_at", read.ExpiresAt, times); err != nil {
		return read, err
	}
	return read, decodeTime(&read.NewLink.ValidFrom, "valid_from", read.ValidFrom, times)
}

func decodeTime(to *time.Time, field string, value json.RawMessage, times readTime) error {
	var text string
	if len(value) > 0 && json.Unmarshal(value, &text) != nil {
		return fmt.Errorf("%s: expected text such as \"2030-12-31T23:59:59Z\" or \"2030-12-31\"", field)
	}
	return setTime(to, field, text, times)
}

// plainly describes a fault of JSON in words for people who do not know Go.
func plainly(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		where := ""
		if field := strings.TrimPrefix(wrong.Field, "NewLink."); field != "" {
			where = field + ": "
		}
		return fmt.Sprintf("%sexpected %s, and there is %s", where, expected(wrong.Type), found(wrong.Value))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "the JSON has no end"
	}
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		return "no valid JSON: " + wrong.Error()
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// expected names the kind of JSON value that a type is written as.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Pointer:
		return expected(t.Elem())
	default:
		return "a whole number"
	}
}

// found names a value as the decoder does, such as "number" or "number 1.5".
func found(value string) string {
	switch value {
	case "string":
		return "text"
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "number":
		return "a number"
	}
	return "the " + value
}
