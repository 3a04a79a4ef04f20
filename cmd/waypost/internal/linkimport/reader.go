package linkimport

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"waypost/cmd/waypost/internal/client"
)

// maxRow bounds one row, so that a stray quote does not read the rest of a large
// file into memory. The API allows far less.
const maxRow = 256 << 10

// row is a row of the file that can be sent.
type row struct {
	line int
	link client.NewLink
}

func (r row) because(status int, reason string) Row {
	return Row{Line: r.line, OriginalURL: r.link.OriginalURL, Status: status, Reason: reason}
}

// badRow is a row that cannot be sent; the next one can be read all the same.
type badRow struct {
	line   int
	reason string
}

func (b *badRow) Error() string { return fmt.Sprintf("line %d: %s", b.line, b.reason) }

// reader reads rows one by one.
type reader struct {
	csv     *csv.Reader
	budget  *budget
	columns []string
}

// newReader reads the header: original_url, title and custom_code in any order,
// of which only the first must be there.
func newReader(file io.Reader) (*reader, error) {
	buffered := bufio.NewReader(file)
	if mark, err := buffered.Peek(3); err == nil && string(mark) == "\uFEFF" {
		if _, err := buffered.Discard(3); err != nil {
			return nil, fmt.Errorf("read the file: %w", err)
		}
	}
	r := &reader{budget: &budget{from: buffered, left: maxRow}}
	r.csv = csv.NewReader(r.budget)
	r.csv.FieldsPerRecord = -1 // judged row by row
	r.csv.ReuseRecord = true
	header, err := r.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty: its first line must be original_url,title or original_url,title,custom_code")
	}
	if err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(name))
		if !slices.Contains([]string{"original_url", "title", "custom_code"}, name) || slices.Contains(r.columns[:i], name) {
			return nil, fmt.Errorf("the header has a column %q: it must be original_url,title or original_url,title,custom_code", header[i])
		}
		r.columns = append(r.columns, name)
	}
	if !slices.Contains(r.columns, "original_url") {
		return nil, errors.New("the header lacks original_url: it must be original_url,title or original_url,title,custom_code")
	}
	return r, nil
}

// next gives the next row, a badRow, io.EOF, or why the file cannot be read on.
func (r *reader) next() (row, error) {
	r.budget.left = maxRow
	fields, err := r.csv.Read()
	if bad, ok := errors.AsType[*csv.ParseError](err); ok {
		reason := "no valid CSV: " + bad.Err.Error()
		if bad.Line > bad.StartLine {
			reason += fmt.Sprintf(" (the row goes on to line %d)", bad.Line)
		}
		return row{}, &badRow{line: bad.StartLine, reason: reason}
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			return row{}, io.EOF
		}
		return row{}, fmt.Errorf("read the file: %w", err)
	}
	line, _ := r.csv.FieldPos(0)
	if len(fields) != len(r.columns) {
		return row{}, &badRow{line: line, reason: fmt.Sprintf("%d fields instead of %d", len(fields), len(r.columns))}
	}
	next := row{line: line}
	for i, name := range r.columns {
		switch name {
		case "original_url":
			next.link.OriginalURL = fields[i]
		case "title":
			next.link.Title = fields[i]
		case "custom_code":
			next.link.CustomCode = fields[i]
		}
	}
	return next, nil
}

func (r *reader) offset() int64 { return r.csv.InputOffset() }

// budget fails when a single row reads more than is left. The CSV reader fetches
// ahead by its buffer of a few KiB, so the bound is about that much too soft.
type budget struct {
	from io.Reader
	left int
}

func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("a row is longer than %d bytes: is a quote never closed?", maxRow)
	}
	n, err := b.from.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
