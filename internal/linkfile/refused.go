package linkfile

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"waypost/api"
)

// RefusedWriter writes a file of refused rows with all their columns, and the reason
// before each, so that the rows can be mended there and imported: CSV with commas, JSON
// lines, or lines behind comments, all in UTF-8.
type RefusedWriter struct {
	shape *Shape
	table *csv.Writer
	lines *bufio.Writer
	begun bool
}

// NewRefusedWriter returns a writer of refused rows of a file. The shape is as it was
// behind the last row.
func NewRefusedWriter(w io.Writer, s *Shape) *RefusedWriter {
	lines := bufio.NewWriter(w)
	return &RefusedWriter{shape: s, table: csv.NewWriter(lines), lines: lines}
}

// Add writes a row.
func (w *RefusedWriter) Add(row Row, reason string) error {
	reason = strings.Join(strings.Fields(reason), " ")
	switch w.shape.Layout {
	case Table:
		if err := w.begin(); err != nil {
			return err
		}
		cells := append([]string{api.SafeCell(reason)}, row.Cells...)
		if w.shape.Raw && w.shape.Separator == "" { // of a dump, where no cell has an apostrophe before a formula
			for i := range cells[1:] {
				cells[i+1] = api.SafeCell(cells[i+1])
			}
		}
		return w.table.Write(cells)
	case JSON:
		inner, isObject := strings.CutPrefix(row.Cells[0], "{")
		if !isObject || !json.Valid([]byte(row.Cells[0])) {
			return w.writeLines(row.Cells[0])
		}
		quoted, err := json.Marshal(reason)
		if err != nil {
			return err
		}
		comma := ","
		if strings.TrimSpace(inner) == "}" {
			comma = ""
		}
		return w.writeLines(`{"` + refusedColumn + `":` + string(quoted) + comma + inner)
	default:
		return w.writeLines("# "+reason, row.Cells[len(row.Cells)-1])
	}
}

func (w *RefusedWriter) writeLines(lines ...string) error {
	for _, line := range lines {
		if _, err := w.lines.WriteString(line + "\n"); err != nil {
			return err
		}
	}
	return nil
}

// begin writes the header of a table once.
func (w *RefusedWriter) begin() error {
	if w.begun {
		return nil
	}
	w.begun = true
	if w.shape.Encoding != UTF8 { // so that the program that wrote the file sees that this one is in UTF-8
		if _, err := w.lines.WriteString("\uFEFF"); err != nil {
			return err
		}
	}
	return w.table.Write(slices.Insert(slices.Clone(w.shape.Columns), 0, refusedColumn))
}

// Flush writes all that is buffered, and the header of a table without refused rows.
func (w *RefusedWriter) Flush() error {
	if w.shape.Layout == Table {
		if err := w.begin(); err != nil {
			return err
		}
		w.table.Flush()
	}
	return errors.Join(w.table.Error(), w.lines.Flush())
}
