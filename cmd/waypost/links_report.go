package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"waypost/internal/linkimport"
)

// shownRows bounds the rows that are listed on standard error; --report has all.
const shownRows = 1000

// telling lists the rows of an import that were not created, as they come: in a file, on
// standard error, or in JSON on standard output, which has them all anyway.
type telling struct {
	p     *program
	lines io.Writer // standard error, or a writer that keeps lines above the progress bar
	file  *os.File  // nil: no file
	csv   *linkimport.Refusals
	json  *bufio.Writer // nil: standard output is for people
	shown int
	rows  int // in JSON
	dry   bool
}

func (p linksCommands) newTelling(i importing, input io.ReadCloser, size int64, journal *linkimport.Journal) (*telling, error) {
	t := &telling{p: p.program, lines: p.stderr, dry: i.dryRun}
	if p.output == "json" {
		t.json = bufio.NewWriter(p.stdout)
	}
	if i.reportFile == "" {
		return t, nil
	}
	source, ok := input.(*os.File)
	if !ok {
		return nil, &usageError{fmt.Errorf("--report: %s can be read only once, and the report has its rows: give a file", i.file)}
	}
	var err error
	if t.file, err = os.OpenFile(i.reportFile, os.O_WRONLY|os.O_CREATE, 0o666); err != nil {
		return nil, fmt.Errorf("write the report: %w", err)
	}
	to, err := reportOver(t.file, i.file, journal.Name())
	if err != nil {
		return nil, errors.Join(err, t.file.Close())
	}
	t.csv = linkimport.NewRefusals(io.NewSectionReader(source, 0, size), linkimport.Format(i.format), to)
	return t, nil
}

// reporting writes a report over an old file. That is emptied by the first write only, so
// that an import which does not begin leaves it as it was.
type reporting struct {
	file *os.File
	old  bool // content is left to be replaced
}

// reportOver returns the writer of a report. It refuses a file that the import reads; ""
// stands for none.
func reportOver(file *os.File, reads ...string) (*reporting, error) {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return &reporting{file: file}, err
	}
	for _, name := range reads {
		if read, err := os.Stat(name); err == nil && os.SameFile(info, read) {
			return nil, &usageError{fmt.Errorf("--report: the import reads %s: choose another file", file.Name())}
		}
	}
	return &reporting{file, true}, nil
}

func (r *reporting) Write(p []byte) (int, error) {
	if r.old {
		if err := r.file.Truncate(0); err != nil {
			return 0, err
		}
		r.old = false
	}
	return r.file.Write(p)
}

func (t *telling) refused(r linkimport.Row) error {
	if t.json != nil {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		separator := ","
		if t.rows++; t.rows == 1 {
			separator = `{"refused":[`
		}
		if _, err := t.json.WriteString(separator + "\n" + string(text)); err != nil {
			return err
		}
	}
	return t.list("refused", r)
}

// list puts a row into the report, or on standard error where nothing else has it.
func (t *telling) list(verdict string, r linkimport.Row) error {
	if t.csv != nil {
		if verdict != "refused" {
			r.Reason = verdict + ": " + r.Reason
		}
		if err := t.csv.Add(r.Line, r.Reason); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		return nil
	}
	if t.json != nil || r.Whole || t.shown > shownRows {
		return nil
	}
	if t.shown++; t.shown > shownRows {
		_, err := fmt.Fprintf(t.lines, "and more: use --report FILE for all of them\n")
		return err
	}
	about := printable(r.Reason)
	if r.OriginalURL != "" {
		about += ": " + printable(shortened(r.OriginalURL))
	}
	_, err := fmt.Fprintf(t.lines, "line %d %s: %s\n", r.Line, verdict, about)
	return err
}

// printSummary lists the rows in doubt, and sums up, unless an error kept the import from
// beginning.
func (t *telling) printSummary(report linkimport.Report, took time.Duration, runErr error) (err error) {
	for _, r := range report.InDoubt {
		err = errors.Join(err, t.list("in doubt", r))
	}
	began := runErr == nil || report.Rows > 0
	if t.file != nil {
		var failed error
		if began {
			failed = t.csv.Flush()
		}
		if failed = errors.Join(failed, t.file.Close()); failed != nil {
			err = errors.Join(err, fmt.Errorf("write the report: %w", failed))
		}
	}
	if t.json != nil {
		return errors.Join(err, t.endJSON(report))
	}
	if !began {
		return err
	}
	found := ""
	if report.Found > 0 {
		found = fmt.Sprintf("%d found, ", report.Found)
	}
	doubt := ""
	if n := len(report.InDoubt); n > 0 {
		doubt = fmt.Sprintf(", %d in doubt (the API did not say whether they were created)", n)
	}
	created, nothing := "created", ""
	if t.dry {
		created, nothing = "would be created", "; nothing was created"
	}
	_, failed := fmt.Fprintf(t.p.stdout, "%d of %s %s, %s%d refused%s, in %s%s\n",
		report.Created, numberOf(report.Rows, "row", "rows"), created, found, report.NotCreated, doubt, took.Round(10*time.Millisecond), nothing)
	return errors.Join(err, failed)
}

// endJSON closes the document that refused has begun.
func (t *telling) endJSON(report linkimport.Report) error {
	if t.rows == 0 {
		_, _ = t.json.WriteString(`{"refused":[`) // Flush returns the error, too
	}
	doubt, err := json.Marshal(report.InDoubt)
	if err != nil {
		return err
	}
	dry := ""
	if t.dry {
		dry = ",\n\"dry_run\":true"
	}
	_, _ = fmt.Fprintf(t.json, "],\n\"in_doubt\":%s,\n\"rows\":%d,\n\"created\":%d,\n\"found\":%d%s}\n",
		doubt, report.Rows, report.Created, report.Found, dry)
	return t.json.Flush()
}
