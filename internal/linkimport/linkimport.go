// Package linkimport creates the links of a CSV or JSON lines file through the API, in
// bulk, several requests at once, and each once, and accounts for every row of the file:
// created, refused, or in doubt. An import that stopped or was killed goes on from its
// [Journal]. The package prints nothing; the command reports to the user.
package linkimport

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"waypost/api"
	"waypost/client"
)

// Bounds of one request.
const (
	batchRows      = 1000
	batchBytes     = 4 << 20
	batchPasswords = 10 // as many as the API takes
)

// MaxInFlight bounds the requests of an import that are under way at once.
const MaxInFlight = 16

// API is the part of the control plane's API that an import uses. Several goroutines call
// it at once when an import has several requests under way.
type API interface {
	CreateBulk(ctx context.Context, ns []client.NewLink) ([]client.Outcome, error)

	// List is asked for the API's time, and for links when an answer was lost.
	List(ctx context.Context, limit int, cursor string) (client.Page, error)
}

// Import says how a file is brought in.
type Import struct {
	API API

	// Journal keeps the progress, from which a later run goes on; nil keeps nothing.
	Journal *Journal

	// Format of the file; default: recognised by how the file begins.
	Format Format

	// Site is the site of the targets without a host in a file of redirects, such as
	// https://www.example.com; "": such lines are refused. Note is called with a text about
	// many lines of such a file; nil: it is not called.
	Site string
	Note func(text string)

	// Raw takes cells of CSV as they are; default: as [api.SafeCell] makes them.
	Raw bool

	// InFlight bounds the requests under way at once, 1 to [MaxInFlight]; default 1. As
	// many batches are in memory, and have to be settled after a kill.
	InFlight int

	// Dedupe asks the API for the existing link of a target, or of a code with that
	// target, in place of a new one. A row may decide otherwise; an inactive row, or one
	// with rules, valid_from, expired_url, max_clicks or a password, has to ask for it
	// itself. Report.Found counts the existing links.
	Dedupe bool

	// KeepCodes takes the short_code of a row as its custom code, where the row has no
	// other one. Default: a row gets a new code, whatever its short_code is.
	KeepCodes bool

	// Domain is the host that rows without a domain go to; "": the shared default one.
	Domain string

	// Zone is the time zone in which days begin and end that have no time; nil: UTC. Day is
	// called with the first such day, its field, and the time that it is; nil: it is not.
	Zone *time.Location
	Day  func(field, day string, at time.Time)

	// Try makes the import a dry run: it is called in place of the API's CreateBulk, and
	// creates nothing. Report.Created counts the rows that would be created. There is no
	// Journal. Nil: the links are created.
	Try func(ctx context.Context, ns []client.NewLink) ([]client.Outcome, error)

	// Left is called once for each of the fields short_code, created_by and click_count (of
	// a row with max_clicks), when the first row is read that has one which its link does
	// not get. Nil: it is not called.
	Left func(field string)

	// Attempts bounds how often a request is sent that surely had no effect, or
	// changes nothing; default 8, which takes about 16 s.
	Attempts int

	// Settle is the time for which the API must have been answering again before a
	// request that lost its answer is sure to be finished or refused; default 10 s. The
	// API aborts a request after 5 s.
	Settle time.Duration

	// Settling is called with the lines, such as "2 to 1001", that were sent without an
	// answer, or perhaps sent before a kill. Run looks for them among the links once
	// Settle has passed. It may be called by several goroutines at once. Nil: it is not
	// called.
	Settling func(lines string, after time.Duration)

	// Wait pauses between attempts; default: the time that passes, or ctx's error.
	Wait func(ctx context.Context, d time.Duration) error

	// Refused is called for every refused row at once, in the order of the file,
	// beginning with the refused rows of earlier runs; its error stops the import. Nil:
	// the report keeps these rows in memory.
	Refused func(Row) error

	// Progress is called after each batch with the numbers of rows that are done and of
	// bytes that were read from the file.
	Progress func(rows int, bytes int64)
}

// Row is one row of the file that did not become a link for certain.
type Row struct {
	Line        int    `json:"line"` // of the file, from 1
	OriginalURL string `json:"original_url"`
	Status      int    `json:"status,omitempty"` // as the API answered; 0 when it was not asked
	Reason      string `json:"reason"`
	Whole       bool   `json:"-"` // one of many with this fate, which Run's error reports for all of them
}

// Report accounts for the rows of a file as far as the import came, runs before
// this one included: Rows = Created + Found + refused + in doubt.
type Report struct {
	Rows       int   `json:"rows"`
	Created    int   `json:"created"`
	Found      int   `json:"found"`    // rows with a target that had its link already
	NotCreated int   `json:"-"`        // rows that were refused
	Refused    []Row `json:"refused"`  // they themselves, unless somebody else was told
	InDoubt    []Row `json:"in_doubt"` // may or may not have been created; at most those under way
}

// ErrUnreadable says that the rest of a file can never be read. All rows before it are
// imported, so a later run has nothing to do.
var ErrUnreadable = errors.New("the rest of the file cannot be read")

// Run imports the whole file, or as far as it gets. A refused row is no error. An
// error says why it stopped early, and the report shows how far it came. With a
// journal of an earlier run of the same file, it goes on from there.
func (im *Import) Run(ctx context.Context, file io.Reader) (Report, error) {
	r := im.newRun()
	if r.Refused == nil {
		r.Refused = func(row Row) error {
			r.report.Refused = append(r.report.Refused, row)
			return nil
		}
	}
	err := r.all(ctx, file)
	return r.report, err
}

func (im *Import) newRun() *run {
	r := &run{
		Import: *im, report: Report{Refused: []Row{}, InDoubt: []Row{}},
		codes: make(map[uint64]uint64), seed: maphash.MakeSeed(),
	}
	if r.Attempts == 0 {
		r.Attempts = 8
	}
	r.InFlight = min(max(r.InFlight, 1), MaxInFlight)
	if r.Settle == 0 {
		r.Settle = 10 * time.Second
	}
	if r.Wait == nil {
		r.Wait = client.Pause
	}
	if r.Left == nil {
		r.Left = func(string) {}
	}
	if r.Settling == nil {
		r.Settling = func(string, time.Duration) {}
	}
	return r
}

// Workspace asks for the workspace that links go into. It repeats the request as often as
// Run repeats one that changes nothing. w is zero when the API names no workspace.
func (im *Import) Workspace(ctx context.Context, ask func(context.Context) (client.Me, error)) (w client.MeWorkspace, err error) {
	err = im.newRun().persist(ctx, client.Passing, func() error {
		me, err := ask(ctx)
		if err == nil && me.Workspace != nil {
			w = *me.Workspace
		}
		return err
	})
	return w, err
}

// run is one run of an import.
type run struct {
	Import // without zero fields, except Journal, Progress and Try

	reader *reader
	report Report
	tag    string // prefix of created_by for every link of this import

	// The API's clock, as it was told at a moment of our own.
	apiTime, ourTime time.Time

	// The custom codes that a dry run has met, and the targets with one link: from the
	// hash of domain and code or target to the hash of the first target. An entry takes
	// some 30 bytes of memory.
	codes map[uint64]uint64
	seed  maphash.Seed // of these hashes
}

func (r *run) all(ctx context.Context, file io.Reader) error {
	told := make(map[string]bool)
	left := func(field string) {
		if !told[field] {
			told[field] = true
			r.Left(field)
		}
	}
	var err error
	if r.reader, err = newReader(file, &r.Import, r.readTime, exported{r.KeepCodes, left}); err != nil {
		return err
	}
	id := rand.Text()
	var unsettled []flight
	if j := r.Journal; j != nil {
		id = j.id()
		unsettled = j.unsettled()
		r.report.Rows, r.report.Created, r.report.Found = j.total.Rows, j.total.Created, j.total.Found
		r.report.NotCreated = j.refused
		if err := j.tell(r.Refused); err != nil {
			return err
		}
		r.reader.skip = j.total.Line
	}
	r.tag = "import:" + id + ":"
	if err := r.readClock(ctx); err != nil {
		return fmt.Errorf("nothing was sent: %w", err)
	}
	return r.deliverAll(ctx, unsettled)
}

// deliverAll keeps batches under way until the file has ended or one has failed, and
// books them in the order of the file. Unsettled are the batches that an earlier run has
// sent without learning their outcome.
func (r *run) deliverAll(ctx context.Context, unsettled []flight) error {
	var under []*delivery // oldest first
	var failed error      // why sending stopped
	var readErr error
	for end := false; ; {
		for failed == nil && readErr == nil && !end && len(under) < r.InFlight {
			var old *flight
			until := 0
			if len(unsettled) > 0 {
				old, unsettled = &unsettled[0], unsettled[1:]
				until = old.Last
			}
			var b batch
			b, readErr = r.reader.batch(until)
			if !awaitCodes(under, b) {
				end = true // it fails below, in the order of the file
				break
			}
			d, err := r.sendBatch(ctx, b, old)
			if err != nil {
				failed = err
				break
			}
			under, end = append(under, d), b.end
		}
		if len(under) == 0 {
			if failed != nil {
				return failed
			}
			return readErr
		}
		d := under[0]
		under = under[1:]
		<-d.done
		d.judgeCodes()
		if err := r.bookOutcome(d.report); failed == nil {
			failed = err
		}
		if failed == nil {
			failed = d.err
		}
		if failed == nil {
			failed = r.Journal.done(stretch{
				Line: d.batch.last, Rows: d.report.Rows, Created: d.report.Created, Found: d.report.Found, Refused: d.report.Refused,
			})
		}
		if failed == nil && r.Progress != nil {
			r.Progress(r.report.Rows, d.offset)
		}
	}
}

// awaitCodes waits for the batches under way with a custom code of b, so that the first
// row of the file with a code gets it. It reports whether they have not failed.
func awaitCodes(under []*delivery, b batch) bool {
	for _, d := range under {
		if slices.ContainsFunc(b.rows, func(r row) bool { return d.batch.codes[r.link.CustomCode] }) {
			if <-d.done; d.err != nil {
				return false
			}
		}
	}
	return true
}

// delivery is a batch on its way, by a goroutine of its own.
type delivery struct {
	*run
	batch  batch
	offset int64 // of the file, behind the batch
	report Report
	tried  []row // of a dry run, that would be created if the file had no others
	err    error
	done   chan struct{}
}

// sendBatch sends a batch, once the journal knows of it. Unsettled is set when an earlier
// run has sent the batch without learning its outcome.
func (r *run) sendBatch(ctx context.Context, b batch, unsettled *flight) (*delivery, error) {
	d := &delivery{run: r, batch: b, offset: r.reader.offset(), done: make(chan struct{})}
	for _, bad := range b.bad {
		d.refuse(bad)
	}
	if len(b.rows) == 0 {
		close(d.done)
		return d, nil
	}
	f, doubt := unsettled, errInterrupted
	if f == nil {
		f = &flight{First: b.rows[0].line, Last: b.rows[len(b.rows)-1].line, At: r.now()}
		doubt = nil
		if err := r.Journal.sending(*f); err != nil {
			return nil, err
		}
	}
	go func() {
		defer close(d.done)
		d.err = d.deliver(ctx, *f, b.rows, doubt)
	}()
	return d, nil
}

// bookOutcome books the outcome of a batch, and reports its refused rows.
func (r *run) bookOutcome(of Report) error {
	r.report.Rows += of.Rows
	r.report.Created += of.Created
	r.report.Found += of.Found
	r.report.NotCreated += len(of.Refused)
	r.report.InDoubt = append(r.report.InDoubt, of.InDoubt...)
	slices.SortStableFunc(of.Refused, func(a, b Row) int { return a.Line - b.Line })
	for _, row := range of.Refused {
		if err := r.Refused(row); err != nil {
			return err
		}
	}
	return nil
}

func (d *delivery) refuse(row Row) {
	d.report.Rows++
	d.report.Refused = append(d.report.Refused, row)
}

// judgeCodes corrects the report of a dry run for custom codes that an earlier batch has,
// and for targets that an earlier batch has, where a target gets one link. The API cannot
// see those: it judges a batch at a time, and a dry run stores nothing. Otherwise no row
// was tried, and there is nothing to correct.
func (d *delivery) judgeCodes() {
	for _, row := range d.tried {
		target := maphash.String(d.seed, row.link.OriginalURL)
		name := "/" + row.link.CustomCode
		if row.link.CustomCode == "" {
			if !d.dedupes(&row.link) {
				continue
			}
			name = " " + row.link.OriginalURL
		}
		key := maphash.String(d.seed, strings.ToLower(cmp.Or(row.link.Domain, d.Domain))+name)
		first, taken := d.codes[key]
		switch {
		case !taken:
			d.codes[key] = target
		case first == target && d.dedupes(&row.link):
			d.report.Created--
			d.report.Found++
		default:
			d.report.Created--
			d.report.Rows--
			d.refuse(row.because(http.StatusConflict, "an earlier row of the file has this code"))
		}
	}
}

func (d *delivery) created(n int) {
	d.report.Rows += n
	d.report.Created += n
}

// readTime reads a time, or a day, of a field.
func (r *run) readTime(field, text string) (time.Time, error) {
	at, err := api.ParseMoment(text, cmp.Or(r.Zone, time.UTC), field == "expires_at" || field == "until")
	if err == nil && r.Day != nil && api.IsDay(text) {
		r.Day(field, text, at)
		r.Day = nil
	}
	return at, err
}

// readClock learns the API's time, and that links may be read, which settling needs.
func (r *run) readClock(ctx context.Context) error {
	page, err := r.list(ctx, 1, "")
	if err != nil {
		return err
	}
	r.apiTime, r.ourTime = page.Time, time.Now()
	if r.apiTime.IsZero() {
		r.apiTime = r.ourTime
	}
	return nil
}

// now is the API's time. While our machine sleeps it falls behind, never ahead,
// and then settling only looks at more links than it has to.
func (r *run) now() time.Time { return r.apiTime.Add(time.Since(r.ourTime)).UTC() }

// newRunID returns a random name, which distinguishes imports of the same file.
func newRunID() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
