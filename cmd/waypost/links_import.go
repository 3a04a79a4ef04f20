package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"waypost/cmd/waypost/internal/linkimport"
)

// shownRows bounds the rows that are listed on standard error; --report has all.
const shownRows = 1000

func (p *program) linksImportCommand() *cobra.Command {
	var reportFile string
	c := &cobra.Command{
		Use:   "import FILE.csv",
		Short: "Create the links of a CSV file, up to 1,000 in a request",
		Long: `Create the links of a CSV file. Its first line is the header: original_url,title or
original_url,title,custom_code. "-" reads standard input.

Each row that is refused is reported with its line and the reason; the others are
created all the same. Exit code 1 says that some were not. When an answer is lost,
the import stops and tells the rows that may or may not have been created, rather
than create them twice.`,
		Example: `  waypost links import links.csv
  waypost links import links.csv --report refused.csv
  waypost links import - --output json < links.csv`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			return p.importLinks(c, args[0], reportFile)
		},
	}
	c.Flags().StringVar(&reportFile, "report", "", "write rows that were not created to this CSV file instead of standard error")
	return c
}

func (p *program) importLinks(c *cobra.Command, name, reportFile string) (err error) {
	file, size, err := p.openInput(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	api, err := p.api()
	if err != nil {
		return err
	}
	defer api.Close()

	began := time.Now()
	progress, finish := p.progressBar(size)
	im := linkimport.Import{API: api, Progress: progress}
	report, runErr := im.Run(c.Context(), file)
	finish()
	if err := p.tellRows(report, reportFile); err != nil {
		return errors.Join(runErr, err)
	}
	summary := fmt.Sprintf("%d of %d rows created, %d refused, %d in doubt, in %s",
		report.Created, report.Rows, len(report.Refused), len(report.InDoubt), time.Since(began).Round(10*time.Millisecond))
	if err := p.print(summary, report); err != nil {
		return errors.Join(runErr, err)
	}
	if runErr != nil {
		return fmt.Errorf("the import stopped: %w", runErr)
	}
	if n := len(report.Refused) + len(report.InDoubt); n > 0 {
		return fmt.Errorf("%d rows were not created, or may not have been", n)
	}
	return nil
}

// openInput gives the file and its size, 0 when that is unknown.
func (p *program) openInput(name string) (io.ReadCloser, int64, error) {
	if name == "-" {
		return io.NopCloser(p.stdin), 0, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, &usageError{err}
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory", name)
	}
	if err != nil {
		return nil, 0, &usageError{errors.Join(err, f.Close())}
	}
	return f, info.Size(), nil
}

// progressBar shows how much of the file is read, on a terminal only.
func (p *program) progressBar(size int64) (progress func(rows int, bytes int64), finish func()) {
	if !onTerminal(p.stderr) || size == 0 {
		return nil, func() {}
	}
	bars := mpb.New(mpb.WithOutput(p.stderr), mpb.WithWidth(60))
	var rowsDone atomic.Int64 // the bar is drawn by a goroutine of its own
	bar := bars.AddBar(size,
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return strconv.FormatInt(rowsDone.Load(), 10) + " rows" }, decor.WC{W: 14})),
		mpb.AppendDecorators(decor.Percentage(), decor.AverageETA(decor.ET_STYLE_GO, decor.WC{W: 8})),
	)
	progress = func(rows int, bytes int64) {
		rowsDone.Store(int64(rows))
		bar.SetCurrent(bytes)
	}
	return progress, func() {
		bar.Abort(false)
		bars.Wait()
	}
}

// tellRows lists the rows that were not created, in a file or on standard error.
// JSON on standard output has them all anyway.
func (p *program) tellRows(report linkimport.Report, file string) error {
	if file != "" {
		return writeReport(file, report)
	}
	if p.output == "json" {
		return nil
	}
	shown := 0
	for _, list := range []struct {
		verdict string
		rows    []linkimport.Row
	}{{"refused", report.Refused}, {"in doubt", report.InDoubt}} {
		for _, r := range list.rows {
			if r.Whole {
				continue
			}
			if shown++; shown > shownRows {
				_, err := fmt.Fprintf(p.stderr, "and more: use --report FILE for all of them\n")
				return err
			}
			if _, err := fmt.Fprintf(p.stderr, "line %d %s: %s: %s\n", r.Line, list.verdict, printable(r.Reason), printable(r.OriginalURL)); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeReport(name string, report linkimport.Report) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := csv.NewWriter(f)
	records := [][]string{{"line", "verdict", "status", "reason", "original_url"}}
	for _, r := range report.Refused {
		records = append(records, []string{strconv.Itoa(r.Line), "refused", strconv.Itoa(r.Status), r.Reason, r.OriginalURL})
	}
	for _, r := range report.InDoubt {
		records = append(records, []string{strconv.Itoa(r.Line), "in doubt", strconv.Itoa(r.Status), r.Reason, r.OriginalURL})
	}
	if err := w.WriteAll(records); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
