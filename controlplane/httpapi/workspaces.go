package httpapi

import (
	"context"
	"net/http"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// Workspaces manages workspaces, their users and the audit log. Any object of another
// workspace is ENotFound. Operators manage all workspaces and accounts.
type Workspaces interface {
	Workspace(ctx context.Context, actor controlplane.Actor) (controlplane.Workspace, error)
	ChangeWorkspace(ctx context.Context, actor controlplane.Actor, c controlplane.WorkspaceChange) (controlplane.Workspace, error)
	Workspaces(ctx context.Context, actor controlplane.Actor, limit int, cursor string) (all []controlplane.Workspace, next string, err error)
	CreateWorkspace(ctx context.Context, actor controlplane.Actor, n controlplane.NewWorkspace) (controlplane.Workspace, error)
	ChangeWorkspaceOf(ctx context.Context, actor controlplane.Actor, ws waypost.WorkspaceID,
		c controlplane.WorkspaceChange) (controlplane.Workspace, error)
	DeleteWorkspace(ctx context.Context, actor controlplane.Actor, ws waypost.WorkspaceID) (controlplane.Workspace, error)
	Members(ctx context.Context, actor controlplane.Actor, limit int, cursor string) (members []controlplane.Member, next string, err error)
	Member(ctx context.Context, actor controlplane.Actor, user int64) (controlplane.Member, error)
	AddMember(ctx context.Context, actor controlplane.Actor, n controlplane.NewMember) (controlplane.Member, controlplane.Invitation, error)
	AddMemberTo(ctx context.Context, actor controlplane.Actor, ws waypost.WorkspaceID,
		n controlplane.NewMember) (controlplane.Member, controlplane.Invitation, error)
	InviteMember(ctx context.Context, actor controlplane.Actor, user int64) (controlplane.Member, controlplane.Invitation, error)
	ChangeMember(ctx context.Context, actor controlplane.Actor, user int64, c controlplane.MemberChange) (controlplane.Member, error)
	RemoveMember(ctx context.Context, actor controlplane.Actor, user int64) error
	Accounts(ctx context.Context, actor controlplane.Actor, email string, limit int,
		cursor string) (all []controlplane.AccountInfo, next string, err error)
	ChangeAccount(ctx context.Context, actor controlplane.Actor, user int64, c controlplane.AccountChange) (controlplane.AccountInfo, error)
	InviteAccount(ctx context.Context, actor controlplane.Actor, user int64) (controlplane.AccountInfo, controlplane.Invitation, error)
	ResetSecondFactor(ctx context.Context, actor controlplane.Actor, user int64) (controlplane.AccountInfo, error)
	Audit(ctx context.Context, actor controlplane.Actor, all bool, limit int,
		cursor string) (entries []controlplane.AuditEntry, next string, err error)
	NoteRefusals(ctx context.Context, by controlplane.Actor, r controlplane.RefusedRequests) error
}

// workspacesAPI serves workspaces.
type workspacesAPI struct{ workspaces Workspaces }

func registerWorkspaces(rt *router, a *workspacesAPI) {
	admin := []controlplane.Scope{controlplane.ScopeAdmin}
	handle(rt, operation{
		id: "get-workspace", method: http.MethodGet, path: api.PathWorkspace, summary: "Get the workspace in which the request acts",
		scopes: []controlplane.Scope{controlplane.ScopeLinksRead, controlplane.ScopeAnalytics}, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, _ *struct{}) (*body[api.Workspace], error) {
		w, err := a.workspaces.Workspace(ctx, actorFrom(ctx))
		out := bodyOf(workspaceOf(&w))
		out.Body.Links = &w.Links
		return out, err
	})
	handle(rt, operation{
		id: "change-workspace", method: http.MethodPatch, path: api.PathWorkspace, summary: "Change the name or settings of the workspace",
		scopes: admin, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *body[api.WorkspaceChange]) (*body[api.Workspace], error) {
		w, err := a.workspaces.ChangeWorkspace(ctx, actorFrom(ctx), workspaceChangeOf(&in.Body))
		return bodyOf(workspaceOf(&w)), err
	})
	handle(rt, operation{
		id: "list-workspaces", method: http.MethodGet, path: api.PathAllWorkspaces, summary: "List all workspaces", scopes: admin,
	}, a.list)
	handle(rt, operation{
		id: "create-workspace", method: http.MethodPost, path: api.PathAllWorkspaces, summary: "Create a workspace",
		status: http.StatusCreated, scopes: admin, problems: []int{http.StatusConflict},
	}, func(ctx context.Context, in *body[api.NewWorkspace]) (*body[api.Workspace], error) {
		w, err := a.workspaces.CreateWorkspace(ctx, actorFrom(ctx), controlplane.NewWorkspace{Slug: in.Body.Slug, Name: in.Body.Name})
		return bodyOf(workspaceOf(&w)), err
	})
	handle(rt, operation{
		id: "change-any-workspace", method: http.MethodPatch, path: api.PathAllWorkspaces + "/{id}",
		summary: "Change the name or settings of any workspace", scopes: admin, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *bodyByID[api.WorkspaceChange]) (*body[api.Workspace], error) {
		w, err := a.workspaces.ChangeWorkspaceOf(ctx, actorFrom(ctx), waypost.WorkspaceID(in.ID), workspaceChangeOf(&in.Body))
		return bodyOf(workspaceOf(&w)), err
	})
	handle(rt, operation{
		id: "delete-workspace", method: http.MethodDelete, path: api.PathAllWorkspaces + "/{id}", summary: "Delete a workspace",
		description: deleteWorkspaceDoc, scopes: admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *byID) (*body[api.Workspace], error) {
		w, err := a.workspaces.DeleteWorkspace(ctx, actorFrom(ctx), waypost.WorkspaceID(in.ID))
		return bodyOf(workspaceOf(&w)), err
	})
}

const deleteWorkspaceDoc = "Its keys and sessions end at once. Its links become tombstones, which answer 410 on every edge, a thousand at a time; " +
	"then the workspace is closed. Its slug and its codes are never issued again."

func (a *workspacesAPI) list(ctx context.Context, in *paging) (*body[api.WorkspacePage], error) {
	all, next, err := a.workspaces.Workspaces(ctx, actorFrom(ctx), in.Limit, in.Cursor)
	if err != nil {
		return nil, err
	}
	return bodyOf(api.WorkspacePage{Workspaces: mapped(all, workspaceOf), Next: next}), nil
}

func workspaceChangeOf(c *api.WorkspaceChange) controlplane.WorkspaceChange {
	change := controlplane.WorkspaceChange{Name: c.Name}
	if c.Settings != nil {
		change.Dedupe, change.Events, change.EventsSample = c.Settings.Dedupe, c.Settings.Events, c.Settings.EventsSample
		change.UTM, change.TimeZone = c.Settings.UTM, c.Settings.TimeZone
		if c.Settings.UTMTemplates != nil {
			templates := make([]controlplane.UTMTemplate, len(*c.Settings.UTMTemplates))
			for i, t := range *c.Settings.UTMTemplates {
				templates[i] = controlplane.UTMTemplate{Tag: t.Tag, Parameters: make([]controlplane.UTMParameter, len(t.Parameters))}
				for j, p := range t.Parameters {
					templates[i].Parameters[j] = controlplane.UTMParameter(p)
				}
			}
			change.UTMTemplates = &templates
		}
	}
	return change
}

func utmTemplatesOf(all []controlplane.UTMTemplate) []api.UTMTemplate {
	shown := make([]api.UTMTemplate, len(all))
	for i, t := range all {
		shown[i] = api.UTMTemplate{Tag: t.Tag, Parameters: make([]api.UTMParameter, len(t.Parameters))}
		for j, p := range t.Parameters {
			shown[i].Parameters[j] = api.UTMParameter(p)
		}
	}
	return shown
}

func workspaceOf(w *controlplane.Workspace) api.Workspace {
	state := "active"
	switch {
	case !w.ClosedAt.IsZero():
		state = "closed"
	case !w.DeletedAt.IsZero():
		state = "closing"
	}
	return api.Workspace{
		ID: int64(w.ID), Slug: w.Slug, Name: w.Name, State: state, CreatedAt: w.CreatedAt, DeletedAt: moment(w.DeletedAt),
		Settings: api.WorkspaceSettings{
			Dedupe: w.Settings.Dedupe, Events: w.Settings.Events, EventsSample: w.Settings.EventsSample, UTM: w.Settings.UTM,
			UTMTemplates: utmTemplatesOf(w.Settings.UTMTemplates),
			TimeZone:     w.Settings.TimeZone,
		},
	}
}
