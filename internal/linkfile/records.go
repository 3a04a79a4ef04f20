package linkfile

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// lineSource reads the lines of a text with their ends. Its memory is one row.
type lineSource struct {
	from *bufio.Reader // with a buffer of one row
	end  byte          // of a line: LF, or CR in a text that begins without LF
	line int           // of the last line
}

func newLineSource(text *bufio.Reader) *lineSource {
	s := &lineSource{from: bufio.NewReaderSize(text, maxRow), end: '\n'}
	begin, _ := text.Peek(beginning) // fails at the end of the file
	if bytes.ContainsRune(begin, '\r') && !bytes.ContainsRune(begin, '\n') {
		s.end = '\r'
	}
	return s
}

// next returns the next line, which is valid until the next call. Its error is
// bufio.ErrBufferFull for the beginning of a line above the limit of a row.
func (s *lineSource) next() ([]byte, error) {
	line, err := s.from.ReadSlice(s.end)
	s.line++
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil
	}
	return line, err
}

// withoutEnd returns a line without its line end.
func withoutEnd[T ~string | ~[]byte](line T) T {
	n := len(line)
	if n > 0 && line[n-1] == '\n' {
		n--
	}
	if n > 0 && line[n-1] == '\r' {
		n--
	}
	return line[:n]
}

// readFault returns io.EOF, or why a file cannot be read on behind a line.
func readFault(line int, err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, bufio.ErrBufferFull):
		return fmt.Errorf("line %d: %w: the row is longer than %d bytes: is a quotation mark never closed?", line, ErrUnreadable, maxRow)
	}
	return fmt.Errorf("read the file: %w", err)
}

// separatorLine matches the first line of some files, which names the separator of their
// cells to a spreadsheet.
var separatorLine = regexp.MustCompile(`(?i)^"?sep=([^\r\n"])"?(?:\r?\n|\r)?`)

// records reads the rows of a table as spreadsheets and databases write them, with any
// line ends. It skips rows of blank cells.
type records struct {
	lines     *lineSource
	separator string
	row       []byte // the row so far
	columns   int    // of the header; 0: it was not read
	quoted    bool   // the header of a table with tabs is in quotes
}

func newRecords(text *bufio.Reader) (*records, error) {
	begin, err := peekBeginning(text)
	if err != nil {
		return nil, err
	}
	r := &records{lines: newLineSource(text)}
	var separator rune
	if m := separatorLine.FindSubmatch(begin); m != nil {
		separator, _ = utf8.DecodeRune(m[1])
		_, _ = r.lines.from.Discard(len(m[0])) // it was there
		r.lines.line, begin = 1, begin[len(m[0]):]
	}
	r.separator = string(cmp.Or(separator, separatorOf(begin)))
	return r, nil
}

// separatorOf returns the separator of the cells of a header. The names of columns
// contain none of the three separators.
func separatorOf(header []byte) rune {
	header = bytes.TrimLeft(header, "\r\n")
	if end := bytes.IndexAny(header, "\r\n"); end >= 0 {
		header = header[:end]
	}
	for _, separator := range ",;\t" {
		if bytes.ContainsRune(header, separator) {
			return separator
		}
	}
	return ','
}

func blank(cells []string) bool {
	return !slices.ContainsFunc(cells, func(cell string) bool { return strings.TrimSpace(cell) != "" })
}

// read returns the next row. Its error is io.EOF, or why the file cannot be read on.
func (r *records) read() (Row, error) {
	for {
		line, err := r.lines.next()
		if err != nil {
			return Row{}, readFault(r.lines.line, err)
		}
		row := Row{Line: r.lines.line}
		switch {
		case len(bytes.TrimSpace(line)) == 0:
			continue
		case bytes.IndexByte(line, '"') < 0:
			row.Cells = r.split(string(withoutEnd(line)))
		case r.separator == "\t":
			row.Cells = r.tabCells(string(line))
		default:
			var reason string
			if row.Cells, reason, err = r.quotedCells(line); err != nil {
				return Row{}, readFault(row.Line, err)
			}
			if reason != "" {
				if r.lines.line > row.Line {
					reason += fmt.Sprintf(" (the row goes on to line %d)", r.lines.line)
				}
				row.Cells = r.split(string(withoutEnd(r.row)))
				row.refuse(reason)
			}
		}
		if row.Reason == "" && blank(row.Cells) {
			continue
		}
		r.columns = cmp.Or(r.columns, len(row.Cells))
		return row, nil
	}
}

// split returns the cells of a row without quotes. A cell behind the limit has the rest.
func (r *records) split(row string) []string {
	return strings.SplitN(row, r.separator, maxColumns+1)
}

// quotedCells returns the cells of a row of CSV (RFC 4180) that begins with a line, or
// the reason why it is no row.
func (r *records) quotedCells(line []byte) (cells []string, reason string, err error) {
	r.row = append(r.row[:0], line...)
	for at := 0; len(cells) <= maxColumns; at += len(r.separator) {
		var cell []byte
		if at < len(r.row) && r.row[at] == '"' {
			end, err := r.closing(at + 1)
			if err != nil {
				return nil, "", err
			}
			if end < 0 {
				return nil, "a quotation mark is never closed", nil
			}
			cell, at = bytes.ReplaceAll(r.row[at+1:end], []byte(`""`), []byte(`"`)), end+1
		} else {
			cell, _, _ = bytes.Cut(withoutEnd(r.row[at:]), []byte(r.separator))
			if at += len(cell); bytes.IndexByte(cell, '"') >= 0 {
				return nil, "a quotation mark is in a cell that does not begin with one: write the cell in quotation marks, and the mark twice", nil
			}
		}
		cells = append(cells, string(cell))
		switch rest := r.row[at:]; {
		case len(withoutEnd(rest)) == 0:
			return cells, "", nil
		case !bytes.HasPrefix(rest, []byte(r.separator)):
			return nil, "a text follows the quotation mark that closes a cell", nil
		}
	}
	return cells, "", nil
}

// closing returns the place of the quotation mark that closes a cell, -1 if the file ends
// before. It reads more lines as they are needed.
func (r *records) closing(at int) (int, error) {
	for {
		quote := bytes.IndexByte(r.row[at:], '"')
		if at += quote; quote >= 0 {
			if at+1 == len(r.row) || r.row[at+1] != '"' {
				return at, nil
			}
			at += 2
			continue
		}
		at = len(r.row)
		line, err := r.lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return -1, nil
		case err == nil && len(r.row)+len(line) > maxRow:
			err = bufio.ErrBufferFull
		}
		if err != nil {
			return -1, err
		}
		r.row = append(r.row, line...)
	}
}

// longestCell bounds a cell of several lines in a table with tabs, in bytes.
const longestCell = 16 << 10

// tabCells returns the cells of a row with tabs. Databases and the media type
// text/tab-separated-values know no quotes, and a spreadsheet sets them around a cell
// with a line end, a tab, a comma or a quote in it. Behind a header in quotes all cells
// are. A row that is written in neither way has its quotes in its texts.
func (r *records) tabCells(line string) []string {
	first := withoutEnd(line)
	var next []byte
	if r.columns == 0 {
		r.quoted = strings.HasPrefix(first, `"`) && strings.HasSuffix(first, `"`)
	} else {
		next, _ = r.lines.from.Peek(longestCell) // fails at the end of the file
	}
	if len(next) == longestCell {
		next = next[:bytes.LastIndexByte(next, r.lines.end)+1]
	}
	lines := &lineSource{from: bufio.NewReaderSize(bytes.NewReader(next), longestCell), end: r.lines.end}
	ahead := records{lines: lines, separator: r.separator}
	cells, reason, err := ahead.quotedCells([]byte(line))
	used := len(ahead.row) - len(line)
	isRow := err == nil && reason == "" && (used == 0 || len(cells) == r.columns)
	if !isRow || !r.quoted && !r.bySpreadsheet(cells, string(withoutEnd(ahead.row))) {
		return r.split(first)
	}
	_, _ = r.lines.from.Discard(used) // it was there
	r.lines.line += lines.line
	return cells
}

// bySpreadsheet reports whether a spreadsheet writes cells with tabs between them as a
// text. A cell that rather holds several rows, from a title that begins with a quote to
// another that ends with one, belongs to no table without quotes.
func (r *records) bySpreadsheet(cells []string, text string) bool {
	written := make([]string, len(cells))
	for i, cell := range cells {
		if strings.Contains(cell, "\t") && strings.IndexByte(cell, r.lines.end) >= 0 {
			return false
		}
		if written[i] = cell; strings.ContainsAny(cell, "\"\t\n\r,") {
			written[i] = `"` + strings.ReplaceAll(cell, `"`, `""`) + `"`
		}
	}
	return strings.Join(written, "\t") == text
}
