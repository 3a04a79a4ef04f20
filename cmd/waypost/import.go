package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"waypost/client"
	"waypost/internal/redirectfile"
)

// importCommands makes the commands for imports, which the control plane runs.
type importCommands struct{ *program }

// importing holds the options of an import.
type importing struct {
	wanted    client.NewImport
	keepCodes bool
	maps      []string // COLUMN=FIELD
	tags      string
	dates     string
	report    string
	dryRun    bool
	unchecked bool
	detach    bool

	given func(flag string) bool // on the command line
}

func (p importCommands) command() *cobra.Command {
	var i importing
	c := &cobra.Command{
		Use:   "import FILE|-|SOURCE",
		Short: "Create the links of a file or of another service",
		Long: `Create the links of a file as people have it: an export of Bitly, Rebrandly, Shlink,
YOURLS, Kutt, Dub, Short.io, Sink, Chhoto, golink, Firebase Dynamic Links or Waypost, a table
with a column for the target, JSON lines, a list of targets, or the redirects of a site.
The format is recognised. "-" reads standard input. The commands shlink, kutt, bitly and
waypost read the links from the API of such a service: see their --help.

The file is sent to the control plane, which runs the import. The command says how the file
is understood: --map "Long URL=original_url" maps a column to a field of the API, an empty
field leaves the column out, --dates names the notation of dates, and --tags separates tags. A
choice that only the owner of the file can make stops the command with the flag for it.
Then all rows are checked, and nothing is created before that. The codes of the file are
kept; with --keep-codes=false the links get new ones.

Each refused row is in the file of --report with all its columns behind the reason, so
that it can be mended there and imported. Exit code 1 means that some were not created.
Ctrl-C ends the command and not the import. After any kind of stop the same
command goes on, and so does "waypost import resume": nothing is created twice.
For a week, "waypost import undo" deletes the links that were created and not changed since.

With --dedupe a row is found, and not created, if its code is there with the same target,
or, without a code, if its target has a link of an earlier import with --dedupe.

The files netlify, cloudflare-pages (both _redirects), cloudflare-bulk, nginx (map and
rewrite) and apache (Redirect and RedirectMatch) need --format, and become links and
patterns of --domain, or of the hosts that the file names. A key needs the scopes
links:read and links:write.`,
		Example: `  waypost import bitly.csv --domain go.example.com --dry-run
  waypost import bitly.csv --domain go.example.com --report refused.csv
  waypost import links.csv --map "Ziel=original_url" --map "Kampagne=tags" --tags ';' --dates dmy
  waypost import _redirects --format netlify --domain old.example.com --site https://www.example.com
  waypost import - --output json < links.jsonl`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if err := i.check(c); err != nil {
				return err
			}
			return p.importFile(c.Context(), args[0], &i)
		},
	}
	i.bind(c)
	i.bindNotations(c)
	c.Flags().StringVar(&i.wanted.Format, "format", "", "format of the file, such as bitly, csv or netlify (default: recognised)")
	c.Flags().StringVar(&i.wanted.Encoding, "encoding", "", "utf-8, utf-16le, utf-16be or windows-1252 (default: UTF-8, or UTF-16 with its mark)")
	c.Flags().StringVar(&i.wanted.Site, "site", "", "site of targets without a host in redirects, such as https://www.example.com")
	c.Flags().BoolVar(&i.wanted.Raw, "raw", false, "read CSV cells unchanged, as in an export with --raw")
	completeWith(c, "encoding", "utf-8", "utf-16le", "utf-16be", "windows-1252")
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault // files
	}
	c.AddCommand(p.listCommand(), p.getCommand(), p.resumeCommand(), p.stopCommand(), p.undoCommand(), p.deleteCommand())
	c.AddCommand(p.sourceCommands()...)
	return p.bindAll(p.bind(c, apiSettings...))
}

// bind adds the flags of all commands that run an import.
func (i *importing) bind(c *cobra.Command) {
	c.Flags().StringVar(&i.wanted.Domain, "domain", "", "host of the domain for rows without one (default: the shared domain)")
	c.Flags().StringVar(&i.wanted.TimeZone, "time-zone", "", "zone of days and times without one, such as Europe/Berlin (default: of the workspace)")
	c.Flags().BoolVar(&i.keepCodes, "keep-codes", true, "keep the codes of the file; false: all links get new codes")
	c.Flags().BoolVar(&i.wanted.Dedupe, "dedupe", false, "find the links of earlier imports instead of creating them again")
	c.Flags().StringArrayVar(&i.maps, "map", nil, "map a column to a field, as COLUMN=FIELD; without a field the column is left out")
	c.Flags().StringVar(&i.report, "report", "", "write the refused rows to this file, to be mended and imported")
	c.Flags().BoolVar(&i.dryRun, "dry-run", false, "check every row, and create nothing")
	c.Flags().BoolVar(&i.unchecked, "unchecked", false, "create links without a check of all rows before")
	c.Flags().BoolVar(&i.detach, "detach", false, "end when the import runs")
}

// bindNotations adds the flags for texts in files of people.
func (i *importing) bindNotations(c *cobra.Command) {
	c.Flags().StringVar(&i.tags, "tags", "", "characters between tags, such as ';'")
	c.Flags().StringVar(&i.dates, "dates", "", "notation of dates, such as iso, dmy, mdy, ymd, words, unix or unix_ms")
}

// check checks the flags of an import.
func (i *importing) check(c *cobra.Command) error {
	i.given = c.Flags().Changed
	if i.given("keep-codes") {
		i.wanted.KeepCodes = &i.keepCodes
	}
	for _, m := range i.maps {
		if !strings.Contains(m, "=") {
			return &usageError{fmt.Errorf("--map: %q is not COLUMN=FIELD, such as \"Long URL=original_url\"", m)}
		}
	}
	if site, err := url.Parse(i.wanted.Site); i.wanted.Site != "" && (err != nil || site.Host == "") {
		return &usageError{fmt.Errorf("--site: %q is no address such as https://www.example.com", i.wanted.Site)}
	}
	isSite := slices.Contains(siteFormats(), i.wanted.Format)
	if i.wanted.Site != "" && !isSite {
		return &usageError{errors.New("--site: only redirects have targets without a host: give --format as well")}
	}
	return errors.Join(oneOf(c, "dry-run", "detach"), oneOf(c, "dry-run", "unchecked"), oneOf(c, "detach", "report"))
}

// siteFormats names the formats of redirects of whole sites.
func siteFormats() (names []string) {
	for _, f := range redirectfile.Formats() {
		names = append(names, string(f))
	}
	return names
}

// importFile imports a file, or goes on with the import of the file.
func (p importCommands) importFile(ctx context.Context, name string, i *importing) (err error) {
	if i.wanted.Format == "" && filepath.Base(name) == "_redirects" {
		return &usageError{errors.New("a line of _redirects without a status is a 301 at Netlify and a 302 at Cloudflare: say --format netlify or cloudflare-pages")}
	}
	file, size, err := p.openInput(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	i.wanted.Name = filepath.Base(name)
	if name == "-" {
		i.wanted.Name = "standard input"
	}
	if err := p.checkReport(i.report, name); err != nil {
		return err
	}
	return p.watch(i, func(w *importWatch) error {
		im, err := w.send(ctx, file, size)
		if err != nil {
			return err
		}
		return w.finish(ctx, im)
	})
}

// checkReport refuses a report over the file that is imported.
func (p importCommands) checkReport(report, file string) error {
	if report == "" {
		return nil
	}
	old, err := os.Stat(report)
	if err != nil {
		return replaceable(report)
	}
	if read, err := os.Stat(file); err == nil && os.SameFile(old, read) {
		return &usageError{fmt.Errorf("--report: the import reads %s: choose another file", report)}
	}
	return replaceable(report)
}

// openInput returns the file and its size, 0 when it is unknown. Only a file that can be
// read again is an *os.File.
func (p importCommands) openInput(name string) (io.ReadCloser, int64, error) {
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

// changes returns the change of an import by the flags that were given.
func (i *importing) changes(im *client.Import) (change client.ImportChange, some bool) {
	m := im.Mapping
	m.Columns = maps.Clone(m.Columns)
	if m.Columns == nil {
		m.Columns = make(map[string]string)
	}
	for _, entry := range i.maps {
		at := strings.LastIndexByte(entry, '=')
		column, field := columnNamed(im.Columns, entry[:at]), entry[at+1:]
		maps.DeleteFunc(m.Columns, func(_, other string) bool { return field != "" && other == field })
		m.Columns[column] = field
	}
	if i.given("tags") {
		m.Tags = i.tags
	}
	if i.given("dates") {
		m.Dates = i.dates
	}
	if len(i.maps) > 0 || i.given("tags") || i.given("dates") {
		change.Mapping, some = &m, true
	}
	if i.given("domain") && i.wanted.Domain != im.Domain {
		change.Domain, some = &i.wanted.Domain, true
	}
	if i.given("time-zone") && i.wanted.TimeZone != im.TimeZone {
		change.TimeZone, some = &i.wanted.TimeZone, true
	}
	if i.given("keep-codes") && i.keepCodes != im.KeepCodes {
		change.KeepCodes, some = &i.keepCodes, true
	}
	if i.given("dedupe") && i.wanted.Dedupe != im.Dedupe {
		change.Dedupe, some = &i.wanted.Dedupe, true
	}
	return change, some
}

// columnNamed returns the column of that name in any case, or the name itself, which the
// API refuses.
func columnNamed(columns []string, name string) string {
	for _, same := range []func(string) bool{
		func(c string) bool { return c == name },
		func(c string) bool { return strings.EqualFold(strings.TrimSpace(c), strings.TrimSpace(name)) },
	} {
		if at := slices.IndexFunc(columns, same); at >= 0 {
			return columns[at]
		}
	}
	return name
}
