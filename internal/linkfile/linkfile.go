// Package linkfile reads the links of a file as people have it: a table of a spreadsheet
// or a database, JSON, a dump of SQL, or the redirects of a site. Files become rows, and
// a mapping makes links of rows. The package asks no database and no network, and the
// control plane judges the links.
package linkfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"waypost/internal/redirectfile"
)

// Bounds of a file.
const (
	maxRow     = 1 << 20  // bytes of a row, so that a stray quote does not read the rest of a file into memory
	maxColumns = 256      // of a table
	beginning  = 64 << 10 // bytes from which a file is recognised
)

// Format names the format of a file, or the service from which the file is.
type Format string

// The formats that belong to no service. Package redirectfile has more formats, and
// [Formats] lists them all.
const (
	CSV       Format = "csv"   // with a header; commas, semicolons or tabs are between cells
	JSONLines Format = "jsonl" // an object a line, or one array of objects
	List      Format = "list"  // a line has a target, and perhaps a code behind it
	Waypost   Format = "waypost"
)

// Formats lists the formats that can be read.
func Formats() []Format {
	formats := []Format{CSV, JSONLines, List}
	for i := range sources {
		formats = append(formats, sources[i].format)
	}
	for _, f := range redirectfile.Formats() {
		formats = append(formats, Format(f))
	}
	return formats
}

// Layout names how a file holds its rows.
type Layout string

// The layouts.
const (
	Table Layout = "table" // a row has a cell for each column
	JSON  Layout = "json"  // a row has one cell, the text of an object
	Lines Layout = "lines" // behind the cells of a row is the line
)

// Options say how a file is read.
type Options struct {
	// Format of the file; "": recognised by how the file begins.
	Format Format

	// Encoding of the text; "": UTF-8, or UTF-16 by its byte order mark.
	Encoding Encoding

	// Site is the site of the targets without a host in a file of redirects, such as
	// https://www.example.com; "": such lines are refused.
	Site string

	// Raw takes cells of CSV as they are; default: as [api.SafeCell] makes them.
	Raw bool
}

// Shape describes a file.
type Shape struct {
	Format    Format   `json:"format"`
	Layout    Layout   `json:"layout"`
	Encoding  Encoding `json:"encoding"`
	Separator string   `json:"separator,omitzero"` // of the cells of a table
	Raw       bool     `json:"raw,omitzero"`

	// Columns are the names of the columns of a table. Of JSON they are the names in the
	// objects that were read: a name within an object follows its name and a dot.
	Columns []string `json:"columns"`

	// Personal are columns with data about visitors, such as addresses. They are in no
	// row.
	Personal []string `json:"personal,omitzero"`

	// Notes say what is true of many rows, such as an option that no link has.
	Notes []string `json:"notes,omitzero"`
}

// Row is a row of a file.
type Row struct {
	Line   int      // of the file, from 1, on which the row begins
	Cells  []string // in UTF-8
	Reason string   // why the row is refused already; "": it is not
}

// ErrUnreadable says that the rest of a file can never be read.
var ErrUnreadable = errors.New("the rest of the file cannot be read")

// rowSource reads rows one by one. Its error is io.EOF, or the reason why the file cannot
// be read on.
type rowSource interface {
	next() (Row, error)
}

// Reader reads the rows of a file. Its memory is bounded by some rows, and for redirects
// of a site by [redirectfile.MaxFile].
type Reader struct {
	from  rowSource
	shape Shape
}

// NewReader reads the beginning of a file. An error is for the owner of the file.
func NewReader(file io.Reader, o Options) (*Reader, error) {
	if o.Format != "" && !slices.Contains(Formats(), o.Format) {
		return nil, fmt.Errorf("the format %q is unknown", o.Format)
	}
	text, encoding, err := decodeText(file, o.Encoding)
	if err != nil {
		return nil, err
	}
	r := &Reader{shape: Shape{Format: o.Format, Encoding: encoding, Raw: o.Raw}}
	begin, err := peekBeginning(text)
	if err != nil {
		return nil, err
	}
	if err := checkBeginning(begin, o.Encoding); err != nil {
		return nil, err
	}
	if err := r.open(text, begin, o); err != nil {
		return nil, err
	}
	return r, nil
}

// open chooses the source of rows by the format, or by how the file begins.
func (r *Reader) open(text *bufio.Reader, begin []byte, o Options) (err error) {
	trimmed := bytes.TrimLeft(begin, " \t\r\n")
	switch {
	case len(trimmed) == 0 && len(begin) < beginning:
		return errors.New("the file is empty")
	case slices.Contains(redirectfile.Formats(), redirectfile.Format(o.Format)):
		r.from, err = newSiteRows(text, o, &r.shape)
	case o.Format == CSV:
		r.from, err = newTableRows(text, &r.shape)
	case o.Format == List || o.Format == "" && isList(trimmed):
		r.from = newListRows(text, &r.shape)
	case bytes.HasPrefix(trimmed, []byte("{")), bytes.HasPrefix(trimmed, []byte("[")), o.Format == JSONLines:
		r.from, err = newJSONRows(text, begin, &r.shape)
	case dumpBegin.Match(trimmed):
		r.from, err = newDumpRows(text, &r.shape)
	default:
		r.from, err = newTableRows(text, &r.shape)
	}
	return err
}

// Shape describes the file. Of JSON it knows the names in the rows that were read: ask
// again behind the last row.
func (r *Reader) Shape() Shape {
	s := r.shape
	s.Columns, s.Personal = slices.Clone(s.Columns), slices.Clone(s.Personal)
	if s.Format == "" || s.Format == CSV || s.Format == JSONLines {
		s.Format = s.recognise()
	}
	return s
}

const nul = "the row has a NUL byte, which no text has"

// lost stands in a text for a character that could not be read.
const lost = "\uFFFD"

// Next returns the next row. Its error is io.EOF at the end, [ErrUnreadable] with words
// for the owner of the file, or a failure to read.
func (r *Reader) Next() (Row, error) {
	row, err := r.from.next()
	if err != nil {
		return Row{}, err
	}
	for i, cell := range row.Cells {
		switch {
		case !utf8.ValidString(cell):
			row.Cells[i] = strings.ToValidUTF8(cell, lost)
			row.refuse(notUTF8)
		case strings.IndexByte(cell, 0) >= 0:
			row.refuse(nul)
		case strings.Contains(cell, lost):
			row.refuse("the row has the mark " + lost + " where a character was lost: write the character")
		}
	}
	return row, nil
}

// maxReason bounds the text about a refused row, in bytes: it may quote the row.
const maxReason = 500

// refuse refuses a row unless it has a reason already.
func (r *Row) refuse(reason string) {
	if r.Reason != "" {
		return
	}
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + " …"
	}
	r.Reason = reason
}
