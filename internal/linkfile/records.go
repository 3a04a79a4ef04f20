package linkfile

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// recordReader reads the rows of a table one by one, and skips rows of blank cells. Its
// error is io.EOF, or the reason why the file cannot be read on.
type recordReader interface {
	read() (Row, error)
}

// separatorLine matches the first line of some files, which names the separator of their
// cells to a spreadsheet.
var separatorLine = regexp.MustCompile(`(?i)^"?sep=([^\r\n"])"?\r?\n?`)

// newRecordReader returns a reader of a table as spreadsheets and databases write them,
// with commas, semicolons or tabs between cells, and any line ends.
func newRecordReader(text *bufio.Reader) (records recordReader, separator rune, err error) {
	begin, err := peekBeginning(text)
	if err != nil {
		return nil, 0, err
	}
	lines := 0 // that were skipped
	if m := separatorLine.FindSubmatch(begin); m != nil {
		separator, _ = utf8.DecodeRune(m[1])
		lines = 1
		_, _ = text.Discard(len(m[0])) // it was there
		begin = begin[len(m[0]):]
	}
	separator = cmp.Or(separator, separatorOf(begin))
	var from io.Reader = text
	if i := bytes.IndexAny(begin, "\r\n"); i >= 0 && !bytes.ContainsRune(begin, '\n') {
		from = &macLines{from: text, separator: byte(separator), plain: separator == '\t'}
	}
	if separator == '\t' {
		return &tabRecords{from: bufio.NewReaderSize(from, maxRow), line: lines}, separator, nil
	}
	r := &csvRecords{budget: &budget{from: from, left: maxRow}, skippedLines: lines}
	r.csv = csv.NewReader(r.budget)
	r.csv.Comma = separator
	r.csv.FieldsPerRecord = -1 // judged row by row
	return r, separator, nil
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

// csvRecords reads CSV (RFC 4180).
type csvRecords struct {
	csv          *csv.Reader
	budget       *budget
	skippedLines int
}

func (r *csvRecords) read() (Row, error) {
	for {
		r.budget.left = maxRow
		begin := r.csv.InputOffset()
		r.budget.forget(begin)
		cells, err := r.csv.Read()
		text := r.budget.read[:r.csv.InputOffset()-begin]
		if bad, ok := errors.AsType[*csv.ParseError](err); ok {
			row := Row{Line: bad.StartLine + r.skippedLines, Cells: r.cellsOf(text, true)}
			reason := "no valid CSV: " + bad.Err.Error()
			if bad.Line > bad.StartLine {
				reason += fmt.Sprintf(" (the row goes on to line %d)", bad.Line+r.skippedLines)
			}
			row.refuse(reason)
			return row, nil
		}
		if err != nil {
			return Row{}, readFault(err)
		}
		if blank(cells) {
			continue
		}
		line, _ := r.csv.FieldPos(0)
		if bytes.Contains(text, []byte("\r\n")) && slices.ContainsFunc(cells, func(cell string) bool { return strings.Contains(cell, "\n") }) {
			cells = r.cellsOf(text, false)
		}
		return Row{Line: line + r.skippedLines, Cells: cells}, nil
	}
}

// readFault returns io.EOF, or why a file cannot be read on.
func readFault(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return fmt.Errorf("read the file: %w", err)
}

// cellsOf returns the cells of the text of a row with the line ends of the file, because
// the CSV reader reads CR LF in a cell as LF, and CR CR LF as CR LF. All line ends before
// the end of a row are in cells. Lazily, quotes may be anywhere.
func (r *csvRecords) cellsOf(text []byte, lazily bool) []string {
	text = bytes.TrimSuffix(bytes.TrimSuffix(bytes.TrimLeft(text, "\r\n"), []byte("\n")), []byte("\r"))
	again := csv.NewReader(bytes.NewReader(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\r\r\n"))))
	again.Comma, again.FieldsPerRecord, again.LazyQuotes = r.csv.Comma, -1, lazily
	cells, err := again.Read()
	if err != nil {
		return []string{string(text)}
	}
	return cells
}

// budget fails when a single row reads more than is left. The CSV reader fetches
// ahead by its buffer of a few KiB, so the bound is about that much too soft.
type budget struct {
	from io.Reader
	left int
	read []byte // since the place that was forgotten last
	at   int64  // that place
}

// forget drops the bytes before a place in the file.
func (b *budget) forget(before int64) {
	b.read = b.read[:copy(b.read, b.read[before-b.at:])]
	b.at = before
}

func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: a row is longer than %d bytes: is a quote never closed?", ErrUnreadable, maxRow)
	}
	n, err := b.from.Read(p[:min(len(p), b.left)])
	b.left -= n
	b.read = append(b.read, p[:n]...)
	return n, err
}

// macLines turns the line ends of a file that has only CR into LF, except in cells in
// quotes.
type macLines struct {
	from      io.Reader
	separator byte
	plain     bool // no cell is in quotes
	last      byte
	inside    bool // of quotes
	closed    bool // the last byte closed a cell in quotes, or is half of a doubled quote
}

func (m *macLines) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	for i, c := range p[:n] {
		begins := m.last == 0 || m.last == m.separator || m.last == '\n'
		quote := c == '"' && !m.plain && (m.inside || m.closed || begins)
		m.closed = quote && m.inside
		m.inside = m.inside != quote
		if c == '\r' && !m.inside {
			p[i] = '\n'
		}
		m.last = p[i]
	}
	return n, err
}

// longestCell bounds a cell of several lines in a table with tabs, in bytes.
const longestCell = 16 << 10

// tabRecords reads a table with tabs between its cells. Databases and the media type
// text/tab-separated-values know no quotes, and a spreadsheet sets them around a cell
// with a line end, a tab, a comma or a quote in it. Behind a header in quotes all cells
// are.
type tabRecords struct {
	from    *bufio.Reader // with a buffer of one row
	line    int
	columns int  // of the header; 0: it was not read
	quoted  bool // the header is in quotes
}

func (r *tabRecords) read() (Row, error) {
	for {
		text, err := r.from.ReadSlice('\n')
		r.line++
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return Row{}, fmt.Errorf("%w: a row is longer than %d bytes", ErrUnreadable, maxRow)
		case err != nil && (len(text) == 0 || !errors.Is(err, io.EOF)):
			return Row{}, readFault(err)
		}
		line := r.line
		first := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
		if r.columns == 0 {
			r.quoted = strings.HasPrefix(first, `"`) && strings.HasSuffix(first, `"`)
		}
		cells, open := r.cellsOf(first)
		if open && r.columns > 0 {
			cells = r.goOn(string(text), cells)
		}
		if blank(cells) {
			continue
		}
		if r.columns == 0 {
			r.columns = len(cells)
		}
		return Row{Line: line, Cells: cells}, nil
	}
}

// cellsOf returns the cells of a row, and reports whether a cell begins with a quote that
// is not closed in it.
func (r *tabRecords) cellsOf(row string) (cells []string, open bool) {
	for {
		cell, n, closed := quotedCell(row)
		switch {
		case !closed:
			open = open || strings.HasPrefix(row, `"`)
			cell, _, _ = strings.Cut(row, "\t")
			n = len(cell)
		case !r.quoted && !strings.ContainsAny(cell, "\"\t\n\r,"):
			cell = row[:n] // the quotes belong to the text
		}
		cells = append(cells, cell)
		if n == len(row) {
			return cells, open
		}
		row = row[n+1:]
	}
}

// quotedCell returns the text of the cell in quotes at the beginning of a row, and its
// length with the quotes. It is not closed unless a tab or the end follows.
func quotedCell(row string) (cell string, n int, closed bool) {
	if !strings.HasPrefix(row, `"`) {
		return "", 0, false
	}
	for n = 1; ; {
		quote := strings.IndexByte(row[n:], '"')
		if quote < 0 {
			return "", 0, false
		}
		n += quote + 1
		switch {
		case n == len(row) || row[n] == '\t':
			return strings.ReplaceAll(row[1:n-1], `""`, `"`), n, true
		case row[n] != '"':
			return "", 0, false
		}
		n++
	}
}

// goOn returns the cells of a row that goes on over the next lines with a cell in quotes,
// or the cells of its first line if these lines together are no row of the table.
func (r *tabRecords) goOn(text string, cells []string) []string {
	next, _ := r.from.Peek(longestCell) // fails at the end of the file
	for used := 0; used < len(next); {
		end := bytes.IndexByte(next[used:], '\n') + 1
		if end == 0 {
			end = len(next) - used
		}
		used += end
		if !bytes.ContainsRune(next[used-end:used], '"') {
			continue
		}
		more, open := r.cellsOf(strings.TrimSuffix(strings.TrimSuffix(text+string(next[:used]), "\n"), "\r"))
		if open || len(more) != r.columns || !r.quoted && slices.ContainsFunc(more, spansRows) {
			continue
		}
		r.line += bytes.Count(next[:used], []byte("\n"))
		_, _ = r.from.Discard(used) // it was there
		return more
	}
	return cells
}

// spansRows reports whether a cell rather holds several rows of a table without quotes,
// from a title that begins with a quote to another that ends with one.
func spansRows(cell string) bool { return strings.Contains(cell, "\n") && strings.Contains(cell, "\t") }
