package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"waypost/client"
	"waypost/internal/linkimport"
	"waypost/internal/memlimit"
	"waypost/internal/redirectfile"
)

// importing holds the options of an import.
type importing struct {
	file         string
	reportFile   string
	progressFile string
	resume       bool
	format       string
	parallel     int
	dedupe       bool
	raw          bool
	keepCodes    bool
	domain       string
	site         string
	dryRun       bool
}

func (p linksCommands) importCommand() *cobra.Command {
	var i importing
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Create the links of a file, 1,000 in a request and several requests at once",
		Long: `Create the links of a CSV or JSON lines file in UTF-8. JSON lines are objects with the
names of the API; fields of exports only, such as click_count, are ignored, and so is
created_by, which names the import and the line. CSV begins with a header, and has commas,
semicolons or tabs between its cells. Its columns are
` + strings.Join(wrapped(linkimport.Columns()+".", 88), "\n") + `

Tags are separated by commas or semicolons, forward_query, forward_path and active are true or false,
metadata is a JSON object and rules a JSON list, and expires_at and valid_from are a time
such as 2030-12-31T23:59:59Z, or a day in the workspace's time zone: a link expires at the
end of its day, and works from the beginning of its day. The CSV of Shlink's web client and a table of YOURLS can be imported as
they are. Files of "waypost links export" can be imported; the links get new codes. With
--keep-codes they keep the short_code of the file, for a move to another installation;
codes that the installation has issued or leased are refused. Of rows with one code the
first gets it. Links with max_clicks can be used that often again. JSON lines of an export
name the domain of each link, also the shared one: it must be there, or be left out of the
lines. In CSV, the apostrophe before a cell that a spreadsheet could take for a formula,
such as '=1+1, is taken away, unless --raw says that cells are as they are, as in an
export with --raw. "-" reads standard input.

Each refused row is reported with its line and the reason; the others are created. With
--report the refused rows are written to a file of their own as they are in FILE, behind
the reason, so that they can be mended there and imported. Exit code 1 means that some
were not created. Standard error shows the progress: with a bar on a
terminal, and elsewhere every 10 s.

The progress is kept in FILE.progress, or in this user's cache directory where
that cannot be written, until the import is complete. After
any kind of stop, --resume continues the import and creates nothing twice: rows whose
outcome is unknown are first looked for among the links, after 10 s in which the API can
finish them. The key needs the scopes links:read and links:write. An import of
standard input cannot be resumed.

With --format netlify, cloudflare-pages (both _redirects), cloudflare-bulk (CSV without a
header), nginx (map and rewrite) or apache (Redirect and RedirectMatch) the file holds the
redirects of a site. They become links and patterns of --domain, or of the hosts that the
file names. Each line that no link can say is refused with the reason. Where the first
line that fits an address decides, a line is refused which would decide otherwise here.

With --dry-run the API checks every row as it would for an import, and creates nothing.

With --dedupe a row whose target has its link from an earlier import with --dedupe,
or from another request that asked for the one link of its target, gets that link as it is, and is counted as found: a
repeated import then makes nothing twice. Parameters that only track visitors, such as utm_source, make no
other target of a URL. A row with a custom code is found if that code has just this target. Rows that
are not active are not affected.`,
		Example: `  waypost links import links.csv
  waypost links import links.csv --dry-run --report refused.csv
  waypost links import links.csv --resume
  waypost links import links.csv --report refused.csv
  waypost links import links.jsonl --parallel 8
  waypost links import links.csv --dedupe --domain go.example.com
  waypost links import links.jsonl --keep-codes
  waypost links import _redirects --format netlify --domain old.example.com --site https://www.example.com
  waypost links import - --output json < links.csv`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			i.file = args[0]
			if err := errors.Join(oneOf(c, "dry-run", "resume"), oneOf(c, "dry-run", "progress-file")); err != nil {
				return err
			}
			if i.parallel < 1 || i.parallel > linkimport.MaxInFlight {
				return &usageError{fmt.Errorf("--parallel: %d is not between 1 and %d", i.parallel, linkimport.MaxInFlight)}
			}
			if err := i.checkFormat(c); err != nil {
				return err
			}
			return p.importLinks(c, i)
		},
	}
	c.Flags().BoolVar(&i.dryRun, "dry-run", false, "check every row, and create nothing")
	c.Flags().StringVar(&i.domain, "domain", "", "host of the domain for rows without one (default: the shared domain)")
	c.Flags().StringVar(&i.reportFile, "report", "", "write rows that were not created, with the reason, to this file instead of standard error")
	c.Flags().StringVar(&i.progressFile, "progress-file", "", "where the progress is kept (default FILE.progress)")
	c.Flags().BoolVar(&i.resume, "resume", false, "go on with an import that was stopped")
	c.Flags().StringVar(&i.format, "format", "", "csv, jsonl, or redirects of netlify, cloudflare-pages, cloudflare-bulk, nginx, apache\n(default: csv or jsonl, by how the file begins)")
	c.Flags().StringVar(&i.site, "site", "", "site of targets without a host in redirects, such as https://www.example.com")
	c.Flags().IntVar(&i.parallel, "parallel", 4, "requests under way at once, up to 16")
	c.Flags().BoolVar(&i.dedupe, "dedupe", false, "give a target the one link that it has, if it has one")
	c.Flags().BoolVar(&i.keepCodes, "keep-codes", false, "take the short_code of an export as the custom code")
	c.Flags().BoolVar(&i.raw, "raw", false, "read CSV cells unchanged, as in an export with --raw")
	completeWith(c, "format", append([]string{"csv", "jsonl"}, siteFormats()...)...)
	return c
}

// siteFormats names the formats of redirects of whole sites.
func siteFormats() (names []string) {
	for _, f := range redirectfile.Formats() {
		names = append(names, string(f))
	}
	return names
}

// checkFormat checks the format of a file, and the flags that go with it.
func (i *importing) checkFormat(c *cobra.Command) error {
	isSite := slices.Contains(siteFormats(), i.format)
	switch site, err := url.Parse(i.site); {
	case i.site != "" && !isSite:
		return &usageError{errors.New("--site: only redirects have targets without a host: give --format as well")}
	case i.site != "" && (err != nil || site.Host == "" || site.Scheme != "http" && site.Scheme != "https"):
		return &usageError{fmt.Errorf("--site: %q is no address such as https://www.example.com", i.site)}
	case i.format == "" && filepath.Base(i.file) == "_redirects":
		return &usageError{errors.New("a line of _redirects without a status is a 301 at Netlify and a 302 at Cloudflare: say --format netlify or cloudflare-pages")}
	case isSite && i.raw:
		return oneOf(c, "format", "raw")
	case isSite || i.format == "":
		return nil
	}
	_, err := fileFormat(i.format, i.file)
	return err
}

func (p linksCommands) importLinks(c *cobra.Command, i importing) (err error) {
	file, size, err := p.openInput(i.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	api, err := p.api()
	if err != nil {
		return err
	}
	defer api.Close()
	im := linkimport.Import{
		API: api.Links, Format: linkimport.Format(i.format), InFlight: i.parallel,
		Dedupe: i.dedupe, Raw: i.raw, KeepCodes: i.keepCodes, Domain: i.domain, Site: i.site,
	}
	if i.dryRun {
		im.Try = api.Links.TryBulk
	}
	workspace, err := im.Workspace(c.Context(), api.Session.Me)
	if err == nil {
		im.Zone, err = time.LoadLocation(workspace.TimeZone)
	}
	if err != nil {
		return fmt.Errorf("nothing was sent: %w", err)
	}
	journal, err := openJournal(i, file, linkimport.Source{
		API: api.Base(), Workspace: workspace.Slug, Domain: i.domain, Format: im.Format, Site: i.site,
		Dedupe: i.dedupe, Raw: i.raw, KeepCodes: i.keepCodes,
	})
	if err != nil {
		return err
	}
	tell, err := p.newTelling(i, file, size, journal)
	if err != nil {
		return errors.Join(err, endJournal(journal, err, nil))
	}

	memlimit.CollectLess(400) // of a heap of some MB
	began := time.Now()
	progress, lines, finish := p.importProgress(size)
	im.Journal, im.Progress, im.Refused = journal, progress, tell.refused
	im.Settling = func(rows string, after time.Duration) {
		_, _ = fmt.Fprintf(lines, "lines %s may have been sent, and their outcome is unknown: they are looked for among the links in %s\n", rows, after)
	}
	im.Left = func(field string) { _, _ = fmt.Fprintln(lines, notTaken[field]) }
	im.Note = func(text string) { _, _ = fmt.Fprintln(lines, text) }
	im.Day = func(field, day string, at time.Time) {
		_, _ = fmt.Fprintf(lines, "days are those of %s: the %s %s is %s\n", im.Zone, field, day, at.In(im.Zone).Format(time.RFC3339))
	}
	tell.lines = lines
	report, runErr := im.Run(c.Context(), file)
	finish()
	tell.lines = p.stderr
	told := tell.printSummary(report, time.Since(began), runErr)
	runErr = advise(runErr, journal)
	return errors.Join(endJournal(journal, runErr, told), verdict(report, runErr, i.dryRun), told)
}

// notTaken says which fields of an export an import leaves out.
var notTaken = map[string]string{
	"short_code":  "the links get new codes, not the short_code of the file: for that, give --keep-codes",
	"created_by":  "the created_by of the links names this import and the line, not the value of the file",
	"click_count": "links with max_clicks can be used that often again: the click_count of the file is left out",
}

// advise adds the remedy to the error that stopped an import.
func advise(err error, journal *linkimport.Journal) error {
	if err == nil || errors.Is(err, linkimport.ErrUnreadable) {
		return err
	}
	resumable := journal != nil && journal.Begun()
	problem, ok := errors.AsType[*client.Problem](err)
	if ok && problem.Status == http.StatusForbidden && strings.Contains(problem.Detail, "scope") {
		then := ""
		if resumable {
			then = ", then continue with --resume"
		}
		return fmt.Errorf("%w: the key lacks that scope: use one that has links:read and links:write%s", err, then)
	}
	if resumable {
		return fmt.Errorf("%w: continue with --resume", err)
	}
	return err
}

// openJournal begins or goes on with the progress file; it returns nil for a dry
// run, and for an input that cannot be read twice.
func openJournal(i importing, input io.ReadCloser, of linkimport.Source) (*linkimport.Journal, error) {
	if i.dryRun {
		return nil, nil
	}
	file, ok := input.(*os.File)
	if !ok {
		if i.resume || i.progressFile != "" {
			return nil, &usageError{fmt.Errorf("%s can be read only once, so that its import cannot be resumed: give a file", i.file)}
		}
		return nil, nil
	}
	hash := sha256.New()
	size, err := io.Copy(hash, file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", i.file, err)
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	name := i.progressFile
	if name == "" {
		if name, err = progressFile(i.file, sum); err != nil {
			return nil, err
		}
	}
	of.SHA256, of.Size = sum, size
	return linkimport.OpenJournal(name, of, i.resume)
}

// progressFile is next to the input or, where this user must not write, named by
// its hash in a directory of the user's own: the same at every start.
func progressFile(input, sum string) (string, error) {
	beside := input + ".progress"
	if unix.Access(filepath.Dir(beside), unix.W_OK) == nil {
		return beside, nil
	}
	dirs := []string{filepath.Join(os.TempDir(), fmt.Sprintf("waypost-imports-%d", os.Getuid()))}
	if cache, err := os.UserCacheDir(); err == nil {
		dirs = append([]string{filepath.Join(cache, "waypost", "imports")}, dirs...)
	}
	var last error
	for _, dir := range dirs {
		if last = os.MkdirAll(dir, 0o700); last == nil {
			return filepath.Join(dir, sum[:32]+".progress"), nil
		}
	}
	return "", fmt.Errorf("no place for the progress of the import (choose one with --progress-file): %w", last)
}

// endJournal removes the progress file when there is nothing left to go on with and
// the user has been told everything.
func endJournal(j *linkimport.Journal, runErr, told error) error {
	switch {
	case j == nil:
		return nil
	case told == nil && (runErr == nil || errors.Is(runErr, linkimport.ErrUnreadable)):
		return j.Remove()
	default:
		return j.Close()
	}
}

// verdict is the error that the command ends with.
func verdict(report linkimport.Report, runErr error, dry bool) error {
	if runErr != nil {
		return fmt.Errorf("the import stopped: %w", runErr)
	}
	switch n := report.NotCreated; {
	case n > 0 && dry:
		return errors.New(numberOf(n, "row", "rows") + " would be refused")
	case n > 0:
		return errors.New(numberOf(n, "row was", "rows were") + " not created")
	}
	return nil
}

// numberOf returns a number with the word for it.
func numberOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// openInput returns the file and its size, 0 when it is unknown. Only a file that can be
// read again is an *os.File.
func (p linksCommands) openInput(name string) (io.ReadCloser, int64, error) {
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
	if !info.Mode().IsRegular() {
		return struct{ io.ReadCloser }{f}, 0, nil
	}
	return f, info.Size(), nil
}
