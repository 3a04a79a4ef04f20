package controlplane

import (
	"context"
	"log/slog"
	"regexp"
	"slices"
	"time"

	"waypost"
)

// Workspace is a tenant.
type Workspace struct {
	ID        waypost.WorkspaceID
	Slug      string
	Name      string
	Settings  Settings
	CreatedAt time.Time
	DeletedAt time.Time // zero: it is not deleted
	ClosedAt  time.Time // when its last link became a tombstone
	Links     int       // at most MaxCountedLinks; only of a workspace that was asked for alone
}

// MaxCountedLinks bounds how many links of a workspace are counted, so that it costs
// milliseconds.
const MaxCountedLinks = 10_000

// Settings holds the choices of a workspace's administrators.
type Settings struct {
	Dedupe       bool   // a request for a URL returns its existing link, unless it says otherwise
	Events       string // which clicks are stored one by one: one of EventModes
	EventsSample int    // one of that many clicks is stored when Events is "sampled"; 0: the cluster's setting
	UTM          bool   // clicks are counted by the utm parameters of the request
	TimeZone     string // in which days that have no time begin and end: a name of waypost.LoadZone
	UTMTemplates []UTMTemplate
}

// EventModes returns the values of Settings.Events; the first is the default.
func EventModes() []string { return []string{"off", "sampled", "all"} }

// Bounds and default of Settings.EventsSample.
const (
	DefaultEventsSample = 100
	MaxEventsSample     = 1_000_000
)

// WorkspaceChange changes a workspace: nil fields stay as they are.
type WorkspaceChange struct {
	Name         *string `json:"name,omitempty"`
	Dedupe       *bool   `json:"dedupe,omitempty"`
	Events       *string `json:"events,omitempty"`
	EventsSample *int    `json:"events_sample,omitempty"`
	UTM          *bool   `json:"utm,omitempty"`
	TimeZone     *string `json:"time_zone,omitempty"`

	UTMTemplates *[]UTMTemplate `json:"utm_templates,omitempty"` // all of them
}

// NewWorkspace is a request for a workspace.
type NewWorkspace struct {
	Slug string
	Name string // default: the slug
}

// WorkspaceStore keeps workspaces.
type WorkspaceStore interface {
	// Workspace finds a workspace that is not deleted.
	Workspace(ctx context.Context, ws waypost.WorkspaceID) (Workspace, error)

	// ChangeWorkspace changes a workspace that is not deleted.
	ChangeWorkspace(ctx context.Context, by Actor, ws waypost.WorkspaceID, c WorkspaceChange) (Workspace, error)

	// Workspaces returns up to limit workspaces of the installation with an id above after,
	// by id, including deleted ones.
	Workspaces(ctx context.Context, after waypost.WorkspaceID, limit int) ([]Workspace, error)

	// CreateWorkspace creates a workspace. It returns EConflict when a workspace has the
	// slug, deleted or not.
	CreateWorkspace(ctx context.Context, by Actor, n NewWorkspace) (Workspace, error)

	// DeleteWorkspace ends all access to a workspace, and the accounts that are its
	// own; CloseWorkspaces deletes its links. Deleting it twice changes nothing.
	DeleteWorkspace(ctx context.Context, by Actor, ws waypost.WorkspaceID) (Workspace, error)

	// CloseWorkspaces turns up to limit links of deleted workspaces into tombstones, in one
	// transaction, and returns their number. A workspace without links is closed, a while
	// after its deletion.
	CloseWorkspaces(ctx context.Context, limit int) (int, error)
}

// Workspaces manages workspaces, their members, and the accounts of all users.
type Workspaces struct {
	workspaces WorkspaceStore
	members    MemberStore
	accounts   AccountStore
	audit      AuditStore
	access     *Access // for its passwords, and its caches, which a change clears
	now        func() time.Time
	log        *slog.Logger

	deleted chan struct{} // holds one token when a workspace may have links to delete
}

func newWorkspaces(cfg *Config, access *Access) *Workspaces {
	return &Workspaces{
		workspaces: cfg.Store, members: cfg.Store, accounts: cfg.Store, audit: cfg.Store,
		access: access, now: cfg.Now, log: cfg.Logger, deleted: make(chan struct{}, 1),
	}
}

// How the links of deleted workspaces are deleted.
const (
	closeInterval = 30 * time.Second // between searches for such links
	closeBatch    = 1_000            // links a transaction
)

// run turns the links of deleted workspaces into tombstones until ctx ends, at most 1,000
// links a transaction, so that creates get their turns. Several instances may run at
// once; the next instance continues where one has stopped.
func (s *Workspaces) run(ctx context.Context) {
	ticker := time.NewTicker(closeInterval)
	defer ticker.Stop()
	s.wake() // an instance before this one may have stopped halfway
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.deleted:
		}
		s.closeDeleted(ctx)
	}
}

func (s *Workspaces) wake() {
	select {
	case s.deleted <- struct{}{}:
	default: // it is awake
	}
}

func (s *Workspaces) closeDeleted(ctx context.Context) {
	total := 0
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		n, err := s.workspaces.CloseWorkspaces(ctx, closeBatch)
		pause.Reset(time.Since(began)) // others want to commit, too
		if err != nil {
			if ctx.Err() == nil {
				s.log.Warn("cannot delete links of deleted workspaces, will try again", "error", err)
			}
			return
		}
		if total += n; n == 0 {
			break
		}
	}
	if total > 0 {
		s.log.Info("deleted links of deleted workspaces", "links", total)
	}
}

// Workspace returns the actor's workspace.
func (s *Workspaces) Workspace(ctx context.Context, actor Actor) (Workspace, error) {
	return s.workspaces.Workspace(ctx, actor.Workspace)
}

// ChangeWorkspace changes the actor's workspace.
func (s *Workspaces) ChangeWorkspace(ctx context.Context, actor Actor, c WorkspaceChange) (Workspace, error) {
	if _, err := s.administrator(actor, ""); err != nil {
		return Workspace{}, err
	}
	return s.changeWorkspace(ctx, actor, actor.Workspace, c)
}

func (s *Workspaces) changeWorkspace(ctx context.Context, actor Actor, ws waypost.WorkspaceID, c WorkspaceChange) (Workspace, error) {
	switch {
	case c == WorkspaceChange{}:
		return Workspace{}, waypost.Errorf(waypost.EInvalid, "say what to change: name, settings")
	case c.Events != nil && !slices.Contains(EventModes(), *c.Events):
		return Workspace{}, waypost.Errorf(waypost.EInvalid, "events must be off, sampled or all")
	case c.EventsSample != nil && (*c.EventsSample < 1 || *c.EventsSample > MaxEventsSample):
		return Workspace{}, waypost.Errorf(waypost.EInvalid, "events_sample must be 1 to %d", MaxEventsSample)
	}
	if c.Name != nil {
		if err := checkName(*c.Name); err != nil {
			return Workspace{}, err
		}
	}
	if c.UTMTemplates != nil {
		kept, err := checkUTMTemplates(*c.UTMTemplates)
		if err != nil {
			return Workspace{}, err
		}
		c.UTMTemplates = &kept
	}
	if c.TimeZone != nil {
		if _, ok := waypost.LoadZone(*c.TimeZone); !ok {
			return Workspace{}, waypost.Errorf(waypost.EInvalid, "settings.time_zone must be a name of the IANA database, such as Europe/Berlin")
		}
	}
	return s.workspaces.ChangeWorkspace(ctx, actor, ws, c)
}

// Workspaces returns a page of all workspaces, by id, for operators.
func (s *Workspaces) Workspaces(ctx context.Context, actor Actor, limit int, cursor string) (all []Workspace, next string, err error) {
	if err := actor.CheckOperator(); err != nil {
		return nil, "", err
	}
	after, err := ReadCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	if all, err = s.workspaces.Workspaces(ctx, waypost.WorkspaceID(after), limit+1); err != nil {
		return nil, "", err
	}
	if len(all) > limit {
		all = all[:limit]
		next = WriteCursor(int64(all[limit-1].ID))
	}
	return all, next, nil
}

var slugForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// CreateWorkspace makes a workspace, for operators.
func (s *Workspaces) CreateWorkspace(ctx context.Context, actor Actor, n NewWorkspace) (Workspace, error) {
	if err := actor.CheckOperator(); err != nil {
		return Workspace{}, err
	}
	if !slugForm.MatchString(n.Slug) {
		return Workspace{}, waypost.Errorf(waypost.EInvalid, "slug must be 1 to 63 characters of a-z, 0-9 and -, and not begin with -")
	}
	if n.Name == "" {
		n.Name = n.Slug
	}
	if err := checkName(n.Name); err != nil {
		return Workspace{}, err
	}
	return s.workspaces.CreateWorkspace(ctx, actor, n)
}

// ChangeWorkspaceOf changes any workspace, for operators.
func (s *Workspaces) ChangeWorkspaceOf(ctx context.Context, actor Actor, ws waypost.WorkspaceID, c WorkspaceChange) (Workspace, error) {
	if err := actor.CheckOperator(); err != nil {
		return Workspace{}, err
	}
	return s.changeWorkspace(ctx, actor, ws, c)
}

// DeleteWorkspace ends a workspace, for operators: all access to it at once, its links
// within minutes. It returns EConflict for the default workspace.
func (s *Workspaces) DeleteWorkspace(ctx context.Context, actor Actor, ws waypost.WorkspaceID) (Workspace, error) {
	if err := actor.CheckOperator(); err != nil {
		return Workspace{}, err
	}
	if ws == waypost.DefaultWorkspace {
		return Workspace{}, waypost.Errorf(waypost.EConflict, "the default workspace cannot be deleted: the operators are in it")
	}
	defer s.access.forget()
	w, err := s.workspaces.DeleteWorkspace(ctx, actor, ws)
	if err == nil {
		s.wake()
	}
	return w, err
}
