package linkimport

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"waypost/client"
)

// jsonRows reads an object a line, named as the API names what a link is made of. What
// only the API can say of a link, as in an export, is passed over. Empty lines are, too.
type jsonRows struct {
	lines *bufio.Scanner
	line  int
	read  int64
	codes oldCodes
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
	UpdatedAt      json.RawMessage `json:"updated_at"`
	HasPassword    bool            `json:"has_password"`
}

func newJSONRows(file io.Reader) *jsonRows {
	r := &jsonRows{lines: bufio.NewScanner(file)}
	r.lines.Buffer(make([]byte, 0, 64<<10), maxRow)
	r.lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		n, line, err := bufio.ScanLines(data, atEOF)
		r.read += int64(n)
		return n, line, err
	})
	return r
}

func (r *jsonRows) next() (row, error) {
	for r.lines.Scan() {
		r.line++
		text := r.lines.Bytes()
		if r.line == 1 {
			text = bytes.TrimPrefix(text, []byte("\uFEFF"))
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		var read jsonRow
		err := dec.Decode(&read)
		if err == nil && dec.InputOffset() != int64(len(text)) {
			err = errors.New("something follows the object")
		}
		if err != nil {
			return row{}, &badRow{line: r.line, reason: "no JSON object of a link: " + strings.TrimPrefix(err.Error(), "json: ")}
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
		if len(read.ShortCode) > 0 && json.Unmarshal(read.ShortCode, &code) != nil && r.codes.keep {
			return row{}, &badRow{line: r.line, reason: "short_code is no text"}
		}
		r.codes.settle(&read.NewLink, code)
		return row{line: r.line, link: read.NewLink}, nil
	}
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return row{}, fmt.Errorf("%w: line %d is longer than %d bytes", ErrUnreadable, r.line+1, maxRow)
	case err != nil:
		return row{}, fmt.Errorf("read the file: %w", err)
	}
	return row{}, io.EOF
}

func (r *jsonRows) offset() int64 { return r.read }
