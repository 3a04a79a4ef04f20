package linkimport

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

// recordReader reads the rows of a table one by one: each a line and its cells. It skips
// rows of blank cells. An error is a badRow, io.EOF, or the reason why the file cannot be
// read on.
type recordReader interface {
	read() (line int, cells []string, err error)
	span() (from, to int64) // of the last row in the file, perhaps with empty lines around it
	comma() byte            // is between cells
}

// separatorLine matches the first line of some files, which names the separator of their
// cells to a spreadsheet.
var separatorLine = regexp.MustCompile(`(?i)^"?sep=([^\r\n"])"?\r?\n?`)

// newRecordReader returns a reader of a table as spreadsheets and databases write them,
// with commas, semicolons or tabs between cells, and any line ends.
func newRecordReader(file io.Reader) (recordReader, error) {
	buffered := bufio.NewReaderSize(file, 64<<10)
	begin, err := buffered.Peek(buffered.Size())
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	skipped := 0
	if bytes.HasPrefix(begin, []byte("\uFEFF")) {
		skipped = len("\uFEFF")
	}
	var separator rune
	lines := 0 // that were skipped
	if m := separatorLine.FindSubmatch(begin[skipped:]); m != nil {
		separator, _ = utf8.DecodeRune(m[1])
		skipped, lines = skipped+len(m[0]), 1
	}
	if _, err := buffered.Discard(skipped); err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	begin = begin[skipped:]
	separator = cmp.Or(separator, separatorOf(begin))
	var from io.Reader = buffered
	if i := bytes.IndexAny(begin, "\r\n"); i >= 0 && !bytes.ContainsRune(begin, '\n') {
		from = &macLines{from: buffered, separator: byte(separator), plain: separator == '\t'}
	}
	if separator == '\t' {
		return &tabRecords{from: bufio.NewReaderSize(from, maxRow), line: lines, at: int64(skipped)}, nil
	}
	r := &csvRecords{budget: &budget{from: from, left: maxRow}, skippedLines: lines, skipped: int64(skipped)}
	r.csv = csv.NewReader(r.budget)
	r.csv.Comma = separator
	r.csv.FieldsPerRecord = -1 // judged row by row
	r.csv.ReuseRecord = true
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

// csvRecords reads CSV (RFC 4180).
type csvRecords struct {
	csv          *csv.Reader
	budget       *budget
	skippedLines int
	skipped      int64
	begin        int64 // of the last row, behind skipped
}

func (r *csvRecords) read() (line int, cells []string, err error) {
	for {
		r.budget.left = maxRow
		r.begin = r.csv.InputOffset()
		r.budget.forget(r.begin)
		cells, err = r.csv.Read()
		if err == nil {
			cells, err = r.withLineEnds(cells, r.budget.read[:r.csv.InputOffset()-r.begin])
		}
		if bad, ok := errors.AsType[*csv.ParseError](err); ok {
			reason := "no valid CSV: " + bad.Err.Error()
			if bad.Line > bad.StartLine {
				reason += fmt.Sprintf(" (the row goes on to line %d)", bad.Line+r.skippedLines)
			}
			return 0, nil, &badRow{line: bad.StartLine + r.skippedLines, reason: reason}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return 0, nil, io.EOF
			}
			return 0, nil, fmt.Errorf("read the file: %w", err)
		}
		if !blank(cells) {
			line, _ = r.csv.FieldPos(0)
			return line + r.skippedLines, cells, nil
		}
	}
}

// withLineEnds returns the cells of a row with the line ends of the file, because the CSV
// reader reads CR LF in a cell as LF, and CR CR LF as CR LF. All line ends before the end
// of a row are in cells.
func (r *csvRecords) withLineEnds(cells []string, text []byte) ([]string, error) {
	text = bytes.TrimSuffix(bytes.TrimSuffix(bytes.TrimLeft(text, "\r\n"), []byte("\n")), []byte("\r"))
	if !bytes.Contains(text, []byte("\r\n")) {
		return cells, nil
	}
	again := csv.NewReader(bytes.NewReader(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\r\r\n"))))
	again.Comma, again.FieldsPerRecord = r.csv.Comma, -1
	return again.Read()
}

func (r *csvRecords) span() (from, to int64) {
	return r.skipped + r.begin, r.skipped + r.csv.InputOffset()
}
func (r *csvRecords) comma() byte { return byte(r.csv.Comma) }

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
	at      int64
	begin   int64 // of the last row
	columns int   // of the header; 0: it was not read
	quoted  bool  // the header is in quotes
}

func (r *tabRecords) span() (from, to int64) { return r.begin, r.at }
func (r *tabRecords) comma() byte            { return '\t' }

func (r *tabRecords) read() (line int, cells []string, err error) {
	for {
		r.begin = r.at
		text, err := r.from.ReadSlice('\n')
		r.line++
		r.at += int64(len(text))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return 0, nil, fmt.Errorf("read the file: %w: a row is longer than %d bytes", ErrUnreadable, maxRow)
		case err != nil && !errors.Is(err, io.EOF):
			return 0, nil, fmt.Errorf("read the file: %w", err)
		case len(text) == 0:
			return 0, nil, io.EOF
		}
		line = r.line
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
		return line, cells, nil
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
		r.at += int64(used)
		_, _ = r.from.Discard(used) // it was there
		return more
	}
	return cells
}

// spansRows reports whether a cell rather holds several rows of a table without quotes,
// from a title that begins with a quote to another that ends with one.
func spansRows(cell string) bool { return strings.Contains(cell, "\n") && strings.Contains(cell, "\t") }
