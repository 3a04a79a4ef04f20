package main

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// width returns the number of columns of the terminal that standard output is, 0 when it
// is no terminal: then nothing is shortened.
func (p *program) width() int {
	f, ok := p.stdout.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// tableOf lays out a row for each item below a header, whose cells tabs separate, as
// tabulate does. The text of the cells cannot steer the terminal.
func tableOf[T any](header string, items []T, width int, cells func(item *T) []any) string {
	rows := [][]string{strings.Split(header, "\t")}
	for i := range items {
		var row []string
		for _, cell := range cells(&items[i]) {
			row = append(row, printable(fmt.Sprint(cell)))
		}
		rows = append(rows, row)
	}
	return tabulate(rows, width)
}

// fieldsTo returns a function that writes a name, in a column of that width, and a value
// on a line of their own, unless the value is empty.
func fieldsTo(b *strings.Builder, width int) func(name, value string) {
	return func(name, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(b, "%-*s  %s\n", width, name, printable(value))
		}
	}
}

// instant returns a time for a field, "" for nil.
func instant(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339)
}

// leastColumn is the width below which no column is shortened.
const leastColumn = 6

// tabulate lays out rows, with the header as the first, in at most width columns of
// text, 0 for any number: the widest columns are shortened until it fits.
func tabulate(rows [][]string, width int) string {
	const gap = 2
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	total := gap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; width > 0 && total > width; total-- {
		widest := 0
		for i, w := range widths {
			if w >= widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= leastColumn {
			break
		}
		widths[widest]--
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			cell = cut(cell, widths[i])
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+gap))
			}
		}
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// cut shortens a text to a number of columns.
func cut(s string, columns int) string {
	if r := []rune(s); len(r) > columns {
		return string(r[:columns-1]) + "…"
	}
	return s
}
