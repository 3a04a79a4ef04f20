package linkfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// dumpBegin matches how a dump of MySQL begins, as mysqldump and phpMyAdmin write it.
var dumpBegin = regexp.MustCompile(`(?i)^(?:--|/\*|(?:insert|create|drop|set|start|lock|use)\s+[\w\x60])`)

// isDump reports whether a text is a dump of MySQL.
func isDump(begin []byte) bool { return dumpBegin.Match(begin) && bytes.ContainsRune(begin, ';') }

// dumpColumns are the columns of a table of YOURLS, in the order in which it is made.
var dumpColumns = []string{"keyword", "url", "title", "timestamp", "ip", "clicks"}

// insertInto matches the beginning of a statement with the rows of the table of links,
// and its columns, if it has them.
var insertInto = regexp.MustCompile("(?is)^insert\\s+(?:ignore\\s+)?into\\s+(?:`?\\w+`?\\s*\\.\\s*)?`?\\w*url`?\\s*(?:\\(([^)]*)\\))?\\s*values\\s*$")

// dumpRows reads the rows of the table of links in a dump of YOURLS, and skips the other
// statements. Nothing else of SQL is known.
type dumpRows struct {
	text   *bufio.Reader
	line   int
	inside bool // of a statement with rows of the table
	out    int  // index of the column with addresses, which is in no row; -1: there is none
	width  int
}

func newDumpRows(text *bufio.Reader, shape *Shape) (*dumpRows, error) {
	r := &dumpRows{text: text, line: 1}
	columns, err := r.findRows()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the dump has no rows of the table yourls_url")
	}
	if err != nil {
		return nil, err
	}
	shape.Layout, shape.Raw = Table, true
	r.width = len(columns)
	r.out = slices.Index(columns, "ip")
	for i, column := range columns {
		if i == r.out {
			shape.Personal = append(shape.Personal, column)
		} else {
			shape.Columns = append(shape.Columns, column)
		}
	}
	return r, nil
}

func (r *dumpRows) next() (Row, error) {
	for {
		if !r.inside {
			if _, err := r.findRows(); err != nil {
				return Row{}, err
			}
		}
		c, err := r.readByte()
		switch {
		case err != nil:
			return Row{}, readFault(err)
		case c == '(':
			return r.tuple()
		case c == ',', c == ' ', c == '\t', c == '\r', c == '\n':
		case c == ';':
			r.inside = false
		default: // such as ON DUPLICATE KEY
			r.inside = false
			if _, err := r.statement(c, false); err != nil {
				return Row{}, err
			}
		}
	}
}

func (r *dumpRows) readByte() (byte, error) {
	c, err := r.text.ReadByte()
	if c == '\n' && err == nil {
		r.line++
	}
	return c, err
}

// findRows skips statements up to the rows of the table, and returns its columns.
func (r *dumpRows) findRows() ([]string, error) {
	for {
		c, err := r.readByte()
		if err != nil {
			return nil, readFault(err)
		}
		if strings.IndexByte(" \t\r\n;", c) >= 0 {
			continue
		}
		head, err := r.statement(c, true)
		if err != nil {
			return nil, err
		}
		m := insertInto.FindStringSubmatch(head)
		if m == nil {
			continue
		}
		columns := slices.Clone(dumpColumns)
		if m[1] != "" {
			columns = nil
			for name := range strings.SplitSeq(m[1], ",") {
				columns = append(columns, strings.ToLower(strings.Trim(strings.TrimSpace(name), "`")))
			}
		}
		if len(columns) > maxColumns {
			return nil, fmt.Errorf("the table has %d columns, and a file has at most %d", len(columns), maxColumns)
		}
		r.inside = true
		return columns, nil
	}
}

// maxHead bounds the beginning of a statement that is looked at, in bytes.
const maxHead = 4 << 10

// statement skips a statement or a comment. It stops in front of rows, if it may, when
// the statement so far inserts into the table of links, and returns that beginning.
func (r *dumpRows) statement(c byte, mayStop bool) (head string, err error) {
	var begin []byte
	var quote byte
	tries := 4 // so that no statement takes long
	for {
		if len(begin) < maxHead {
			begin = append(begin, c)
		}
		switch {
		case quote == '\n' && c == '\n':
			return "", nil // a comment
		case quote == '\n':
		case quote != 0 && c == '\\' && quote != '`':
			_, err = r.readByte()
		case c == quote:
			quote = 0
		case quote != 0:
		case c == '\'', c == '"', c == '`':
			quote = c
		case c == '#' && len(begin) == 1, string(begin) == "--":
			quote = '\n'
		case string(begin) == "/*":
			return "", r.skipComment()
		case c == ';':
			return "", nil
		case mayStop && tries > 0 && len(begin) < maxHead && bytes.HasSuffix(bytes.ToLower(begin[max(0, len(begin)-6):]), []byte("values")):
			tries--
			if insertInto.Match(begin) {
				return string(begin), nil
			}
		}
		if err == nil {
			c, err = r.readByte()
		}
		if err != nil {
			return "", readFault(err)
		}
	}
}

// skipComment reads to the end of a comment.
func (r *dumpRows) skipComment() error {
	var last byte
	for {
		c, err := r.readByte()
		if err != nil {
			return readFault(err)
		}
		if last == '*' && c == '/' {
			return nil
		}
		last = c
	}
}

// escapes are the bytes that stand behind a backslash for others (MySQL, 11.1.1).
var escapes = map[byte]byte{'0': 0, 'b': '\b', 'n': '\n', 'r': '\r', 't': '\t', 'Z': 0x1a}

// tuple reads the values of a row behind its parenthesis.
func (r *dumpRows) tuple() (Row, error) {
	row := Row{Line: r.line}
	var cell []byte
	quoted, inText := false, false
	for size := 0; ; size++ {
		c, err := r.readByte()
		switch {
		case err != nil && errors.Is(err, io.EOF):
			return Row{}, fmt.Errorf("%w: the row of line %d has no end", ErrUnreadable, row.Line)
		case err != nil:
			return Row{}, readFault(err)
		case size > maxRow:
			return Row{}, fmt.Errorf("%w: the row of line %d is longer than %d bytes", ErrUnreadable, row.Line, maxRow)
		case inText && c == '\\':
			if c, err = r.readByte(); err != nil {
				return Row{}, readFault(err)
			}
			if plain, ok := escapes[c]; ok {
				c = plain
			}
			cell = append(cell, c)
		case inText && c == '\'':
			if next, _ := r.text.Peek(1); len(next) == 1 && next[0] == '\'' {
				_, _ = r.readByte() // it was there
				cell = append(cell, c)
				continue
			}
			inText = false
		case inText:
			cell = append(cell, c)
		case c == '\'':
			cell, quoted, inText = cell[:0], true, true // without the name of a character set
		case c == ',' || c == ')':
			text := string(cell)
			if !quoted {
				if text = strings.TrimSpace(text); strings.EqualFold(text, "null") {
					text = ""
				}
			}
			if len(row.Cells) < maxColumns {
				row.Cells = append(row.Cells, text)
			}
			cell, quoted = cell[:0], false
			if c == ')' {
				return r.kept(row), nil
			}
		default:
			if !quoted {
				cell = append(cell, c)
			}
		}
	}
}

// kept returns a row without the cell of addresses.
func (r *dumpRows) kept(row Row) Row {
	if len(row.Cells) != r.width {
		row.refuse(fmt.Sprintf("%d fields instead of %d", len(row.Cells), r.width))
	}
	if r.out >= 0 && r.out < len(row.Cells) {
		row.Cells = slices.Delete(row.Cells, r.out, r.out+1)
	}
	return row
}
