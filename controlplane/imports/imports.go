// Package imports imports links from files that are sent to the control plane. An import
// is an object with a state. Its file comes in parts, becomes rows, and then links, and
// what it made can be undone. Any control plane works on it under a lease, so that it
// survives restarts.
//
// Package linkfile reads files, and package controlplane judges links.
package imports

import (
	"context"
	"crypto/rand"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/internal/linkfile"
)

// Bounds of what is kept.
const (
	MaxStored      = 4 << 30       // bytes of all imports, compressed
	MaxStoredOfOne = MaxStored / 4 // of one workspace
	MaxImports     = 100           // of one workspace
	KeptFor        = 7 * 24 * time.Hour
)

// Settings of an import say how its file is read.
type Settings struct {
	Name      string            `json:"name"`
	Format    linkfile.Format   `json:"format,omitzero"` // "": recognised by the file
	Encoding  linkfile.Encoding `json:"encoding,omitzero"`
	Domain    string            `json:"domain,omitzero"`
	TimeZone  string            `json:"time_zone,omitzero"`
	Site      string            `json:"site,omitzero"`
	Raw       bool              `json:"raw,omitzero"`
	KeepCodes bool              `json:"keep_codes,omitzero"`
	Dedupe    bool              `json:"dedupe,omitzero"`
	SHA256    string            `json:"sha256,omitzero"` // as the client says
}

// Counts count rows by their outcomes.
type Counts struct {
	Created  int64 `json:"created,omitzero"`
	Found    int64 `json:"found,omitzero"`
	Refused  int64 `json:"refused,omitzero"`
	NewCodes int64 `json:"new_codes,omitzero"`
	Removed  int64 `json:"removed,omitzero"`
	Kept     int64 `json:"kept,omitzero"`

	Refusals []api.ImportRefusal `json:"refusals,omitzero"` // the first ones
}

// maxRefusals bounds the refusals that counts name.
const maxRefusals = 20

// Import is an import. Its JSON is kept as a document next to the other fields.
type Import struct {
	ID        string              `json:"-"`
	Workspace waypost.WorkspaceID `json:"-"`
	State     string              `json:"-"` // of package api
	Next      int64               `json:"-"` // row of the run, the dry run or the undo
	Stored    int64               `json:"-"` // bytes
	Parts     int                 `json:"-"` // of the file, from the first on without a hole
	Sent      int                 `json:"-"` // parts, also behind a hole
	CreatedAt time.Time           `json:"-"`
	UpdatedAt time.Time           `json:"-"`

	Settings
	FileParts int    `json:"file_parts,omitzero"` // 0: not known yet
	FileSum   string `json:"file_sum,omitzero"`   // SHA-256 to compare
	Problem   string `json:"problem,omitzero"`
	Bytes     int64  `json:"bytes,omitzero"`
	Rows      int64  `json:"rows,omitzero"`

	Shape     linkfile.Shape      `json:"shape"`
	Suggested linkfile.Mapping    `json:"suggested"`
	Mapping   linkfile.Mapping    `json:"mapping"`
	Notations map[string][]string `json:"notations,omitzero"` // of dates, by column

	By      controlplane.Actor `json:"by"` // who began the run, the dry run or the undo
	Counts  Counts             `json:"counts"`
	Checked *Counts            `json:"checked,omitzero"`
	Speed   float64            `json:"speed,omitzero"` // rows a second
	Most    int                `json:"most,omitzero"`  // rows of a step, while the run looks for a row that the database refuses
}

// mapper returns the mapper of the import. The error is for people.
func (i *Import) mapper() (*linkfile.Mapper, error) {
	zone, err := loadZone(i.TimeZone)
	if err != nil {
		return nil, err
	}
	return linkfile.NewMapper(&i.Shape, i.Mapping, linkfile.MapOptions{Zone: zone, KeepCodes: i.KeepCodes, Domain: i.Domain})
}

// Open returns what must be decided before the import can run, as sentences.
func (i *Import) Open() []string {
	if i.Shape.Layout != "" {
		if _, err := i.mapper(); err != nil {
			return []string{err.Error()}
		}
	}
	return []string{}
}

// UndoUntil returns until when the run can be undone; zero: it cannot.
func (i *Import) UndoUntil() time.Time {
	if i.Counts.Created > 0 && (i.State == api.ImportDone || i.State == api.ImportStopped) {
		return i.UpdatedAt.Add(KeptFor)
	}
	return time.Time{}
}

// Piece is rows or outcomes that are kept together, from row First on.
type Piece struct {
	First   int64
	Content []byte
}

// UndoStep deletes links that a piece of outcomes has made, in one transaction.
type UndoStep struct {
	Links []int64
	Epoch uint32 // the revision that they have if they were not changed
	Seq   uint64
	To    int64 // the next row
}

// Store keeps imports. Methods with a worker return EStale unless the worker has the
// import's lease and the import is in the state that it was read in, and extend the
// lease.
type Store interface {
	// BeginImport adds an import. It returns EConflict if the workspace has too many.
	BeginImport(ctx context.Context, i *Import) error
	// Import finds an import of a workspace. It returns ENotFound for an unknown one.
	Import(ctx context.Context, ws waypost.WorkspaceID, id string) (Import, error)
	// Imports returns the imports of a workspace, newest first.
	Imports(ctx context.Context, ws waypost.WorkspaceID) ([]Import, error)
	// ChangeImport changes an import under a lock. An act, unless it is "", is noted in the
	// audit log.
	ChangeImport(ctx context.Context, by controlplane.Actor, id, act string, change func(*Import) error) (Import, error)
	// DeleteImport removes an import and its rows, unless it runs or is being undone.
	DeleteImport(ctx context.Context, ws waypost.WorkspaceID, id string) error

	// PutPart keeps a part of a file. A part that is there already stays: EConflict if its
	// content is another.
	PutPart(ctx context.Context, ws waypost.WorkspaceID, id string, n int, content []byte) error
	// MissingParts returns some numbers up to n that have no part.
	MissingParts(ctx context.Context, ws waypost.WorkspaceID, id string, n int) ([]int, error)

	// ClaimImport leases to a worker the import in one of the states that has waited for
	// the longest time, of a workspace without such an import that is leased.
	ClaimImport(ctx context.Context, worker string, states []string) (i Import, found bool, err error)
	// MayStill reports whether an actor, who could import once, still can.
	MayStill(ctx context.Context, by controlplane.Actor) (bool, error)
	// ReleaseImport ends a lease.
	ReleaseImport(ctx context.Context, i *Import, worker string) error
	// SaveImport keeps an import in a new state. From ready on it needs no parts.
	SaveImport(ctx context.Context, i *Import, worker, state string) error
	// Part returns a part.
	Part(ctx context.Context, i *Import, worker string, n int) ([]byte, error)
	// ClearRows removes all rows, before they are read.
	ClearRows(ctx context.Context, i *Import, worker string) error
	// AddRows keeps rows. It returns ETooLarge if there is no room for them.
	AddRows(ctx context.Context, i *Import, worker string, p Piece) error
	// StepImport makes a step in which no link was created.
	StepImport(ctx context.Context, ws waypost.WorkspaceID, step *controlplane.ImportStep, outcome []byte) error
	// UndoImport makes a step of an undo. Removed returns the import's document once it is
	// known how many links were deleted.
	UndoImport(ctx context.Context, i *Import, worker string, step *UndoStep, removed func(n int) ([]byte, error)) (waypost.Position, error)

	// RowsAt returns the piece of rows, or of outcomes, that has a row, or the last one
	// before it.
	RowsAt(ctx context.Context, ws waypost.WorkspaceID, id string, outcomes bool, row int64) (p Piece, found bool, err error)
}

// Links creates links. [controlplane.Links] is one.
type Links interface {
	Check(ctx context.Context, by controlplane.Actor, ns []controlplane.NewLink) (*controlplane.Checked, error)
	CreateImported(ctx context.Context, c *controlplane.Checked, key *controlplane.Idempotency) ([]controlplane.Outcome, error)
	DryRun(ctx context.Context, actor controlplane.Actor, ns []controlplane.NewLink) ([]controlplane.Outcome, error)
}

// Config configures Imports. All fields are required.
type Config struct {
	Store  Store
	Links  Links
	Link   func(*api.NewLink) (controlplane.NewLink, error) // converts the link of a row
	Node   string
	Logger *slog.Logger
}

// Imports imports links.
type Imports struct {
	Config
	wake chan struct{} // holds a token for each worker when there may be work
}

// New returns the service. Run does the work.
func New(cfg Config) *Imports { return &Imports{cfg, make(chan struct{}, readers+1)} }

// MayImport returns EForbidden for an actor that may not both see and create links.
func MayImport(by controlplane.Actor) error {
	for _, scope := range []controlplane.Scope{controlplane.ScopeLinksRead, controlplane.ScopeLinksWrite} {
		if !by.Can(scope) {
			return waypost.Errorf(waypost.EForbidden, "this needs the scope %s", scope)
		}
	}
	return nil
}

func loadZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, waypost.Errorf(waypost.EInvalid, "time_zone: there is no time zone %.64q", name)
	}
	return zone, nil
}

// Begin makes an import, which awaits its file.
func (s *Imports) Begin(ctx context.Context, by controlplane.Actor, set Settings) (Import, error) {
	i := Import{ID: strings.ToLower(rand.Text()), Workspace: by.Workspace, State: api.ImportUploading, Settings: set, By: by}
	err := MayImport(by)
	if err == nil {
		_, err = loadZone(set.TimeZone)
	}
	if known := linkfile.Formats(); err == nil && set.Format != "" && !slices.Contains(known, set.Format) {
		err = waypost.Errorf(waypost.EInvalid, "format: expected auto or one of %s", joined(known))
	}
	if err == nil {
		err = s.Store.BeginImport(ctx, &i)
	}
	if err != nil {
		return Import{}, err
	}
	return s.Store.Import(ctx, by.Workspace, i.ID)
}

// PutPart keeps a part of the file of an import.
func (s *Imports) PutPart(ctx context.Context, by controlplane.Actor, id string, n int, content []byte) error {
	if err := MayImport(by); err != nil {
		return err
	}
	return s.Store.PutPart(ctx, by.Workspace, id, n, content)
}

// Read begins to read the rows of a file in a number of parts. A sum is compared with
// the SHA-256 of the file; "": it is not.
func (s *Imports) Read(ctx context.Context, by controlplane.Actor, id string, parts int, sum string) (Import, error) {
	if err := MayImport(by); err != nil {
		return Import{}, err
	}
	missing, err := s.Store.MissingParts(ctx, by.Workspace, id, parts)
	if err != nil {
		return Import{}, err
	}
	return s.change(ctx, by, id, "", func(i *Import) error {
		switch {
		case i.FileParts == parts && i.State != api.ImportUploading: // the request was sent again
			return nil
		case i.State != api.ImportUploading:
			return waypost.Errorf(waypost.EConflict, "the file was read already: make another import")
		case i.Parts < parts: // a part that came since is there
			return waypost.Errorf(waypost.EConflict, "of the %d parts, some are missing: %s", parts, joined(missing))
		case i.Sent > parts:
			return waypost.Errorf(waypost.EConflict, "there are %d parts more than %d", i.Sent-parts, parts)
		}
		i.State, i.FileParts, i.FileSum = api.ImportReading, parts, strings.ToLower(sum)
		return nil
	})
}

// Change changes an import that is ready. Nil fields stay as they are.
func (s *Imports) Change(ctx context.Context, by controlplane.Actor, id string, c *api.ImportChange) (Import, error) {
	return s.change(ctx, by, id, "", func(i *Import) error {
		if i.State != api.ImportReady {
			return waypost.Errorf(waypost.EConflict, "the import is %s: it can be changed while it is ready", i.State)
		}
		if c.Mapping != nil {
			i.Mapping = linkfile.Mapping(*c.Mapping)
		}
		if c.TimeZone != nil {
			if _, err := loadZone(*c.TimeZone); err != nil {
				return err
			}
			i.TimeZone = *c.TimeZone
		}
		set(&i.Domain, c.Domain)
		set(&i.KeepCodes, c.KeepCodes)
		set(&i.Dedupe, c.Dedupe)
		i.Checked, i.Problem = nil, ""
		return nil
	})
}

func set[T any](to, value *T) {
	if value != nil {
		*to = *value
	}
}

// Start begins an import or resumes it; dry: it counts only.
func (s *Imports) Start(ctx context.Context, by controlplane.Actor, id string, dry bool) (Import, error) {
	state, act := api.ImportRunning, "imports.run"
	if dry {
		state, act = api.ImportChecking, ""
	}
	return s.change(ctx, by, id, act, func(i *Import) error {
		switch open := i.Open(); {
		case i.State == state:
			return nil
		case i.State == api.ImportStopped && !dry:
		case i.State != api.ImportReady:
			return waypost.Errorf(waypost.EConflict, "the import is %s", i.State)
		case len(open) > 0:
			return waypost.Errorf(waypost.EConflict, "%s", strings.Join(open, "; "))
		default:
			i.Next = 0
		}
		i.State, i.By, i.Problem, i.Speed = state, by, "", 0
		return nil
	})
}

// Stop stops an import that is checked or runs.
func (s *Imports) Stop(ctx context.Context, by controlplane.Actor, id string) (Import, error) {
	return s.change(ctx, by, id, "", func(i *Import) error {
		switch i.State {
		case api.ImportRunning:
			i.State = api.ImportStopped
		case api.ImportChecking:
			i.State, i.Next, i.Checked = api.ImportReady, 0, nil
		case api.ImportStopped, api.ImportReady:
		default:
			return waypost.Errorf(waypost.EConflict, "the import is %s", i.State)
		}
		return nil
	})
}

// Undo deletes the links that an import has made, unless they were changed since.
func (s *Imports) Undo(ctx context.Context, by controlplane.Actor, id string) (Import, error) {
	return s.change(ctx, by, id, "imports.undo", func(i *Import) error {
		switch i.State {
		case api.ImportDone, api.ImportStopped:
			if i.Counts.Removed+i.Counts.Kept == 0 { // else an undo goes on after a fault
				i.Next = 0
			}
			i.State, i.By, i.Problem, i.Speed = api.ImportUndoing, by, "", 0
		case api.ImportUndoing, api.ImportUndone:
		case api.ImportRunning:
			return waypost.Errorf(waypost.EConflict, "the import runs: stop it first")
		default:
			return waypost.Errorf(waypost.EConflict, "the import is %s, and has made no links", i.State)
		}
		return nil
	})
}

func (s *Imports) change(ctx context.Context, by controlplane.Actor, id, act string, f func(*Import) error) (Import, error) {
	if err := MayImport(by); err != nil {
		return Import{}, err
	}
	i, err := s.Store.ChangeImport(ctx, by, id, act, f)
	for range cap(s.wake) {
		select {
		case s.wake <- struct{}{}:
		default: // the worker will look
		}
	}
	return i, err
}

// List returns the imports of the actor's workspace, newest first.
func (s *Imports) List(ctx context.Context, by controlplane.Actor) ([]Import, error) {
	return s.Store.Imports(ctx, by.Workspace)
}

// Delete removes an import and its rows. Its links stay.
func (s *Imports) Delete(ctx context.Context, by controlplane.Actor, id string) error {
	if err := MayImport(by); err != nil {
		return err
	}
	return s.Store.DeleteImport(ctx, by.Workspace, id)
}

// Sample is a row of the file and the link that the row becomes.
type Sample struct {
	linkfile.Row
	Link linkfile.Link
}

// sampleRows bounds a sample.
const sampleRows = 10

// hashIn matches the hash of a password, which no sample shows.
var hashIn = regexp.MustCompile(`\$[0-9a-z]{1,12}\$[^"\s]{20,}`)

// Find finds an import, with its first rows once they are read, for those who may import:
// rows may hold passwords.
func (s *Imports) Find(ctx context.Context, by controlplane.Actor, id string) (Import, []Sample, error) {
	i, err := s.Store.Import(ctx, by.Workspace, id)
	if err != nil || MayImport(by) != nil || i.Rows == 0 || i.State == api.ImportReading || i.State == api.ImportFailed {
		return i, nil, err
	}
	p, found, err := s.Store.RowsAt(ctx, by.Workspace, id, false, 0)
	if err != nil || !found {
		return i, nil, err
	}
	rows, err := unpack[[]linkfile.Row](p.Content)
	if err != nil {
		return i, nil, err
	}
	samples := make([]Sample, min(len(rows), sampleRows))
	mapper, fault := i.mapper()
	for n := range samples {
		x := &samples[n]
		if x.Row = rows[n]; fault == nil {
			if x.Link, err = mapper.Link(x.Row); err != nil {
				x.Reason = err.Error()
			}
		}
		for c := range x.Cells {
			x.Cells[c] = hashIn.ReplaceAllString(x.Cells[c], "…")
		}
	}
	return i, samples, nil
}
