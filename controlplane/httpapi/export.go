package httpapi

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"waypost"
	"waypost/api"
	"waypost/api/linkfields"
	"waypost/controlplane"
)

const (
	maxExports  = 32               // under way at once; most of them wait for their readers
	maxTheirs   = 2                // of them, of one workspace
	exportPages = 4                // that are read at once
	exportWrite = 30 * time.Second // for a client to take a page
	exportTries = 5                // of a page, while the database is away
	exportPause = 500 * time.Millisecond
)

type exportInput struct {
	linkFilter
	Format string `query:"format" enum:"csv,jsonl" default:"jsonl" doc:"JSON lines hold all fields of a link, CSV those that an import takes."`
	Raw    bool   `query:"raw" doc:"CSV with cells as they are. Default: an apostrophe stands before a cell that a spreadsheet could take for a formula."`
	BOM    bool   `query:"bom" doc:"CSV that begins with a byte order mark, without which Excel garbles letters such as umlauts."`
	After  string `query:"after" maxLength:"256" doc:"The Waypost-Cursor of an earlier export with the same filters, to continue from there."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000000000" doc:"How many links at most. Default: all."`
}

func registerExport(rt *router, a *linksAPI) {
	handle(rt, operation{
		id: "export-links", method: http.MethodGet, path: api.PathLinks + "/export", summary: "Export links as CSV or JSON lines",
		scopes: []controlplane.Scope{controlplane.ScopeLinksRead}, unbounded: true,
		answers: map[int]answer{http.StatusOK: {
			Description: "The links, newest first. An answer that is cut off is incomplete.",
			Content:     map[string]media{"application/jsonl": {textSchema}, "text/csv": {textSchema}},
			Headers: map[string]header{
				"Content-Disposition": textHeader("A name for the file."),
				"Trailer":             textHeader("Waypost-Cursor and Waypost-Links, which follow the body of more than 1,000 links."),
				api.HeaderCursor:      textHeader("Where the next export continues, empty at the end; a trailer with more than 1,000 links."),
				api.HeaderLinks:       textHeader("How many links were written; a trailer with more than 1,000 links."),
			},
		}},
	}, a.export)
}

// export reads the first page, so that every fault of the request is answered with a
// problem, and leaves the rest to the answer's body.
func (a *linksAPI) export(ctx context.Context, in *exportInput) (*exporter, error) {
	e := &exporter{a: a, actor: actorFrom(ctx), left: in.Limit, endless: in.Limit == 0, format: in.Format, raw: in.Raw, bom: in.BOM}
	e.request = controlplane.ListRequest{LinkFilter: in.filter(), Order: controlplane.NewestFirst, Cursor: in.After}
	if !a.exports.TryAcquire(e.actor.Workspace, 1) {
		return nil, errManyExports
	}
	var err error
	if e.first, err = e.page(ctx); err != nil {
		a.exports.Release(e.actor.Workspace, 1)
		return nil, err
	}
	return e, nil
}

var errManyExports = waypost.Errorf(waypost.EUnavailable, "too many exports are under way; wait until one has ended")

// exporter writes links page by page, each in a transaction of its own.
type exporter struct {
	a       *linksAPI
	actor   controlplane.Actor
	asked   *http.Request
	first   controlplane.Page
	request controlplane.ListRequest // Cursor: of the next page
	format  string
	raw     bool
	bom     bool
	left    int
	endless bool
	written int
}

// respond writes the export. HEAD gets the headers of one without links.
func (e *exporter) respond(w http.ResponseWriter, r *http.Request) {
	defer e.a.exports.Release(e.actor.Workspace, 1)
	if e.asked = r; r.Method == http.MethodHead {
		e.first = controlplane.Page{}
	}
	if err := e.write(r.Context(), w, e.first); err != nil {
		panic(http.ErrAbortHandler) // shows the client that the answer is incomplete
	}
}

// page reads the next page, within the time of a request.
func (e *exporter) page(ctx context.Context) (controlplane.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, e.a.timeout)
	defer cancel()
	if !e.a.pages.Acquire(ctx, e.actor.Workspace) {
		return controlplane.Page{}, errManyExports
	}
	defer e.a.pages.Release(e.actor.Workspace, 1)
	e.request.Limit = controlplane.MaxListed
	if !e.endless {
		e.request.Limit = min(e.left, controlplane.MaxListed)
	}
	return e.a.links.List(ctx, e.actor, e.request)
}

func (e *exporter) write(ctx context.Context, w http.ResponseWriter, page controlplane.Page) error {
	h := w.Header()
	if e.last(page) { // headers reach a client where a proxy drops trailers
		h.Set(api.HeaderCursor, page.Next)
		h.Set(api.HeaderLinks, strconv.Itoa(len(page.Links)))
	} else {
		h.Set("Trailer", api.HeaderCursor+", "+api.HeaderLinks)
	}
	rows, contentType := newLinkRows(e, bufio.NewWriterSize(w, 32<<10))
	h.Set("Content-Type", contentType)
	h.Set("Content-Disposition", `attachment; filename="links.`+e.format+`"`)
	connection := http.NewResponseController(w)
	for {
		if err := connection.SetWriteDeadline(time.Now().Add(exportWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		for i := range page.Links {
			if err := rows.row(&page.Links[i]); err != nil {
				return err
			}
		}
		e.written += len(page.Links)
		e.request.Cursor = page.Next
		if e.last(page) {
			break
		}
		e.left -= len(page.Links)
		var err error
		if page, err = e.persist(ctx); err != nil {
			return err
		}
	}
	if err := rows.endRows(); err != nil {
		return err
	}
	h.Set(api.HeaderCursor, e.request.Cursor) // a trailer, unless it was sent
	h.Set(api.HeaderLinks, strconv.Itoa(e.written))
	return nil
}

// last reports whether the export ends with a page.
func (e *exporter) last(page controlplane.Page) bool {
	return page.Next == "" || !e.endless && len(page.Links) >= e.left
}

// allowed checks that the sender may still read the links: an export takes minutes, and a
// revoked key ends within a second.
func (e *exporter) allowed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.a.timeout)
	defer cancel()
	now, err := e.a.auth.actor(ctx, e.asked, false)
	if err == nil && (now.Workspace != e.actor.Workspace || !now.Can(controlplane.ScopeLinksRead)) {
		err = waypost.Errorf(waypost.EForbidden, "this needs the scope %s", controlplane.ScopeLinksRead)
	}
	return err
}

// persist reads the next page, again while the database is away for a moment.
func (e *exporter) persist(ctx context.Context) (page controlplane.Page, err error) {
	for try := 1; ; try++ {
		if err = e.allowed(ctx); err == nil {
			page, err = e.page(ctx)
		}
		if err == nil || try == exportTries || waypost.CodeOf(err) != waypost.EUnavailable {
			return page, err
		}
		select {
		case <-ctx.Done():
			return page, ctx.Err()
		case <-time.After(exportPause):
		}
	}
}

// linkRows writes links in a format.
type linkRows interface {
	row(l *waypost.Link) error
	endRows() error
}

func newLinkRows(e *exporter, to *bufio.Writer) (rows linkRows, contentType string) {
	if e.format == "csv" {
		return &csvRows{a: e.a, w: csv.NewWriter(to), to: to, raw: e.raw, bom: e.bom}, "text/csv; charset=utf-8; header=present"
	}
	return &jsonRows{a: e.a, to: to}, "application/jsonl"
}

type jsonRows struct {
	a     *linksAPI
	to    *bufio.Writer
	shown api.Link
	text  []byte
}

func (j *jsonRows) row(l *waypost.Link) (err error) {
	j.a.show(&j.shown, l)
	if j.text, err = encode(j.text[:0], &j.shown); err != nil {
		return err
	}
	_, err = j.to.Write(j.text)
	return err
}

func (j *jsonRows) endRows() error { return j.to.Flush() }

// byteOrderMark begins a file that spreadsheets are to read as UTF-8.
const byteOrderMark = "\uFEFF"

// csvRows has the columns of package linkfields. An import takes them, or ignores them.
type csvRows struct {
	a     *linksAPI
	w     *csv.Writer
	to    io.Writer
	raw   bool // formulas stay formulas
	bom   bool // a byte order mark is first
	begun bool
	shown api.Link
	cells []string
}

func (c *csvRows) beginRows() error {
	if c.begun {
		return nil
	}
	c.begun = true
	if c.bom {
		if _, err := io.WriteString(c.to, byteOrderMark); err != nil {
			return err
		}
	}
	var names []string
	for f := range linkfields.Exported {
		names = append(names, f.Name)
	}
	return c.w.Write(names)
}

func (c *csvRows) row(l *waypost.Link) error {
	c.a.show(&c.shown, l)
	c.shown.Domain = l.Host // "": the shared default domain
	for i := range l.Aliases {
		c.shown.Aliases[i].Domain = l.Aliases[i].Host
	}
	c.cells = c.cells[:0]
	for f := range linkfields.Exported {
		cell, err := cellOf(f.Link(&c.shown), f.Optional)
		if err != nil {
			return err
		}
		if !c.raw {
			cell = api.SafeCell(cell)
		}
		c.cells = append(c.cells, cell)
	}
	return errors.Join(c.beginRows(), c.w.Write(c.cells))
}

// cellOf writes a field of a link. Of an optional number zero is empty.
func cellOf(field any, optional bool) (string, error) {
	switch v := field.(type) {
	case *string:
		return *v, nil
	case *bool:
		return strconv.FormatBool(*v), nil
	case *int:
		return strconv.Itoa(*v), nil
	case *int64:
		if optional && *v == 0 {
			return "", nil
		}
		return strconv.FormatInt(*v, 10), nil
	case *time.Time:
		return v.UTC().Format(time.RFC3339Nano), nil
	case **time.Time:
		if *v == nil {
			return "", nil
		}
		return (*v).UTC().Format(time.RFC3339Nano), nil
	case *[]string:
		return joinTags(*v), nil
	case *json.RawMessage:
		return string(*v), nil
	case *[]api.Rule:
		return listCell(*v)
	case *[]api.Alias:
		var list []api.NewAlias
		for _, a := range *v {
			list = append(list, api.NewAlias{ShortCode: a.ShortCode, Domain: a.Domain, Title: a.Title, Print: a.Print})
		}
		return listCell(list)
	}
	return "", fmt.Errorf("no cell of CSV holds a %T", field)
}

// listCell writes a list as JSON, and nothing for an empty one.
func listCell[T any](list []T) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	text, err := encode(nil, list)
	return strings.TrimSpace(string(text)), err
}

func (c *csvRows) endRows() error {
	err := c.beginRows() // of no links, too
	c.w.Flush()
	err = errors.Join(err, c.w.Error())
	if b, ok := c.to.(*bufio.Writer); ok {
		err = errors.Join(err, b.Flush())
	}
	return err
}

// joinTags makes a cell that is itself a line of CSV, so that a tag may hold a comma, or
// a semicolon, at which an import separates tags as well.
func joinTags(tags []string) string {
	cells := make([]string, len(tags))
	for i, tag := range tags {
		if cells[i] = tag; strings.ContainsAny(tag, `,;"`) || tag != strings.TrimSpace(tag) {
			cells[i] = `"` + strings.ReplaceAll(tag, `"`, `""`) + `"`
		}
	}
	return strings.Join(cells, ",")
}
