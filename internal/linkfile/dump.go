package linkfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// dumpBegin matches how a dump of MySQL begins, as mysqldump and phpMyAdmin write it.
var dumpBegin = regexp.MustCompile(`(?i)^(?:--|/\*|insert\s+(?:ignore\s+)?into\s|(?:create|drop|lock)\s+tables?\s|start\s+transaction|set\s+\S+\s*=|use\s+\x60)`)

// dumpColumns are the columns of a table of YOURLS, in the order in which it is made.
var dumpColumns = []string{"keyword", "url", "title", "timestamp", "ip", "clicks"}

// dump reads the rows of the table of links in a dump of YOURLS, and skips the other
// statements. Nothing else of SQL is known.
type dump struct {
	text   *bufio.Reader
	line   int
	inside bool // of a statement with rows of the table
}

func newDumpRows(text *bufio.Reader, shape *Shape) (*tableRows, error) {
	d := &dump{text: text, line: 1}
	columns, err := d.findRows()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the dump has no rows of the table yourls_url")
	}
	if err != nil {
		return nil, err
	}
	shape.Layout, shape.Raw = Table, true
	r := &tableRows{records: d}
	return r, r.setHeader(columns, shape)
}

func (d *dump) read() (Row, error) {
	for {
		if !d.inside {
			if _, err := d.findRows(); err != nil {
				return Row{}, err
			}
		}
		kind, _, err := d.token()
		if err != nil {
			return Row{}, err
		}
		if kind == '(' {
			row := Row{Line: d.line}
			row.Cells, err = d.cells()
			return row, err
		}
		d.inside = kind == ','
	}
}

// findRows skips statements up to the rows of the table, and returns its columns.
func (d *dump) findRows() ([]string, error) {
	for first := true; ; {
		kind, word, err := d.token()
		if err != nil {
			return nil, err
		}
		if first && kind == aWord && strings.EqualFold(word, "insert") {
			columns := dumpColumns
			table := ""
			for err == nil && kind != ';' && !strings.EqualFold(word, "values") {
				if kind == '(' {
					columns, err = d.cells()
				} else if kind == aWord {
					table = word
				}
				if err == nil {
					kind, word, err = d.token()
				}
			}
			if err != nil {
				return nil, err
			}
			if kind != ';' && strings.HasSuffix(strings.ToLower(table), "url") {
				d.inside = true
				return columns, nil
			}
		}
		first = kind == ';'
	}
}

// cells reads the values up to the parenthesis that closes a row. Those behind the limit
// of columns are left out.
func (d *dump) cells() (cells []string, err error) {
	var cell string
	for size := 0; size <= maxRow; {
		kind, text, err := d.token()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("line %d: %w: a row has no end", d.line, ErrUnreadable)
		}
		if err != nil {
			return nil, err
		}
		size += len(text) + 1
		switch kind {
		case aText: // perhaps behind the name of its character set
			cell = text
		case aWord:
			if cell = text; strings.EqualFold(text, "null") {
				cell = ""
			}
		case ',', ')':
			if len(cells) <= maxColumns {
				cells = append(cells, cell)
			}
			if cell = ""; kind == ')' {
				return cells, nil
			}
		}
	}
	return nil, readFault(d.line, bufio.ErrBufferFull)
}

// The kinds of tokens. A sign is a kind of its own.
const (
	aWord = 'w' // a word, a number, or a name in backticks
	aText = '\''
)

// escapes are the bytes that stand behind a backslash for others (MySQL, 11.1.1).
var escapes = map[byte]byte{'0': 0, 'b': '\b', 'n': '\n', 'r': '\r', 't': '\t', 'Z': 0x1a}

// token reads a token. It skips blanks and comments.
func (d *dump) token() (kind byte, text string, err error) {
	for {
		c, err := d.readByte()
		switch next, _ := d.text.Peek(1); {
		case err != nil:
			return 0, "", err
		case strings.IndexByte(" \t\r\n", c) >= 0:
		case c == '#', c == '-' && string(next) == "-":
			err = d.skip("\n")
		case c == '/' && string(next) == "*":
			err = d.skip("*/")
		case c == '\'', c == '"', c == '`':
			text, err = d.quoted(c)
			if kind = aText; c == '`' {
				kind = aWord
			}
			return kind, text, err
		case isWord(c):
			word := []byte{c}
			for len(word) <= maxRow {
				if c, err = d.readByte(); err != nil || !isWord(c) {
					break
				}
				word = append(word, c)
			}
			if err == nil {
				err = d.unreadByte(c)
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return aWord, string(word), err
		default:
			return c, "", nil
		}
		if err != nil {
			return 0, "", err
		}
	}
}

func isWord(c byte) bool {
	return c >= 0x80 || c == '_' || c == '.' || c == '-' || c == '+' || c == '$' || c == '@' ||
		'0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

func (d *dump) readByte() (byte, error) {
	c, err := d.text.ReadByte()
	if err != nil {
		return 0, readFault(d.line, err)
	}
	if c == '\n' {
		d.line++
	}
	return c, nil
}

// skip reads to the end of a comment.
func (d *dump) skip(end string) error {
	for matched := 0; matched < len(end); {
		c, err := d.readByte()
		switch {
		case err != nil:
			return err
		case c == end[matched]:
			matched++
		case c != end[0]:
			matched = 0
		}
	}
	return nil
}

func (d *dump) unreadByte(c byte) error {
	if c == '\n' {
		d.line--
	}
	return d.text.UnreadByte()
}

// quoted reads a text up to its quote. A quote in the text is there twice, or behind a
// backslash.
func (d *dump) quoted(quote byte) (string, error) {
	var text []byte
	for len(text) <= maxRow {
		c, err := d.readByte()
		if err == nil && c == '\\' && quote != '`' {
			if c, err = d.readByte(); err == nil {
				if plain, ok := escapes[c]; ok {
					c = plain
				}
			}
		} else if err == nil && c == quote {
			next, _ := d.text.Peek(1)
			if len(next) == 0 || next[0] != quote {
				return string(text), nil
			}
			_, err = d.readByte()
		}
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("line %d: %w: a text has no end", d.line, ErrUnreadable)
		}
		if err != nil {
			return "", err
		}
		text = append(text, c)
	}
	return "", readFault(d.line, bufio.ErrBufferFull)
}
