package httpapi

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"waypost"
	"waypost/controlplane"
)

const (
	exportPath   = linksPath + "/export"
	maxExports   = 4                // under way at once
	maxTheirs    = 2                // of them, of one workspace
	exportWrite  = 30 * time.Second // for a client to take a page
	exportTries  = 5                // of a page, while the database is away
	exportPause  = 500 * time.Millisecond
	cursorHeader = "Waypost-Cursor"
	countHeader  = "Waypost-Links"
)

type exportInput struct {
	Narrowing
	Format string `query:"format" enum:"csv,jsonl" default:"jsonl" doc:"JSON lines hold everything that a link holds, CSV what an import takes."`
	After  string `query:"after" maxLength:"256" doc:"The Waypost-Cursor of an earlier export with the same filters, to go on from there."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000000000" doc:"How many links at most. Left out: all."`
}

func (s *server) registerExport() {
	answers := problems(400, 401, 403, 422)
	text := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	answers["200"] = &huma.Response{
		Description: "The links, newest first, as they are found. An answer that is cut off was not complete.",
		Content:     map[string]*huma.MediaType{"application/jsonl": text, "text/csv": text},
		Headers: map[string]*huma.Param{
			"Content-Disposition": textHeader("A name for the file."),
			"Trailer":             textHeader("Waypost-Cursor and Waypost-Links, which follow the body."),
			cursorHeader:          textHeader("A trailer: where the next export goes on, empty when there is nothing more."),
			countHeader:           textHeader("A trailer: how many links were written."),
		},
	}
	handle(s, huma.Operation{
		OperationID: "export-links",
		Method:      http.MethodGet,
		Path:        exportPath,
		Summary:     "Export links as CSV or JSON lines",
		Security:    s.needs(controlplane.ScopeLinksRead),
		Responses:   answers,
	}, s.export)
}

// export finds the first page, so that whatever is wrong with the request is told as
// a problem, and leaves the rest to the answer's body.
func (s *server) export(ctx context.Context, in *exportInput) (*huma.StreamResponse, error) {
	e := &exporter{s: s, actor: actorFrom(ctx), left: in.Limit, endless: in.Limit == 0, format: in.Format}
	e.request = controlplane.ListRequest{LinkFilter: in.filter(), Order: controlplane.NewestFirst, Cursor: in.After}
	if err := s.exports.begin(e.actor.Workspace); err != nil {
		return nil, err
	}
	first, err := e.page(ctx)
	if err != nil {
		s.exports.end(e.actor.Workspace)
		return nil, err
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		defer s.exports.end(e.actor.Workspace)
		r, w := humago.Unwrap(ctx)
		e.asked = r
		if r.Method == http.MethodHead { // nobody would see what was read
			first = controlplane.Page{}
		}
		if err := e.write(ctx.Context(), w, first); err != nil {
			panic(http.ErrAbortHandler) // the client sees that the answer is not complete
		}
	}}, nil
}

// exports counts those under way. Zero is ready to use.
type exports struct {
	mu  sync.Mutex
	all int
	of  map[waypost.WorkspaceID]int // those that have none are not there
}

// begin counts one more, unless there are enough: of all, or of the workspace, so that no
// tenant keeps the others from theirs by reading slowly.
func (x *exports) begin(ws waypost.WorkspaceID) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all >= maxExports || x.of[ws] >= maxTheirs {
		return waypost.Errorf(waypost.EUnavailable, "too many exports are under way; wait until one has ended")
	}
	if x.of == nil {
		x.of = make(map[waypost.WorkspaceID]int)
	}
	x.all++
	x.of[ws]++
	return nil
}

func (x *exports) end(ws waypost.WorkspaceID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all--
	if x.of[ws]--; x.of[ws] == 0 {
		delete(x.of, ws)
	}
}

// exporter writes links page by page, each in a transaction of its own.
type exporter struct {
	s       *server
	actor   controlplane.Actor
	asked   *http.Request
	request controlplane.ListRequest // Cursor: of the next page
	format  string
	left    int
	endless bool
	written int
}

// page reads the next page, within the time of a request.
func (e *exporter) page(ctx context.Context) (controlplane.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, e.s.timeout)
	defer cancel()
	e.request.Limit = controlplane.MaxListed
	if !e.endless {
		e.request.Limit = min(e.left, controlplane.MaxListed)
	}
	return e.s.links.List(ctx, e.actor, e.request)
}

func (e *exporter) write(ctx context.Context, w http.ResponseWriter, page controlplane.Page) error {
	h := w.Header()
	h.Set("Trailer", cursorHeader+", "+countHeader)
	rows, contentType := newLinkRows(e.format, e.s, bufio.NewWriterSize(w, 32<<10))
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
		e.left -= len(page.Links)
		e.request.Cursor = page.Next
		if page.Next == "" || !e.endless && e.left <= 0 {
			break
		}
		var err error
		if page, err = e.persist(ctx); err != nil {
			return err
		}
	}
	if err := rows.end(); err != nil {
		return err
	}
	h.Set(cursorHeader, e.request.Cursor)
	h.Set(countHeader, strconv.Itoa(e.written))
	return nil
}

// allowed sees that who asked may still read the links: an export takes minutes, and a key
// that is revoked ends within a second.
func (e *exporter) allowed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.s.timeout)
	defer cancel()
	now, err := e.s.actor(ctx, e.asked, false)
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
		pause := time.NewTimer(exportPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return page, ctx.Err()
		case <-pause.C:
		}
	}
}

// linkRows writes links in a format.
type linkRows interface {
	row(l *waypost.Link) error
	end() error
}

func newLinkRows(format string, s *server, to *bufio.Writer) (rows linkRows, contentType string) {
	if format == "csv" {
		return &csvRows{w: csv.NewWriter(to), to: to}, "text/csv; charset=utf-8; header=present"
	}
	enc := json.NewEncoder(to)
	enc.SetEscapeHTML(false)
	return &jsonRows{s: s, enc: enc, to: to}, "application/jsonl"
}

type jsonRows struct {
	s   *server
	enc *json.Encoder
	to  *bufio.Writer
}

func (j *jsonRows) row(l *waypost.Link) error { return j.enc.Encode(j.s.show(l)) }
func (j *jsonRows) end() error                { return j.to.Flush() }

// csvRows has the columns that an import takes, and three that it passes over.
type csvRows struct {
	w     *csv.Writer
	to    io.Writer
	begun bool
}

var exportColumns = []string{"short_code", "original_url", "title", "description", "tags", "redirect_status", "forward_query", "forward_path", "expires_at", "click_count", "created_at", "domain", "active", "metadata"}

func (c *csvRows) begin() error {
	if c.begun {
		return nil
	}
	c.begun = true
	return c.w.Write(exportColumns)
}

func (c *csvRows) row(l *waypost.Link) error {
	tags, err := joinTags(l.Tags)
	if err != nil {
		return err
	}
	expires := ""
	if !l.ExpiresAt.IsZero() {
		expires = l.ExpiresAt.UTC().Format(time.RFC3339Nano)
	}
	return errors.Join(c.begin(), c.w.Write([]string{
		string(l.Code), l.OriginalURL, l.Title, l.Description, tags, strconv.Itoa(l.RedirectStatus),
		strconv.FormatBool(l.Flags&waypost.ForwardQuery != 0), strconv.FormatBool(l.Flags&waypost.ForwardPath != 0), expires,
		strconv.FormatInt(l.Clicks, 10), l.CreatedAt.UTC().Format(time.RFC3339Nano), l.Host, // "": the domain that all share
		strconv.FormatBool(l.Active), string(l.Metadata),
	}))
}

func (c *csvRows) end() error {
	err := c.begin() // of no links, too
	c.w.Flush()
	err = errors.Join(err, c.w.Error())
	if b, ok := c.to.(*bufio.Writer); ok {
		err = errors.Join(err, b.Flush())
	}
	return err
}

// joinTags makes a cell that is a line of CSV itself, so that a tag may hold a comma.
func joinTags(tags []string) (string, error) {
	if len(tags) == 0 {
		return "", nil
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	if err := w.Write(tags); err != nil {
		return "", err
	}
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n"), w.Error()
}
