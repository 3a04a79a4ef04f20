package imports

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"

	"waypost"
	"waypost/api"
	"waypost/internal/linkfile"
)

// read reads the rows of the file, all of them in one turn. It begins again when another
// control plane takes over.
func (w *work) read(ctx context.Context) error {
	if err := w.Store.ClearRows(ctx, w.i, w.worker); err != nil {
		return err
	}
	i, sum := w.i, sha256.New()
	i.Rows, i.Bytes, i.Notations = 0, 0, nil
	from := &parts{s: w.Imports, ctx: ctx, i: i, worker: w.worker}
	file := io.TeeReader(from, sum)
	fail := func(err error) error {
		if from.err != nil {
			return from.err
		}
		return &stop{api.ImportFailed, err.Error()}
	}
	reader, err := linkfile.NewReader(file, linkfile.Options{Format: i.Format, Encoding: i.Encoding, Site: i.Site, Raw: i.Raw})
	if err != nil {
		return fail(err)
	}
	var rows []linkfile.Row
	size := 0
	for err == nil {
		var row linkfile.Row
		if row, err = reader.Next(); err == nil {
			rows = append(rows, row)
			for _, cell := range row.Cells {
				size += len(cell)
			}
		}
		if len(rows) == pieceRows || size > pieceBytes || err != nil && len(rows) > 0 {
			i.Shape = reader.Shape()
			if err := w.addRows(ctx, rows); err != nil {
				return err
			}
			rows, size = rows[:0], 0
		}
	}
	if from.err != nil || !errors.Is(err, io.EOF) {
		return fail(err)
	}
	if _, err := io.Copy(io.Discard, file); err != nil {
		return fail(err)
	}
	switch got := hex.EncodeToString(sum.Sum(nil)); {
	case i.FileSum != "" && i.FileSum != got:
		return &stop{api.ImportFailed, "the file has another SHA-256 than it was said to have: begin another import and send it again"}
	case i.Rows == 0:
		return &stop{api.ImportFailed, "the file has no rows"}
	}
	i.Shape = reader.Shape()
	i.Format, i.Encoding = i.Shape.Format, i.Shape.Encoding
	i.Suggested.SuggestDates(func(column string) []string { return i.Notations[column] })
	i.Mapping = i.Suggested
	return w.Store.SaveImport(ctx, i, w.worker, api.ImportReady)
}

func (w *work) addRows(ctx context.Context, rows []linkfile.Row) error {
	i := w.i
	if i.Rows == 0 {
		i.Suggested = i.Shape.Suggest(rows)
		i.Notations = map[string][]string{}
	}
	for _, column := range i.Shape.Columns {
		fit, known := i.Notations[column]
		if i.Rows > 0 && !known {
			continue
		}
		here := i.Shape.Notations(column, rows)
		if known {
			here = slices.DeleteFunc(fit, func(n string) bool { return !slices.Contains(here, n) })
		}
		if known || linkfile.IsDate(i.Suggested.Columns[column]) || len(here) > 0 && len(here) < len(linkfile.Notations()) {
			i.Notations[column] = here
		}
	}
	content, err := pack(rows)
	if err != nil {
		return err
	}
	p := Piece{First: i.Rows, Content: content}
	i.Rows += int64(len(rows))
	err = w.Store.AddRows(ctx, i, w.worker, p)
	if waypost.CodeOf(err) == waypost.ETooLarge {
		err = &stop{api.ImportFailed, waypost.MessageOf(err)}
	}
	return err
}
