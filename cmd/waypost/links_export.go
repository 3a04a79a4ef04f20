package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"waypost/cmd/waypost/internal/client"
	"waypost/cmd/waypost/internal/linkimport"
)

// exportPage is how many links are asked for, and in memory, at once.
const exportPage = 1000

func (p *program) linksExportCommand() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "export [FILE|-]",
		Short: "Write all links as CSV or JSON lines, newest first",
		Long: `Write all links, newest first, to a file or to standard output. A file is there
when it is complete, and not before. Links that are created meanwhile are left out.

CSV has the columns that "waypost links import" reads, and short_code, click_count
and created_at, which it passes over: imported links get new codes. JSON lines are
the links as the API shows them, with everything that they hold.`,
		Example: `  waypost links export links.csv
  waypost links export --format jsonl | gzip > links.jsonl.gz`,
		Args: arguments(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if format != "csv" && format != "jsonl" {
				return &usageError{fmt.Errorf("--format: %q is neither csv nor jsonl", format)}
			}
			name := "-"
			if len(args) == 1 {
				name = args[0]
			}
			return p.exportLinks(c.Context(), name, format)
		},
	}
	c.Flags().StringVar(&format, "format", "csv", "csv or jsonl")
	return c
}

func (p *program) exportLinks(ctx context.Context, name, format string) error {
	if name != "-" {
		if err := replaceable(name); err != nil {
			return err
		}
	}
	api, err := p.api()
	if err != nil {
		return err
	}
	defer api.Close()
	count, finish := p.counter()
	defer finish()
	links := 0
	write := func(to io.Writer) error {
		return exportAll(ctx, api, newLinkWriter(format, to), func(n int) {
			links = n
			count(n)
		})
	}
	if name == "-" {
		if err := write(p.stdout); err != nil {
			return fmt.Errorf("the export is not complete, it ends after %d links: %w", links, err)
		}
		return nil
	}
	if err := replaceFile(name, write); err != nil {
		return fmt.Errorf("the export stopped after %d links, and %s was not written: %w", links, name, err)
	}
	finish()
	return p.print(fmt.Sprintf("%d links written to %s", links, name), map[string]any{"links": links, "file": name})
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

// exportAll goes through all links. Done is told their number after each page.
func exportAll(ctx context.Context, api *client.Client, w linkWriter, done func(links int)) error {
	links := 0
	for cursor := ""; ; {
		page, err := api.ListRaw(ctx, exportPage, cursor)
		if err != nil {
			return err
		}
		for _, link := range page.Links {
			if err := w.write(link); err != nil {
				return err
			}
		}
		links += len(page.Links)
		done(links)
		if page.Next == "" {
			return w.flush()
		}
		if page.Next == cursor {
			return errors.New("the API gave the same page twice")
		}
		cursor = page.Next
	}
}

// linkWriter writes links, given as the API sends them, in a format.
type linkWriter interface {
	write(link json.RawMessage) error
	flush() error
}

func newLinkWriter(format string, to io.Writer) linkWriter {
	if format == "jsonl" {
		return &jsonLines{bufio.NewWriter(to)}
	}
	return &csvLines{w: csv.NewWriter(to)}
}

type jsonLines struct{ w *bufio.Writer }

func (j *jsonLines) write(link json.RawMessage) error {
	var line bytes.Buffer
	if err := json.Compact(&line, link); err != nil {
		return fmt.Errorf("a link of the API: %w", err)
	}
	line.WriteByte('\n')
	_, err := j.w.Write(line.Bytes())
	return err
}

func (j *jsonLines) flush() error { return j.w.Flush() }

type csvLines struct {
	w     *csv.Writer
	begun bool
}

func (c *csvLines) write(raw json.RawMessage) error {
	var l client.Link
	if err := json.Unmarshal(raw, &l); err != nil {
		return fmt.Errorf("a link of the API: %w", err)
	}
	tags, err := linkimport.JoinTags(l.Tags)
	if err != nil {
		return err
	}
	expires := ""
	if l.ExpiresAt != nil {
		expires = l.ExpiresAt.Format(time.RFC3339Nano)
	}
	return errors.Join(c.header(), c.w.Write([]string{
		l.ShortCode, l.OriginalURL, l.Title, l.Description, tags, strconv.Itoa(l.RedirectStatus), expires,
		strconv.FormatInt(l.ClickCount, 10), l.CreatedAt.Format(time.RFC3339Nano),
	}))
}

func (c *csvLines) header() error {
	if c.begun {
		return nil
	}
	c.begun = true
	return c.w.Write([]string{"short_code", "original_url", "title", "description", "tags", "redirect_status", "expires_at", "click_count", "created_at"})
}

func (c *csvLines) flush() error {
	err := c.header() // of no links, too
	c.w.Flush()
	return errors.Join(err, c.w.Error())
}

// replaceFile puts what write writes in the place of a file, durably, once it is
// complete. When it fails, the file is as it was.
func replaceFile(name string, write func(io.Writer) error) error {
	dir := filepath.Dir(name)
	temporary := filepath.Join(dir, "."+filepath.Base(name)+"."+rand.Text()[:8])
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // less the umask, like any output
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// counter shows how many links are done, on a terminal only. How many there are is
// not known.
func (p *program) counter() (count func(int), finish func()) {
	if !onTerminal(p.stderr) {
		return func(int) {}, func() {}
	}
	bars := mpb.New(mpb.WithOutput(p.stderr), mpb.WithWidth(60))
	bar := bars.New(0, mpb.SpinnerStyle(), mpb.PrependDecorators(decor.CurrentNoUnit("%d links", decor.WC{W: 16})))
	return func(n int) { bar.SetCurrent(int64(n)) }, sync.OnceFunc(func() {
		bar.Abort(true)
		bars.Wait()
	})
}
