package linkimport

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// refusedColumn is the column of the reason in a file of refused rows, which imports
// ignore.
const refusedColumn = "refused"

// Refusals writes a file of refused rows: every row as it is in the file of an import,
// with the reason before it, so that the rows can be mended there and imported. It reads
// the file of the import again, and keeps one row in memory.
type Refusals struct {
	file      *io.SectionReader
	format    Format
	to        *bufio.Writer
	rows      *reader // nil: not begun
	line      int     // of the last row
	separator byte    // of cells; 0: JSON lines
	again     bool    // the first column of the file has the reasons of an earlier import
}

// NewRefusals returns a writer of the refused rows of file. An empty format is recognised
// by how the file begins.
func NewRefusals(file *io.SectionReader, format Format, to io.Writer) *Refusals {
	return &Refusals{file: file, format: format, to: bufio.NewWriter(to)}
}

// Add writes the row that begins in a line of the file of the import. Rows in ascending
// order take one pass over that file.
func (r *Refusals) Add(line int, reason string) error {
	if r.rows == nil || line <= r.line {
		if err := r.rewind(); err != nil {
			return err
		}
	}
	for r.line < line {
		next, err := r.rows.from.next()
		bad, isBad := errors.AsType[*badRow](err)
		switch {
		case isBad:
			r.line = bad.line
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the file has no line %d any more", line)
		case err != nil:
			return err
		default:
			r.line = next.line
		}
	}
	text, err := r.text()
	if err != nil {
		return err
	}
	return r.write(fmt.Sprintf("line %d: %s", line, reason), text)
}

// Flush writes what is buffered, and the header of a file without refused rows.
func (r *Refusals) Flush() error {
	if r.rows == nil {
		if err := r.rewind(); err != nil {
			return err
		}
	}
	return r.to.Flush()
}

// isSite reports whether the file has the redirects of another server, where reasons are
// comments.
func (r *Refusals) isSite() bool {
	_, is := r.rows.from.(*siteRows)
	return is
}

// rewind begins to read the file. For the first time it also writes the header.
func (r *Refusals) rewind() error {
	first := r.rows == nil
	if _, err := r.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	anyTime := func(string, string) (time.Time, error) { return time.Time{}, nil }
	rows, err := newReader(r.file, &Import{Format: r.format, Raw: true}, anyTime, exported{left: func(string) {}})
	if err != nil {
		return err
	}
	r.rows, r.line = rows, 0
	table, isTable := rows.from.(*csvRows)
	if !isTable || !first {
		return nil
	}
	r.separator, r.again = table.records.comma(), table.columns[0] == refusedColumn
	from, _ := table.span()
	before := make([]byte, from) // such as a line that names the separator
	if _, err := r.file.ReadAt(before, 0); err != nil {
		return err
	}
	if _, err := r.to.Write(before); err != nil {
		return err
	}
	header, err := r.text()
	if err != nil {
		return err
	}
	if r.again {
		header = withoutFirst(header, r.separator)
	}
	name := refusedColumn
	if bytes.HasPrefix(header, []byte(`"`)) { // then all cells of a table with tabs may be in quotes
		name = strconv.Quote(name)
	}
	_, err = fmt.Fprintf(r.to, "%s%c%s\n", name, r.separator, header)
	return err
}

// text returns the last row, or the header, as it is in the file.
func (r *Refusals) text() ([]byte, error) {
	from, to := r.rows.from.span()
	text := make([]byte, to-from)
	if _, err := r.file.ReadAt(text, from); err != nil {
		return nil, err
	}
	if text = bytes.Trim(text, "\r\n"); r.separator == 0 {
		text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\uFEFF")))
	}
	return text, nil
}

// write writes a row with its reason. Behind the reason a row may have any faults.
func (r *Refusals) write(reason string, row []byte) error {
	var cell string
	switch inner, isObject := bytes.CutPrefix(row, []byte("{")); {
	case r.separator != 0:
		if r.again {
			row = withoutFirst(row, r.separator)
		}
		reason = strings.Join(strings.Fields(reason), " ")
		cell = `"` + strings.ReplaceAll(reason, `"`, `""`) + `"`
		if r.separator == '\t' { // whose tables may know no quotes
			cell = strings.ReplaceAll(reason, `"`, "'")
		}
		cell += string(r.separator)
	case isObject && len(inner) > 1 && json.Valid(row):
		text, err := json.Marshal(reason)
		if err != nil {
			return err
		}
		row, cell = inner, fmt.Sprintf("{%q:%s,", refusedColumn, text)
	case r.isSite():
		cell = "# " + strings.Join(strings.Fields(reason), " ") + "\n"
	}
	_, err := fmt.Fprintf(r.to, "%s%s\n", cell, row)
	return err
}

// withoutFirst returns a row without its first cell.
func withoutFirst(row []byte, separator byte) []byte {
	quoted := false
	for i, c := range row {
		if c == '"' {
			quoted = !quoted
		} else if c == separator && !quoted {
			return row[i+1:]
		}
	}
	return nil
}
