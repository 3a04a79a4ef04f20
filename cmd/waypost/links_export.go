package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"waypost/client"
	"waypost/internal/atomicfile"
)

// exportSlice bounds the links that are requested, and in memory, at once. The API sends
// their number in headers, where nginx drops the trailers of more. exportTries bounds the
// attempts, which take about 16 s.
const (
	exportSlice = 1000
	exportTries = 8
)

// notExported lists the ends of the names of files in other formats.
var notExported = []string{".xlsx", ".xls", ".ods", ".tsv", ".json", ".xml", ".yaml", ".yml", ".html", ".pdf", ".gz", ".zst", ".zip"}

func (p linksCommands) exportCommand() *cobra.Command {
	var x exporter
	var filter filterFlags
	c := &cobra.Command{
		Use:   "export [FILE|-]",
		Short: "Write links as CSV or JSON lines, newest first",
		Long: `Write all links, or those that fit the flags, newest first, to a file or to standard
output. A file is there when it is complete, and not before. Links that are created
meanwhile are left out. An export to standard output that was cut off says how to go on.

In CSV an apostrophe stands before a cell that a spreadsheet could take for a formula,
such as =1+1; an import takes it away. With --raw cells are as they are, also for an
import with --raw. "waypost import" reads CSV and JSON lines, which are the links as the
API shows them, with everything that they hold.

With --format netlify or cloudflare-pages (_redirects) or nginx (a map) the links of
--domain are written for another server. Links that its file cannot say, such as those
with rules, are named on standard error and left out.`,
		Example: `  waypost links export links.csv
  waypost links export links.jsonl
  waypost links export --format jsonl | gzip > links.jsonl.gz
  waypost links export --domain old.example.com --format netlify _redirects
  waypost links export --tag spring --created-after 2030-01-01T00:00:00Z spring.csv`,
		RunE: func(c *cobra.Command, args []string) error {
			name := "-"
			if len(args) == 1 {
				name = args[0]
			}
			if extension := strings.ToLower(filepath.Ext(name)); x.format == "" && slices.Contains(notExported, extension) {
				return &usageError{fmt.Errorf("%s: links are written as CSV or JSON lines, not as %s: choose another name, or --format", name, extension)}
			}
			switch {
			case x.format == "" && filepath.Base(name) == "_redirects":
				return &usageError{errors.New("say --format netlify or cloudflare-pages")}
			case slices.Contains(writtenFormats, x.format):
				if filter.domain == "" {
					return &usageError{errors.New("--format " + x.format + ": a file of redirects is for one domain: give --domain")}
				}
				if err := errors.Join(oneOf(c, "format", "raw"), oneOf(c, "format", "bom"), oneOf(c, "format", "after")); err != nil {
					return err
				}
			default:
				var err error
				if x.format, err = fileFormat(x.format, name); err != nil {
					return err
				}
			}
			var err error
			if x.filter, err = filter.filter(c.Context(), p); err != nil {
				return err
			}
			return p.exportLinks(c.Context(), name, &x)
		},
	}
	c.Flags().StringVar(&x.format, "format", "", "csv, jsonl, or redirects for netlify, cloudflare-pages, nginx (default: by the file's name,\ncsv for others than .jsonl and .ndjson)")
	c.Flags().BoolVar(&x.raw, "raw", false, "CSV with formulas as they are, for programs that are no spreadsheets")
	c.Flags().BoolVar(&x.bom, "bom", false, "begin CSV with a byte order mark, without which Excel garbles letters such as umlauts")
	c.Flags().StringVar(&x.after, "after", "", "go on where an export with the same flags was cut off")
	filter.addFlags(c)
	completeWith(c, "format", append([]string{"csv", "jsonl"}, writtenFormats...)...)
	return c
}

func (p linksCommands) exportLinks(ctx context.Context, name string, x *exporter) error {
	if name != "-" {
		if err := replaceable(name); err != nil {
			return err
		}
	}
	return p.withAPI(func(server *client.Client) error {
		progress := newProgressLine(p.stderr)
		defer progress.finish()
		x.api, x.done = server, func(links int) { progress.show(time.Now(), "%d links so far", links) }
		if slices.Contains(writtenFormats, x.format) {
			return p.exportSite(ctx, x, name)
		}
		if name == "-" {
			if err := x.all(ctx, p.stdout); err != nil {
				return fmt.Errorf("the export is not complete, it ends after %s%s: %w", numberOf(x.links, "link", "links"), x.goOn(), err)
			}
			return nil
		}
		if err := replaceFile(name, func(to io.Writer) error { return x.all(ctx, to) }); err != nil {
			return fmt.Errorf("the export stopped after %s, and %s was not written: %w", numberOf(x.links, "link", "links"), name, err)
		}
		progress.finish()
		return p.print(numberOf(x.links, "link", "links")+" written to "+name, map[string]any{"links": x.links, "file": name})
	})
}

// fileFormat returns the format of a flag or, without one, the format of a file's name.
func fileFormat(given, name string) (string, error) {
	switch given {
	case "csv", "jsonl":
		return given, nil
	case "":
		if slices.Contains([]string{".jsonl", ".ndjson"}, strings.ToLower(filepath.Ext(name))) {
			return "jsonl", nil
		}
		return "csv", nil
	}
	return "", &usageError{fmt.Errorf("--format: %q is neither csv nor jsonl", given)}
}

// replaceable sees that a file of that name can be made or replaced: a rename would
// put a file in the place of a device or a pipe.
func replaceable(name string) error {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file: redirect standard output instead", name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &usageError{err}
	}
	return nil
}

// exporter copies links slice by slice, so that a slice with a truncated answer is
// asked for again.
type exporter struct {
	filter client.Filter
	format string
	raw    bool
	bom    bool
	after  string // where the next slice begins

	api   *client.Client
	links int
	done  func(links int)
}

func (x *exporter) all(ctx context.Context, to io.Writer) error {
	header := x.format == "csv" && x.after != "" // which is there already
	if x.bom && x.format == "csv" && !header {
		if _, err := io.WriteString(to, "\uFEFF"); err != nil {
			return err
		}
	}
	for {
		var slice bytes.Buffer
		got, err := x.slice(ctx, &slice)
		if err != nil {
			return err
		}
		if header {
			if _, err := slice.ReadBytes('\n'); err != nil {
				return errors.New("the API gave CSV without a header")
			}
		}
		if _, err := to.Write(slice.Bytes()); err != nil {
			x.after = "" // nothing says how much of the slice was written
			return err
		}
		x.links += got.Links
		x.done(x.links)
		if got.Next == "" {
			return nil
		}
		if got.Next == x.after {
			return errors.New("the API gave the same links twice")
		}
		x.after, header = got.Next, x.format == "csv"
	}
}

func (x *exporter) slice(ctx context.Context, to *bytes.Buffer) (got client.Exported, err error) {
	err = client.Retry{Tries: exportTries, Again: client.Passing}.Do(ctx, func() (err error) {
		to.Reset()
		got, err = x.api.Links.Export(ctx, x.filter, x.format, x.raw, x.after, exportSlice, to)
		return err
	})
	return got, err
}

// goOn returns the command that continues behind the last written link.
func (x *exporter) goOn() string {
	if x.after == "" {
		return ""
	}
	return " (go on with --after " + x.after + ")"
}

// replaceFile puts the output of write in the place of a file, durably, once it is
// complete. When it fails, the file is as it was. The file keeps its mode, and symbolic
// links lead to it as before. Errors name the file itself.
func replaceFile(name string, write func(io.Writer) error) error {
	target, err := filepath.EvalSymlinks(name)
	if err != nil {
		target = name
	}
	umask := unix.Umask(0) // which only a change returns
	unix.Umask(umask)
	mode := fs.FileMode(0o666 &^ umask)
	if old, err := os.Stat(target); err == nil {
		mode = old.Mode().Perm()
	}
	err = atomicfile.WriteWith(target, mode, write)
	if bad, ok := errors.AsType[*fs.PathError](err); ok {
		bad.Path = name
		return bad
	}
	return err
}
