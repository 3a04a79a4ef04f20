package linkimport

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"waypost/api"
	"waypost/api/linkfields"
	"waypost/client"
	"waypost/internal/redirectfile"
)

// maxRow bounds one row, so that a stray quote does not read the rest of a large
// file into memory. The API allows far less.
const maxRow = 256 << 10

// row is a row of the file that can be sent.
type row struct {
	line int
	link client.NewLink

	// As the API failed at it, zero when it has not.
	status int
	reason string
}

func (r row) because(status int, reason string) Row {
	return Row{Line: r.line, OriginalURL: r.link.OriginalURL, Status: status, Reason: reason}
}

// badRow is a row that cannot be sent; the next one can still be read.
type badRow struct {
	line   int
	reason string
}

func (b *badRow) Error() string { return fmt.Sprintf("line %d: %s", b.line, b.reason) }

// Format names the format of a file.
type Format string

// The formats of tables. Package redirectfile has more formats.
const (
	CSV       Format = "csv"   // with a header; commas, semicolons or tabs are between cells
	JSONLines Format = "jsonl" // an object a line, with the API's names
)

// errEncoding is why text is refused that would come out garbled.
var errEncoding = errors.New("the text is not in UTF-8: convert the file first, as with `iconv -f latin1 -t utf-8 FILE > NEW`")

// reader gathers rows into batches.
type reader struct {
	from rowSource
	skip int // rows up to this line are left out
}

// exported decides which fields of an exported link the new link gets.
type exported struct {
	keepCodes bool               // the new links get the old codes
	left      func(field string) // is called for each field that the new link does not get
}

// keepCode copies the code of an exported link to the new link if that is wanted, and
// calls left for the fields that the new link does not get. An empty code means that the
// row has no code.
func (e *exported) keepCode(n *client.NewLink, code string, clicks int64) {
	switch {
	case code == "" || n.CustomCode != "":
	case e.keepCodes:
		n.CustomCode = code
	default:
		e.left("short_code")
	}
	if n.CreatedBy != "" {
		e.left("created_by")
	}
	if n.MaxClicks > 0 && clicks > 0 {
		e.left("click_count")
	}
}

// readTime reads a time, or a day, of a field.
type readTime func(field, text string) (time.Time, error)

// rowSource reads rows one by one.
type rowSource interface {
	// next returns the next row, a badRow, io.EOF, or why the file cannot be read on.
	next() (row, error)

	// span returns the place of the last row in the file, first of the header.
	span() (from, to int64)
}

// newReader reads the header in front of the rows. An empty format is detected from the
// beginning of the file.
func newReader(file io.Reader, im *Import, times readTime, old exported) (*reader, error) {
	format := im.Format
	if slices.Contains(redirectfile.Formats(), redirectfile.Format(format)) {
		rows, err := newSiteRows(file, im)
		if err != nil {
			return nil, err
		}
		return &reader{from: rows}, nil
	}
	buffered := bufio.NewReader(file)
	begin, err := buffered.Peek(buffered.Size())
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	begin = bytes.TrimLeft(bytes.TrimPrefix(begin, []byte("\uFEFF")), " \t\r\n")
	if format == "" {
		if format, err = formatOf(begin); err != nil {
			return nil, err
		}
	}
	if format == JSONLines {
		rows := newJSONRows(buffered, times)
		rows.old = old
		return &reader{from: rows}, nil
	}
	rows, err := newCSVRows(buffered, times)
	if err != nil {
		return nil, err
	}
	rows.raw, rows.old = im.Raw, old
	return &reader{from: rows}, nil
}

// formatOf recognises a format by how a file begins: no column begins with a bracket.
func formatOf(begin []byte) (Format, error) {
	switch {
	case bytes.HasPrefix(begin, []byte("{")):
		return JSONLines, nil
	case bytes.HasPrefix(begin, []byte("[")):
		return "", errors.New("the file is a JSON array, and an import reads JSON lines, an object a line: " +
			"make them with `jq -c '.[]' FILE > links.jsonl`")
	case bytes.HasPrefix(begin, []byte("PK\x03\x04")):
		return "", errors.New("the file is a spreadsheet or another archive: save it as CSV in UTF-8")
	case bytes.HasPrefix(begin, []byte("\xFF\xFE")), bytes.HasPrefix(begin, []byte("\xFE\xFF")):
		return "", errors.New("the text is in UTF-16: convert the file first, as with `iconv -f utf-16 -t utf-8 FILE > NEW`")
	}
	return CSV, nil
}

// offset returns the number of bytes read.
func (r *reader) offset() int64 {
	_, read := r.from.span()
	return read
}

// csvRows reads the links of a table with a header.
type csvRows struct {
	records recordReader
	raw     bool // cells are as they are
	old     exported
	columns []string
	set     []func(*client.NewLink, string) error // by column; nil for one without a name
}

// foreign are columns that say nothing about a new link: of Shlink and YOURLS, and the
// reason in a file of refused rows.
var foreign = []string{refusedColumn, "timestamp", "ip", "clicks", "shorturl", "createdat", "visits"}

// column returns the setter of a column, and whether a file may have that column.
// Some columns belong to exports only, and say nothing about a new link.
func column(name string, times readTime) (set func(*client.NewLink, string) error, known bool) {
	f := linkfields.Named(name)
	switch {
	case f != nil && f.New != nil:
		return func(n *client.NewLink, cell string) error { return setField(f.New(n), name, cell, times) }, true
	case f != nil, slices.Contains(foreign, name):
		return func(*client.NewLink, string) error { return nil }, true
	}
	return nil, false
}

// setField reads a cell into a field of a new link.
func setField(field any, name, cell string, times readTime) error {
	switch to := field.(type) {
	case *string:
		if *to = cell; name == "max_clicks_mode" {
			return checkMode(cell)
		}
		return nil
	case *int:
		n, err := readNumber(name, cell)
		*to = int(n)
		return err
	case *int64:
		n, err := readNumber(name, cell)
		*to = n
		return err
	case *bool:
		return setBool(to, name, cell)
	case **bool:
		return setActive(to, cell)
	case *time.Time:
		return setTime(to, name, cell, times)
	case *[]string:
		tags, err := splitTags(cell)
		*to = tags
		return err
	case *json.RawMessage:
		return setMetadata(to, cell)
	case *[]api.Rule:
		return setRules(to, cell, times)
	}
	return fmt.Errorf("no cell of CSV holds %s", name)
}

func readNumber(column, s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s %.40q is no number", column, s)
	}
	return n, nil
}

// checkMode checks a max_clicks_mode, because the API refuses a whole batch for one row
// with a word that it does not have.
func checkMode(mode string) error {
	if mode == "" || mode == "exact" || mode == "eventual" {
		return nil
	}
	return fmt.Errorf("max_clicks_mode %.40q is unknown: expected exact or eventual", mode)
}

func setBool(to *bool, column, s string) error {
	switch strings.ToLower(s) {
	case "true":
		*to = true
	case "false", "":
		*to = false
	default:
		return fmt.Errorf("%s %.40q is neither true nor false", column, s)
	}
	return nil
}

func setTime(to *time.Time, column, s string, times readTime) (err error) {
	if s == "" {
		return nil
	}
	if *to, err = times(column, s); err != nil {
		return fmt.Errorf("%s: %w", column, err)
	}
	return nil
}

// setActive leaves the default value out, so that control planes without the field accept
// the row.
func setActive(to **bool, s string) error {
	active := true
	if s != "" {
		if err := setBool(&active, "active", s); err != nil {
			return err
		}
	}
	if *to = nil; !active {
		*to = &active
	}
	return nil
}

// noPassword is why a link of an export is not made without its password.
const noPassword = `the link has a password, which no export holds: give one as "password", or create the link by hand`

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

// otherNames maps the names of columns in the exports of other shorteners to ours.
var otherNames = map[string]string{
	"url": "original_url", "long_url": "original_url", "longurl": "original_url", "keyword": "custom_code", shlinkCode: "custom_code",
}

// shlinkCode is the column of the code, in small letters, in a file of Shlink.
const shlinkCode = "shortcode"

var headerHint = "the columns are " + Columns()

// Columns names the columns of CSV that an import takes.
func Columns() string {
	var names []string
	for f := range linkfields.Importable {
		names = append(names, f.Name)
	}
	text := strings.Join(names, ", ")
	text = strings.Replace(text, "original_url, ", "original_url (or url, long_url, longUrl) and any of ", 1)
	return strings.Replace(text, "custom_code", "custom_code (or keyword, shortCode)", 1)
}

// newCSVRows reads the header, in which only original_url must be.
func newCSVRows(file io.Reader, times readTime) (*csvRows, error) {
	records, err := newRecordReader(file)
	if err != nil {
		return nil, err
	}
	r := &csvRows{records: records}
	_, header, err := records.read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty: its first line must be a header such as original_url,title")
	}
	if err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	var unknown []string
	shlink := false
	for i, name := range header {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("read the header: %w", errEncoding)
		}
		name = strings.ToLower(strings.TrimSpace(name))
		shlink = shlink || name == shlinkCode
		name = cmp.Or(otherNames[name], name)
		set, known := column(name, times)
		switch {
		case name == "": // spreadsheets write columns that were once in use
		case !known:
			unknown = append(unknown, strconv.Quote(header[i]))
		case slices.Contains(r.columns[:i], name) && name != refusedColumn:
			return nil, fmt.Errorf("the header has two columns for %s, the second is %q", name, header[i])
		}
		r.columns, r.set = append(r.columns, name), append(r.set, set)
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("the header has columns that an import does not know: %s; rename or remove them: %s",
			strings.Join(unknown, ", "), headerHint)
	}
	if !slices.Contains(r.columns, "original_url") {
		return nil, errors.New("the header lacks original_url: " + headerHint)
	}
	// A list made by hand may have a shortCode, too, with commas between tags.
	shlink = shlink && slices.ContainsFunc(r.columns, func(name string) bool {
		return name == "createdat" || name == "shorturl" || name == "visits"
	})
	if tags := slices.Index(r.columns, "tags"); shlink && tags >= 0 {
		r.set[tags] = setShlinkTags
	}
	return r, nil
}

func (r *csvRows) next() (row, error) {
	line, fields, err := r.records.read()
	if err != nil {
		return row{}, err
	}
	n := len(r.columns)
	if len(fields) > n && blank(fields[n:]) {
		fields = fields[:n]
	}
	if len(fields) < n && blank(r.columns[len(fields):]) {
		n = len(fields)
	}
	if len(fields) != n {
		return row{}, &badRow{line: line, reason: fmt.Sprintf("%d fields instead of %d", len(fields), n)}
	}
	next, code, clicks, hasPassword := row{line: line}, "", int64(0), false
	for i, cell := range fields {
		if !utf8.ValidString(cell) {
			return row{}, &badRow{line: line, reason: errEncoding.Error()}
		}
		if !r.raw {
			cell = api.PlainCell(cell)
		}
		if r.columns[i] == "" {
			if strings.TrimSpace(cell) != "" {
				return row{}, &badRow{line: line, reason: fmt.Sprintf("%.40q is in column %d, which has no name in the header", cell, i+1)}
			}
			continue
		}
		if err := r.set[i](&next.link, cell); err != nil {
			return row{}, &badRow{line: line, reason: err.Error()}
		}
		switch r.columns[i] {
		case "short_code":
			code = cell
		case "click_count":
			clicks, _ = strconv.ParseInt(cell, 10, 64) // ignores all but numbers
		case "has_password":
			if err := setBool(&hasPassword, "has_password", cell); err != nil {
				return row{}, &badRow{line: line, reason: err.Error()}
			}
		}
	}
	if hasPassword && next.link.Password == "" {
		return row{}, &badRow{line: line, reason: noPassword}
	}
	r.old.keepCode(&next.link, code, clicks)
	return next, nil
}

// batch holds the rows of one request, and the bad rows between them.
type batch struct {
	rows  []row
	bad   []Row
	codes map[string]bool // custom ones of rows
	last  int             // line of the last row of both kinds; without a row, the line before
	end   bool            // of the file
}

// batch gathers the rows of one request. If until is not 0, it gathers the rows up to
// that line, because they fitted into one request before. With an error it returns the
// rows before the fault.
func (r *reader) batch(until int) (batch, error) {
	b := batch{codes: make(map[string]bool), last: r.skip}
	for size, passwords := 0, 0; ; {
		full := len(b.rows)+len(b.bad) >= batchRows || size >= batchBytes || passwords >= batchPasswords
		if until == 0 && full || until != 0 && b.last >= until {
			break
		}
		next, err := r.from.next()
		bad, isBad := errors.AsType[*badRow](err)
		switch {
		case isBad && bad.line > r.skip:
			b.refuse(bad)
		case isBad: // done in an earlier run
		case errors.Is(err, io.EOF):
			b.end = true
			return b, nil
		case err != nil:
			return b, err
		case next.line > r.skip:
			text, err := json.Marshal(&next.link) // about as many bytes as it has in a request
			if err != nil {
				b.refuse(&badRow{line: next.line, reason: err.Error()})
				break
			}
			size += len(text)
			if next.link.Password != "" {
				passwords++
			}
			if next.link.CustomCode != "" {
				b.codes[next.link.CustomCode] = true
			}
			b.rows = append(b.rows, next)
			b.last = next.line
		}
	}
	r.skip = b.last
	return b, nil
}

// maxReason bounds the text about a bad row, in bytes: it may quote the row.
const maxReason = 500

func (b *batch) refuse(bad *badRow) {
	reason := bad.reason
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + " …"
	}
	b.bad = append(b.bad, Row{Line: bad.line, Reason: reason})
	b.last = bad.line
}

// splitTags reads the tags of a cell, which is a line of CSV of its own: a, b or a;b or
// a,"b, with a comma". A space before a tag belongs to it only within quotes, which
// exports set there.
func splitTags(cell string) ([]string, error) {
	if strings.TrimSpace(cell) == "" {
		return nil, nil
	}
	quoted := false
	reader := csv.NewReader(strings.NewReader(strings.Map(func(r rune) rune {
		if quoted = quoted != (r == '"'); r == ';' && !quoted {
			return ','
		}
		return r
	}, cell)))
	reader.TrimLeadingSpace = true
	switch lines, err := reader.ReadAll(); {
	case err != nil:
		return nil, fmt.Errorf("tags %.40q: write a tag with a quotation mark in quotation marks, and the mark twice", cell)
	case len(lines) != 1:
		return nil, fmt.Errorf("tags %.40q are not separated by commas: they are on several lines", cell)
	default:
		return lines[0], nil
	}
}

// setShlinkTags reads the tags of a cell of Shlink, such as a|b.
func setShlinkTags(n *client.NewLink, s string) error {
	if s != "" {
		n.Tags = strings.Split(s, "|")
	}
	return nil
}

func (r *csvRows) span() (from, to int64) { return r.records.span() }
