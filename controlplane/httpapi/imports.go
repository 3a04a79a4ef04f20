package httpapi

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/imports"
	"waypost/internal/linkfile"
)

// Imports imports links from files. [imports.Imports] documents it.
type Imports interface {
	Begin(ctx context.Context, by controlplane.Actor, set imports.Settings) (imports.Import, error)
	PutPart(ctx context.Context, by controlplane.Actor, id string, n int, content []byte) error
	Read(ctx context.Context, by controlplane.Actor, id string, parts int, sum string) (imports.Import, error)
	Change(ctx context.Context, by controlplane.Actor, id string, c *api.ImportChange) (imports.Import, error)
	Start(ctx context.Context, by controlplane.Actor, id string, dry bool) (imports.Import, error)
	Stop(ctx context.Context, by controlplane.Actor, id string) (imports.Import, error)
	Undo(ctx context.Context, by controlplane.Actor, id string) (imports.Import, error)
	List(ctx context.Context, by controlplane.Actor) ([]imports.Import, error)
	Find(ctx context.Context, by controlplane.Actor, id string) (imports.Import, []imports.Sample, error)
	Delete(ctx context.Context, by controlplane.Actor, id string) error
	WriteRefused(ctx context.Context, by controlplane.Actor, id string, w io.Writer) error
}

type importInput struct {
	ID string `path:"id" maxLength:"32"`
}

type partInput struct {
	importInput
	N   int `path:"n" minimum:"1" maximum:"10000" doc:"Number of the part, from 1."`
	Raw []byte
}

type readImportInput struct {
	importInput
	Body api.ReadImport
}

type changeImportInput struct {
	importInput
	Body api.ImportChange
}

type runImportInput struct {
	importInput
	Body api.RunImport
}

// partTime is the time in which a part has to arrive.
const partTime = time.Minute

// importsAPI serves imports.
type importsAPI struct {
	imports Imports
	timeout time.Duration
}

func registerImports(rt *router, a *importsAPI) {
	const path = api.PathImports + "/{id}"
	op := func(id, method, path, summary string, problems ...int) operation {
		o := operation{id: id, method: method, path: path, summary: summary, problems: problems}
		if o.scopes = []controlplane.Scope{controlplane.ScopeLinksRead}; method != http.MethodGet {
			o.scopes, o.description = []controlplane.Scope{controlplane.ScopeLinksWrite}, "Needs the scope links:read, too."
		}
		return o
	}
	begin := op("begin-import", http.MethodPost, api.PathImports, "Begin an import of links from a file", http.StatusConflict, http.StatusRequestEntityTooLarge)
	begin.status = http.StatusCreated
	handle(rt, begin, a.begin)
	handle(rt, op("list-imports", http.MethodGet, api.PathImports, "List the imports of the last week"), a.list)
	handle(rt, op("get-import", http.MethodGet, path, "An import, with its first rows", http.StatusNotFound), a.get)
	part := op("put-import-part", http.MethodPut, path+"/parts/{n}", "Send a part of the file", http.StatusNotFound, http.StatusConflict)
	part.description += " A part has at most 16 MiB, and a minute to arrive. Parts may be sent in any order, and again. A content encoding is not taken."
	part.maxBody, part.octets, part.unbounded = api.MaxImportPart, true, true
	handle(rt, part, a.putPart)
	handle(rt, op("read-import", http.MethodPost, path+"/read", "Read the rows of the file, all parts of which were sent",
		http.StatusNotFound, http.StatusConflict), shown(a, func(ctx context.Context, in *readImportInput) (imports.Import, error) {
		return a.imports.Read(ctx, actorFrom(ctx), in.ID, in.Body.Parts, in.Body.SHA256)
	}))
	handle(rt, op("change-import", http.MethodPatch, path, "Change an import that is ready", http.StatusNotFound, http.StatusConflict), a.change)
	handle(rt, op("run-import", http.MethodPost, path+"/run", "Check or run an import, or resume it", http.StatusNotFound, http.StatusConflict),
		shown(a, func(ctx context.Context, in *runImportInput) (imports.Import, error) {
			return a.imports.Start(ctx, actorFrom(ctx), in.ID, in.Body.DryRun)
		}))
	handle(rt, op("stop-import", http.MethodPost, path+"/stop", "Stop an import", http.StatusNotFound, http.StatusConflict),
		shown(a, func(ctx context.Context, in *importInput) (imports.Import, error) {
			return a.imports.Stop(ctx, actorFrom(ctx), in.ID)
		}))
	undo := op("undo-import", http.MethodPost, path+"/undo", "Delete the links that an import has made, unless they were changed since",
		http.StatusNotFound, http.StatusConflict)
	undo.description += " A later import of the workspace can have their codes."
	handle(rt, undo, shown(a, func(ctx context.Context, in *importInput) (imports.Import, error) {
		return a.imports.Undo(ctx, actorFrom(ctx), in.ID)
	}))
	refused := op("get-refused-rows", http.MethodGet, path+"/refused", "The refused rows, as a file that can be mended and imported",
		http.StatusNotFound, http.StatusConflict)
	refused.scopes, refused.description = []controlplane.Scope{controlplane.ScopeLinksWrite},
		"Needs the scope links:read, too, because rows may hold passwords. After a dry run these are the rows that a run would refuse."
	refused.unbounded = true
	refused.answers = map[int]answer{http.StatusOK: {
		Description: "The rows with all their columns, and the reason. An answer that is cut off is incomplete.",
		Content:     map[string]media{"text/csv": {textSchema}, "application/jsonl": {textSchema}, "text/plain": {textSchema}},
		Headers:     map[string]header{"Content-Disposition": textHeader("A name for the file.")},
	}}
	handle(rt, refused, a.refused)
	handle(rt, op("delete-import", http.MethodDelete, path, "Remove an import and its rows; its links stay", http.StatusNotFound, http.StatusConflict),
		func(ctx context.Context, in *importInput) (*struct{}, error) {
			return &struct{}{}, a.imports.Delete(ctx, actorFrom(ctx), in.ID)
		})
}

// shown makes an operation that answers with the import.
func shown[I any](_ *importsAPI, f func(context.Context, *I) (imports.Import, error)) func(context.Context, *I) (*body[api.Import], error) {
	return func(ctx context.Context, in *I) (*body[api.Import], error) {
		i, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return bodyOf(importOf(&i)), nil
	}
}

func (a *importsAPI) begin(ctx context.Context, in *body[api.NewImport]) (*body[api.Import], error) {
	n := &in.Body
	set := imports.Settings{
		Domain: n.Domain, Site: n.Site, Raw: n.Raw,
		KeepCodes: n.KeepCodes == nil || *n.KeepCodes, Dedupe: n.Dedupe, SHA256: n.SHA256,
	}
	if n.Format != "auto" {
		set.Format = linkfile.Format(n.Format)
	}
	if n.Encoding != "auto" {
		set.Encoding = linkfile.Encoding(n.Encoding)
	}
	set.Name, set.TimeZone = cmp.Or(n.Name, "import"), cmp.Or(n.TimeZone, "UTC")
	i, err := a.imports.Begin(ctx, actorFrom(ctx), set)
	if err != nil {
		return nil, err
	}
	return bodyOf(importOf(&i)), nil
}

func (a *importsAPI) list(ctx context.Context, _ *struct{}) (*body[api.ImportList], error) {
	all, err := a.imports.List(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return bodyOf(api.ImportList{Imports: mapped(all, importOf)}), nil
}

func (a *importsAPI) get(ctx context.Context, in *importInput) (*body[api.Import], error) {
	i, sample, err := a.imports.Find(ctx, actorFrom(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	out := bodyOf(importOf(&i))
	out.Body.Sample = mapped(sample, func(s *imports.Sample) api.ImportRow {
		row := api.ImportRow{Line: s.Line, Cells: s.Cells, Refused: s.Reason}
		if s.Reason == "" && s.Link.OriginalURL != "" {
			link := s.Link.NewLink
			link.Password = ""
			row.Link, row.Aliases, row.CreatedAt = &link, s.Link.Aliases, moment(s.Link.CreatedAt)
		}
		return row
	})
	return out, nil
}

func (a *importsAPI) change(ctx context.Context, in *changeImportInput) (*body[api.Import], error) {
	if _, err := a.imports.Change(ctx, actorFrom(ctx), in.ID, &in.Body); err != nil {
		return nil, err
	}
	return a.get(ctx, &in.importInput)
}

func (a *importsAPI) putPart(ctx context.Context, in *partInput) (*struct{}, error) {
	switch r := callFrom(ctx).request; {
	case r.Header.Get("Content-Encoding") != "":
		return nil, waypost.Errorf(codeUnsupportedMedia, "send the part as it is, without Content-Encoding")
	case len(in.Raw) == 0 && in.N > 1:
		return nil, waypost.Errorf(waypost.EMalformed, "the part is empty")
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	return &struct{}{}, a.imports.PutPart(ctx, actorFrom(ctx), in.ID, in.N, in.Raw)
}

// refusedFile writes refused rows.
type refusedFile struct {
	a     *importsAPI
	actor controlplane.Actor
	i     imports.Import
}

// refused finds the import first, so that a fault of the request is answered with a
// problem.
func (a *importsAPI) refused(ctx context.Context, in *importInput) (*refusedFile, error) {
	if err := imports.MayImport(actorFrom(ctx)); err != nil {
		return nil, err
	}
	i, _, err := a.imports.Find(ctx, actorFrom(ctx), in.ID)
	if err == nil && (i.State == api.ImportUploading || i.State == api.ImportReading || i.State == api.ImportFailed) {
		err = waypost.Errorf(waypost.EConflict, "the import is %s, and has no rows", i.State)
	}
	return &refusedFile{a, actorFrom(ctx), i}, err
}

// typesOfRefused are the types and the endings of files by the layout of their rows.
var typesOfRefused = map[linkfile.Layout][2]string{
	linkfile.Table: {"text/csv; charset=utf-8; header=present", "csv"},
	linkfile.JSON:  {"application/jsonl", "jsonl"},
	linkfile.Lines: {"text/plain; charset=utf-8", "txt"},
}

func (f *refusedFile) respond(w http.ResponseWriter, r *http.Request) {
	kind := typesOfRefused[f.i.Shape.Layout]
	w.Header().Set("Content-Type", kind[0])
	w.Header().Set("Content-Disposition", `attachment; filename="refused.`+kind[1]+`"`)
	if r.Method == http.MethodHead {
		return
	}
	slow := &deadlineWriter{w, http.NewResponseController(w)}
	if err := f.a.imports.WriteRefused(r.Context(), f.actor, f.i.ID, slow); err != nil {
		panic(http.ErrAbortHandler) // shows the client that the answer is incomplete
	}
}

// deadlineWriter sets a deadline for each write.
type deadlineWriter struct {
	io.Writer
	connection *http.ResponseController
}

func (w *deadlineWriter) Write(b []byte) (int, error) {
	_ = w.connection.SetWriteDeadline(time.Now().Add(exportWrite)) // not every ResponseWriter has one
	return w.Writer.Write(b)
}

// NewLinkOf returns a function that converts the link of a row.
func NewLinkOf(now func() time.Time) func(*api.NewLink) (controlplane.NewLink, error) {
	return func(n *api.NewLink) (link controlplane.NewLink, err error) {
		err = setNewLink(&link, n, now(), "the row")
		return link, err
	}
}

func importOf(i *imports.Import) api.Import {
	shown := api.Import{
		ID: i.ID, Name: i.Name, State: i.State, Problem: i.Problem,
		Format: string(i.Format), Encoding: string(i.Encoding), Domain: i.Domain, TimeZone: i.TimeZone, Site: i.Site, Raw: i.Raw,
		KeepCodes: i.KeepCodes, Dedupe: i.Dedupe, SHA256: i.SHA256,
		Columns: filled(i.Shape.Columns), LeftOut: filled(i.Mapping.LeftOut(&i.Shape)), Notes: filled(i.Shape.Notes),
		Separator: i.Shape.Separator, Suggested: mappingOf(i.Suggested), Mapping: mappingOf(i.Mapping),
		Notations: i.Notations, Open: i.Open(),
		Bytes: i.Bytes, Parts: i.Parts, Rows: i.Rows, Speed: i.Speed,
		CreatedAt: i.CreatedAt, UpdatedAt: i.UpdatedAt, GoesAt: i.UpdatedAt.Add(imports.KeptFor), UndoUntil: moment(i.UndoUntil()),
	}
	shown.Format, shown.Encoding = cmp.Or(shown.Format, "auto"), cmp.Or(shown.Encoding, "auto")
	if shown.Notations == nil {
		shown.Notations = map[string][]string{}
	}
	shown.Counts = countsOf(&i.Counts, i.Rows)
	if i.State == api.ImportUndoing || i.State == api.ImportUndone {
		shown.Counts.Left = i.Counts.Created - i.Counts.Removed - i.Counts.Kept
	}
	if i.Checked != nil {
		checked := countsOf(i.Checked, i.Rows)
		shown.Checked = &checked
	}
	if i.Speed > 0 {
		shown.TimeLeft = float64(max(0, i.Rows-i.Next)) / i.Speed
	}
	return shown
}

func countsOf(c *imports.Counts, rows int64) api.ImportCounts {
	return api.ImportCounts{
		Created: c.Created, Found: c.Found, Refused: c.Refused, Left: rows - c.Created - c.Found - c.Refused,
		NewCodes: c.NewCodes, Removed: c.Removed, Kept: c.Kept,
		Refusals: filled(c.Refusals),
	}
}

func mappingOf(m linkfile.Mapping) api.ImportMapping {
	shown := api.ImportMapping(m)
	if shown.Columns == nil {
		shown.Columns = map[string]string{}
	}
	return shown
}

// filled returns a list that is never nil.
func filled[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}
