package linkfile

import (
	"bufio"
	"bytes"
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
	tokens *bufio.Scanner
	line   int
	inside bool // of a statement with rows of the table
}

func newDumpRows(text *bufio.Reader, shape *Shape) (*tableRows, error) {
	d := &dump{tokens: bufio.NewScanner(text), line: 1}
	d.tokens.Buffer(nil, maxRow)
	d.tokens.Split(splitToken)
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
				switch kind {
				case '(':
					columns, err = d.cells()
				case aWord:
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

// The kinds of tokens. A parenthesis, a comma and a semicolon are kinds of their own.
const (
	aWord = 'w' // a word, a number, a name in backticks, or another sign
	aText = '\''
)

// tokenBegin matches blanks, comments, texts in quotes, words and signs. A quote in a
// text is there twice, or behind a backslash.
var tokenBegin = regexp.MustCompile("(?s)^(?:[ \t\r\n]+|(?:--|#)[^\n]*|/\\*.*?\\*/|" +
	`'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|` + "`(?:[^`]|``)*`|" + `[\w.+$@[:^ascii:]-]+|.)`)

var errNoEnd = errors.New("a text has no end")

// splitToken implements bufio.SplitFunc.
func splitToken(data []byte, atEOF bool) (advance int, token []byte, err error) {
	switch {
	case len(data) == 0:
		return 0, nil, nil
	case strings.IndexByte("(),;", data[0]) >= 0: // which is most of a dump
		return 1, data[:1], nil
	}
	n := tokenBegin.FindIndex(data)[1] // it matches anything
	quote := n == 1 && strings.IndexByte("'\"`", data[0]) >= 0
	comment := n == 1 && bytes.HasPrefix(data, []byte("/*"))
	switch {
	case !atEOF && (n == len(data) || quote || comment):
		return 0, nil, nil
	case quote:
		return 0, nil, errNoEnd
	case comment:
		n = len(data)
	}
	return n, data[:n], nil
}

// unquote has replacers of the texts between quotes (MySQL, 11.1.1).
var unquote = func() map[byte]*strings.Replacer {
	escapes := []string{`\0`, "\x00", `\b`, "\b", `\n`, "\n", `\r`, "\r", `\t`, "\t", `\Z`, "\x1a", `\\`, `\`, `\'`, `'`, `\"`, `"`}
	return map[byte]*strings.Replacer{
		'\'': strings.NewReplacer(append([]string{`''`, `'`}, escapes...)...),
		'"':  strings.NewReplacer(append([]string{`""`, `"`}, escapes...)...),
		'`':  strings.NewReplacer("``", "`"),
	}
}()

// token reads a token. It skips blanks and comments.
func (d *dump) token() (kind byte, text string, err error) {
	for d.tokens.Scan() {
		text := d.tokens.Text()
		d.line += strings.Count(text, "\n")
		switch c := text[0]; {
		case strings.IndexByte(" \t\r\n#", c) >= 0, strings.HasPrefix(text, "--"), strings.HasPrefix(text, "/*"):
		case unquote[c] != nil:
			if kind = aText; c == '`' {
				kind = aWord
			}
			return kind, unquote[c].Replace(text[1 : len(text)-1]), nil
		case strings.IndexByte("(),;", c) >= 0:
			return c, "", nil
		default:
			return aWord, text, nil
		}
	}
	switch err := d.tokens.Err(); {
	case err == nil:
		return 0, "", io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return 0, "", readFault(d.line, bufio.ErrBufferFull)
	case errors.Is(err, errNoEnd):
		return 0, "", fmt.Errorf("line %d: %w: %w", d.line, ErrUnreadable, err)
	default:
		return 0, "", readFault(d.line, err)
	}
}
