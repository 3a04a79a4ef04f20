// Package linkimport creates the links of a CSV file through the API, in bulk, and
// accounts for every row of the file: created, refused, or in doubt. It shows
// nothing; what users see is up to the command.
package linkimport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"waypost/cmd/waypost/internal/client"
)

// Bounds of one request.
const (
	batchRows  = 1000
	batchBytes = 4 << 20
)

// API is what an import needs of the control plane.
type API interface {
	CreateBulk(ctx context.Context, ns []client.NewLink) ([]client.Outcome, error)
}

// Import says how a file is brought in.
type Import struct {
	API API

	// Attempts bounds how often a batch is sent that surely had no effect; default 5.
	Attempts int

	// Wait pauses between attempts; default: the time that passes, or ctx's error.
	Wait func(ctx context.Context, d time.Duration) error

	// Progress is told after each batch how many rows are done and how many bytes of
	// the file are read.
	Progress func(rows int, bytes int64)
}

// Row is one row of the file that did not become a link for certain.
type Row struct {
	Line        int    `json:"line"` // of the file, from 1
	OriginalURL string `json:"original_url"`
	Status      int    `json:"status,omitempty"` // as the API answered; 0 when it was not asked
	Reason      string `json:"reason"`
	Whole       bool   `json:"-"` // one of many with this fate: Run's error tells it for all of them
}

// Report accounts for the rows of a file. Rows = Created + refused + in doubt,
// when the import came to the end of the file.
type Report struct {
	Rows    int   `json:"rows"`
	Created int   `json:"created"`
	Refused []Row `json:"refused"`
	InDoubt []Row `json:"in_doubt"` // may or may not have been created
}

// Run imports the whole file, or as far as it gets. A refused row is no error. An
// error says why it stopped early; the report tells how far that was, and which
// rows are in doubt, because sending them again could create them twice.
func (im *Import) Run(ctx context.Context, file io.Reader) (report Report, err error) {
	report = Report{Refused: []Row{}, InDoubt: []Row{}}
	defer func() {
		slices.SortStableFunc(report.Refused, func(a, b Row) int { return a.Line - b.Line })
	}()
	reader, err := newReader(file)
	if err != nil {
		return report, err
	}
	for done := false; !done; {
		var batch []row
		for size := 0; len(batch) < batchRows && size < batchBytes; {
			r, err := reader.next()
			if errors.Is(err, io.EOF) {
				done = true
				break
			}
			if bad, ok := errors.AsType[*badRow](err); ok {
				report.Rows++
				report.Refused = append(report.Refused, Row{Line: bad.line, Reason: bad.reason})
				continue
			}
			if err != nil {
				// What was read before is good and need not be lost.
				return report, errors.Join(im.create(ctx, batch, &report), err)
			}
			report.Rows++
			size += len(r.link.OriginalURL) + len(r.link.Title)
			batch = append(batch, r)
		}
		if err := im.create(ctx, batch, &report); err != nil {
			return report, err
		}
		if im.Progress != nil {
			im.Progress(report.Rows, reader.offset())
		}
	}
	return report, nil
}

// create sends one batch and books the outcomes.
func (im *Import) create(ctx context.Context, batch []row, report *Report) error {
	if len(batch) == 0 {
		return nil
	}
	links := make([]client.NewLink, len(batch))
	for i, r := range batch {
		links[i] = r.link
	}
	outcomes, err := im.send(ctx, links)
	if err != nil {
		list := &report.Refused
		verdict := "nothing was created of lines"
		if client.Processed(err) {
			list, verdict = &report.InDoubt, "nobody knows what was created of lines"
		}
		for _, r := range batch {
			row := r.because(0, err.Error())
			row.Whole = true
			*list = append(*list, row)
		}
		return fmt.Errorf("%s %d to %d: %w", verdict, batch[0].line, batch[len(batch)-1].line, err)
	}
	for i, o := range outcomes {
		switch {
		case o.Status >= 500:
			report.InDoubt = append(report.InDoubt, batch[i].because(o.Status, reasonOf(o)))
		case o.Link == nil:
			report.Refused = append(report.Refused, batch[i].because(o.Status, reasonOf(o)))
		default:
			report.Created++
		}
	}
	return nil
}

func reasonOf(o client.Outcome) string {
	if o.Error == nil {
		return "the API gave no reason"
	}
	return o.Error.Detail
}

// send repeats a request as long as it surely had no effect, waiting twice as
// long each time.
func (im *Import) send(ctx context.Context, links []client.NewLink) ([]client.Outcome, error) {
	attempts, wait := im.Attempts, im.Wait
	if attempts == 0 {
		attempts = 5
	}
	if wait == nil {
		wait = pause
	}
	delay := 250 * time.Millisecond
	for attempt := 1; ; attempt++ {
		outcomes, err := im.API.CreateBulk(ctx, links)
		if err == nil {
			return outcomes, nil
		}
		after, again := client.Transient(err)
		if !again || attempt == attempts {
			return nil, err
		}
		if waitErr := wait(ctx, max(delay, after)); waitErr != nil {
			return nil, err // the last request had no effect, whatever ended the wait
		}
		delay *= 2
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
