package linkfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// refusedColumn is the column of the reason in a file of refused rows. It has no field.
const refusedColumn = "refused"

// personal are the names of columns and of JSON with data about visitors, as plainName
// returns them.
var personal = []string{
	"ip", "ipaddress", "remoteip", "remoteaddr", "userip", "creatorip", "clientip", "useragent", "agent", "referrer", "referer",
}

// plainName returns a name without case, blanks and signs: Long URL, long_url and longUrl
// are the same.
func plainName(name string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(" _-./:\t\u00a0\u200b\u2060\ufeff", c) {
			return -1
		}
		return c
	}, strings.ToLower(name))
}

// tableRows reads the rows of a table with a header.
type tableRows struct {
	records interface{ read() (Row, error) }
	header  int   // its length
	width   int   // its length without blank names at its end
	out     []int // indices of cells that are in no row
}

func newTableRows(text *bufio.Reader, shape *Shape) (*tableRows, error) {
	records, err := newRecords(text)
	if err != nil {
		return nil, err
	}
	header, err := records.read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the file is empty: its first line must be a header such as original_url,title")
	case err != nil:
		return nil, fmt.Errorf("read the header: %w", err)
	case header.Reason != "":
		return nil, fmt.Errorf("read the header: %s", header.Reason)
	}
	if strings.Contains(header.Cells[0], "://") {
		return nil, fmt.Errorf("the first line has no names of columns, as original_url,title would be: %.80q (or say the format list)", header.Cells[0])
	}
	shape.Layout, shape.Separator = Table, records.separator
	r := &tableRows{records: records}
	return r, r.setHeader(header.Cells, shape)
}

// setHeader reads the names of the columns. A column without a name is called by its
// number, unless it is one of the empty ones at the end.
func (r *tableRows) setHeader(names []string, shape *Shape) error {
	r.header = len(names)
	for len(names) > 0 && strings.TrimSpace(names[len(names)-1]) == "" {
		names = names[:len(names)-1]
	}
	if r.width = len(names); r.width > maxColumns {
		return fmt.Errorf("the header has more than %d columns", maxColumns)
	}
	for i, name := range names {
		if err := checkName(name); err != nil {
			return fmt.Errorf("read the header: %w", err)
		}
		if name = strings.TrimSpace(name); name == "" {
			name = fmt.Sprintf("column %d", i+1)
		}
		unique := name
		for n := 2; slices.Contains(shape.Columns, unique); n++ {
			unique = fmt.Sprintf("%s (%d)", name, n)
		}
		switch plain := plainName(name); {
		case plain == refusedColumn:
			r.out = append(r.out, i)
		case slices.Contains(personal, plain):
			r.out = append(r.out, i)
			shape.Personal = append(shape.Personal, unique)
		default:
			shape.Columns = append(shape.Columns, unique)
		}
	}
	return nil
}

// checkName checks the text of the name of a column.
func checkName(name string) error {
	switch {
	case !utf8.ValidString(name):
		return errors.New(notUTF8)
	case strings.IndexByte(name, 0) >= 0:
		return errors.New("a name has a NUL byte, which no text has")
	}
	return nil
}

func (r *tableRows) next() (Row, error) {
	row, err := r.records.read()
	if err != nil {
		return row, err
	}
	fields := len(row.Cells)
	if fields > r.width && blank(row.Cells[r.width:]) {
		row.Cells = row.Cells[:r.width]
	} else if fields != r.width && row.Reason == "" {
		row.refuse(r.lengthFault(row.Cells))
	}
	row.Cells = row.Cells[:min(len(row.Cells), maxColumns)]
	for i := len(r.out) - 1; i >= 0; i-- {
		if at := r.out[i]; at < len(row.Cells) {
			row.Cells = slices.Delete(row.Cells, at, at+1)
		}
	}
	return row, nil
}

// lengthFault says why a row is not as long as the header.
func (r *tableRows) lengthFault(cells []string) string {
	if len(cells) > r.width && len(cells) <= r.header {
		i := r.width + slices.IndexFunc(cells[r.width:], func(cell string) bool { return strings.TrimSpace(cell) != "" })
		return fmt.Sprintf("%.40q is in column %d, which has no name in the header", cells[i], i+1)
	}
	if len(cells) > maxColumns {
		return fmt.Sprintf("more than %d fields instead of %d", maxColumns, r.header)
	}
	return fmt.Sprintf("%d fields instead of %d", len(cells), r.header)
}
