package controlplane

import (
	"context"
	"log/slog"
	"regexp"
	"slices"
	"time"

	"waypost"
	"waypost/api"
)

// MaxCountedLinks bounds how many links of a workspace are counted, so that it costs
// milliseconds.
const MaxCountedLinks = 10_000

// EventModes returns the values of the setting events; the first is the default.
func EventModes() []string { return []string{"off", "sampled", "all"} }

// Bounds and default of the setting events_sample.
const (
	DefaultEventsSample = 100
	MaxEventsSample     = 1_000_000
)

// WorkspaceStore keeps workspaces.
type WorkspaceStore interface {
	// Workspace finds a workspace that is not deleted.
	Workspace(ctx context.Context, ws waypost.WorkspaceID) (api.Workspace, error)

	// ChangeWorkspace changes a workspace that is not deleted. The change has settings.
	ChangeWorkspace(ctx context.Context, by Actor, ws waypost.WorkspaceID, c api.WorkspaceChange) (api.Workspace, error)

	// Workspaces returns up to limit workspaces of the installation with an id above after,
	// by id, including deleted ones.
	Workspaces(ctx context.Context, after waypost.WorkspaceID, limit int) ([]api.Workspace, error)

	// CreateWorkspace creates a workspace. It returns EConflict when a workspace has the
	// slug, deleted or not.
	CreateWorkspace(ctx context.Context, by Actor, n api.NewWorkspace) (api.Workspace, error)

	// DeleteWorkspace ends all access to a workspace, and the accounts that are its
	// own; CloseWorkspaces deletes its links. Deleting it twice changes nothing.
	DeleteWorkspace(ctx context.Context, by Actor, ws waypost.WorkspaceID) (api.Workspace, error)

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
func (s *Workspaces) Workspace(ctx context.Context, actor Actor) (api.Workspace, error) {
	return s.workspaces.Workspace(ctx, actor.Workspace)
}

// ChangeWorkspace changes the actor's workspace.
func (s *Workspaces) ChangeWorkspace(ctx context.Context, actor Actor, c api.WorkspaceChange) (api.Workspace, error) {
	if err := administrator(actor); err != nil {
		return api.Workspace{}, err
	}
	return s.changeWorkspace(ctx, actor, actor.Workspace, c)
}

func (s *Workspaces) changeWorkspace(
	ctx context.Context, actor Actor, ws waypost.WorkspaceID, c api.WorkspaceChange,
) (api.Workspace, error) {
	var set api.SettingsChange
	if c.Settings != nil {
		set = *c.Settings
	}
	switch {
	case c.Name == nil && set == api.SettingsChange{}:
		return api.Workspace{}, waypost.Errorf(waypost.EInvalid, "say what to change: name, settings")
	case set.Events != nil && !slices.Contains(EventModes(), *set.Events):
		return api.Workspace{}, waypost.Errorf(waypost.EInvalid, "events must be off, sampled or all")
	case set.EventsSample != nil && (*set.EventsSample < 1 || *set.EventsSample > MaxEventsSample):
		return api.Workspace{}, waypost.Errorf(waypost.EInvalid, "events_sample must be 1 to %d", MaxEventsSample)
	}
	if c.Name != nil {
		if err := checkName(*c.Name); err != nil {
			return api.Workspace{}, err
		}
	}
	if set.UTMTemplates != nil {
		kept, err := checkUTMTemplates(*set.UTMTemplates)
		if err != nil {
			return api.Workspace{}, err
		}
		set.UTMTemplates = &kept
	}
	if set.TimeZone != nil {
		if _, ok := waypost.LoadZone(*set.TimeZone); !ok {
			return api.Workspace{}, waypost.Errorf(waypost.EInvalid, "settings.time_zone must be a name of the IANA database, such as Europe/Berlin")
		}
	}
	c.Settings = &set
	return s.workspaces.ChangeWorkspace(ctx, actor, ws, c)
}

// Workspaces returns a page of all workspaces, by id, for operators.
func (s *Workspaces) Workspaces(ctx context.Context, actor Actor, limit int, cursor string) (p api.WorkspacePage, err error) {
	if err := actor.CheckOperator(); err != nil {
		return p, err
	}
	read := func(after int64, limit int) ([]api.Workspace, error) {
		return s.workspaces.Workspaces(ctx, waypost.WorkspaceID(after), limit)
	}
	p.Workspaces, p.Next, err = page(limit, cursor, read, func(w *api.Workspace) int64 { return w.ID })
	return p, err
}

var slugForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// CreateWorkspace makes a workspace, for operators.
func (s *Workspaces) CreateWorkspace(ctx context.Context, actor Actor, n api.NewWorkspace) (api.Workspace, error) {
	if err := actor.CheckOperator(); err != nil {
		return api.Workspace{}, err
	}
	if !slugForm.MatchString(n.Slug) {
		return api.Workspace{}, waypost.Errorf(waypost.EInvalid, "slug must be 1 to 63 characters of a-z, 0-9 and -, and not begin with -")
	}
	if n.Name == "" {
		n.Name = n.Slug
	}
	if err := checkName(n.Name); err != nil {
		return api.Workspace{}, err
	}
	return s.workspaces.CreateWorkspace(ctx, actor, n)
}

// ChangeWorkspaceOf changes any workspace, for operators.
func (s *Workspaces) ChangeWorkspaceOf(
	ctx context.Context, actor Actor, ws waypost.WorkspaceID, c api.WorkspaceChange,
) (api.Workspace, error) {
	if err := actor.CheckOperator(); err != nil {
		return api.Workspace{}, err
	}
	return s.changeWorkspace(ctx, actor, ws, c)
}

// DeleteWorkspace ends a workspace, for operators: all access to it at once, its links
// within minutes. It returns EConflict for the default workspace.
func (s *Workspaces) DeleteWorkspace(ctx context.Context, actor Actor, ws waypost.WorkspaceID) (api.Workspace, error) {
	if err := actor.CheckOperator(); err != nil {
		return api.Workspace{}, err
	}
	if ws == waypost.DefaultWorkspace {
		return api.Workspace{}, waypost.Errorf(waypost.EConflict, "the default workspace cannot be deleted: the operators are in it")
	}
	defer s.access.forget()
	w, err := s.workspaces.DeleteWorkspace(ctx, actor, ws)
	if err == nil {
		s.wake()
	}
	return w, err
}
