package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"waypost/api"
	"waypost/client"
)

// shapeText says how a file is understood.
func shapeText(im *client.Import, width int) string {
	text := fmt.Sprintf("%s: %s, %s, %s", printable(im.Name), im.Format, im.Encoding, numberOf(int(im.Rows), "row", "rows"))
	for _, note := range im.Notes {
		text += "\n" + printable(note)
	}
	if len(im.Columns) == 0 {
		return text
	}
	rows, dates, tags := [][]string{{"COLUMN", "FIELD", "FIRST ROW"}}, false, false
	for n, column := range im.Columns {
		field, first := im.Mapping.Columns[column], ""
		dates = dates || len(im.Notations[column]) > 0
		tags = tags || field == "tags"
		if field == "" {
			field = "left out"
		}
		if len(im.Sample) > 0 && n < len(im.Sample[0].Cells) && len(im.Sample[0].Cells) == len(im.Columns) {
			first = im.Sample[0].Cells[n]
		}
		rows = append(rows, []string{printable(column), field, printable(shortened(first))})
	}
	text += "\n" + tabulate(rows, width)
	hidden := slices.DeleteFunc(slices.Clone(im.LeftOut), func(c string) bool { return slices.Contains(im.Columns, c) })
	if len(hidden) > 0 {
		text += "\nleft out, because they are about visitors: " + printable(strings.Join(hidden, ", "))
	}
	if dates && im.Mapping.Dates != "" {
		text += fmt.Sprintf("\ndates are %s, in the time zone %s", im.Mapping.Dates, im.TimeZone)
	}
	if tags {
		text += fmt.Sprintf("\ntags are separated by %q", im.Mapping.Tags)
	}
	return text
}

// openText says what must be decided before an import, and by which flags.
func openText(im *client.Import) string {
	flag := "--map COLUMN=FIELD"
	if im.Mapping.Dates == "" && len(im.Notations) > 0 {
		var fit []string
		for _, column := range slices.Sorted(maps.Keys(im.Notations)) {
			for _, n := range im.Notations[column] {
				if !slices.Contains(fit, n) {
					fit = append(fit, n)
				}
			}
		}
		flag = "--dates, one of " + strings.Join(fit, ", ") + ", or with " + flag
	}
	return fmt.Sprintf("nothing was created: %s: choose with %s", printable(strings.Join(im.Open, "; ")), flag)
}

// countsText counts the rows of an import, or of its check.
func countsText(im *client.Import, n client.ImportCounts, checked bool) string {
	created, found := "created", ""
	if checked {
		created = "would be created"
	}
	if n.Found > 0 {
		found = fmt.Sprintf("%d found, ", n.Found)
	}
	return fmt.Sprintf("%d of %s %s, %s%d refused", n.Created, numberOf(int(im.Rows), "row", "rows"), created, found, n.Refused)
}

// progressText shows how far an import is, with a bar where its end is known.
func progressText(im *client.Import) string {
	counts, doing := im.Counts, map[string]string{
		api.ImportReading: "read", api.ImportChecking: "checked", api.ImportRunning: "imported", api.ImportUndoing: "undone",
	}[im.State]
	done := im.Rows - counts.Left
	switch {
	case im.State == api.ImportReading || im.Rows == 0:
		return fmt.Sprintf("%d rows read", im.Rows)
	case im.State == api.ImportChecking && im.Checked != nil:
		done = im.Rows - im.Checked.Left
	case im.State == api.ImportUndoing:
		done = counts.Removed + counts.Kept
	}
	text := fmt.Sprintf("%s %d of %d rows %s", bar(done, im.Rows), done, im.Rows, doing)
	if im.Speed > 0 {
		text += fmt.Sprintf(", %.0f a second", im.Speed)
	}
	if im.TimeLeft > 0 {
		text += fmt.Sprintf(", %s left", time.Duration(im.TimeLeft*float64(time.Second)).Round(time.Second))
	}
	return text
}

// bar draws a share of all.
func bar(part, all int64) string {
	const columns = 24
	full := int(min(max(part, 0)*columns/max(all, 1), columns))
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", columns-full) + "]"
}

// importTable lays out imports for people.
func importTable(all []client.Import, width int) string {
	if len(all) == 0 {
		return "no imports"
	}
	return tableOf("ID\tSTATE\tCREATED\tROWS\tLINKS\tREFUSED\tNAME", all, width, func(im *client.Import) []any {
		return []any{im.ID, im.State, im.CreatedAt.Format(time.DateTime), im.Rows, im.Counts.Created, im.Counts.Refused, shortened(im.Name)}
	})
}

// importText describes an import for people.
func importText(im *client.Import, width int) string {
	text := shapeText(im, width) + "\n"
	for _, open := range im.Open {
		text += "open: " + printable(open) + "\n"
	}
	if im.Checked != nil {
		text += countsText(im, *im.Checked, true) + "\n"
	}
	if im.State == api.ImportUndone || im.State == api.ImportUndoing {
		text += undoText(im) + "\n"
	} else if im.Counts.Created+im.Counts.Found+im.Counts.Refused > 0 {
		text += countsText(im, im.Counts, false) + "\n"
	}
	text += "state: " + im.State
	if im.Problem != "" {
		text += ", " + printable(im.Problem)
	}
	if im.UndoUntil != nil {
		text += "\n" + undoHint(im)
	}
	return text
}

func undoHint(im *client.Import) string {
	return fmt.Sprintf("`waypost import undo %s` deletes the links until %s", im.ID, im.UndoUntil.Format(time.RFC3339))
}

func undoText(im *client.Import) string {
	return fmt.Sprintf("%s deleted, %d left because they were changed since", numberOf(int(im.Counts.Removed), "link", "links"), im.Counts.Kept)
}
