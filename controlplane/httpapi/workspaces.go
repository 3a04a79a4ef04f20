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
	Workspace(ctx context.Context, actor controlplane.Actor) (api.Workspace, error)
	ChangeWorkspace(ctx context.Context, actor controlplane.Actor, c api.WorkspaceChange) (api.Workspace, error)
	Workspaces(ctx context.Context, actor controlplane.Actor, limit int, cursor string) (api.WorkspacePage, error)
	CreateWorkspace(ctx context.Context, actor controlplane.Actor, n api.NewWorkspace) (api.Workspace, error)
	ChangeWorkspaceOf(ctx context.Context, actor controlplane.Actor, ws waypost.WorkspaceID, c api.WorkspaceChange) (api.Workspace, error)
	DeleteWorkspace(ctx context.Context, actor controlplane.Actor, ws waypost.WorkspaceID) (api.Workspace, error)
	Members(ctx context.Context, actor controlplane.Actor, limit int, cursor string) (api.MemberPage, error)
	Member(ctx context.Context, actor controlplane.Actor, user int64) (api.Member, error)
	AddMember(ctx context.Context, actor controlplane.Actor, n api.NewMember) (api.Member, error)
	AddMemberTo(ctx context.Context, actor controlplane.Actor, ws waypost.WorkspaceID, n api.NewMember) (api.Member, error)
	InviteMember(ctx context.Context, actor controlplane.Actor, user int64) (api.Member, error)
	ChangeMember(ctx context.Context, actor controlplane.Actor, user int64, c api.MemberChange) (api.Member, error)
	RemoveMember(ctx context.Context, actor controlplane.Actor, user int64) error
	Accounts(ctx context.Context, actor controlplane.Actor, email string, limit int, cursor string) (api.AccountPage, error)
	ChangeAccount(ctx context.Context, actor controlplane.Actor, user int64, c api.AccountChange) (api.Account, error)
	InviteAccount(ctx context.Context, actor controlplane.Actor, user int64) (api.Account, error)
	ResetSecondFactor(ctx context.Context, actor controlplane.Actor, user int64) (api.Account, error)
	Audit(ctx context.Context, actor controlplane.Actor, all bool, limit int, cursor string) (api.AuditPage, error)
	NoteRefusals(ctx context.Context, by controlplane.Actor, r controlplane.RefusedRequests) error
}

func registerWorkspaces(rt *router, all Workspaces) {
	admin := []controlplane.Scope{controlplane.ScopeAdmin}
	handle(rt, operation{
		id: "get-workspace", method: http.MethodGet, path: api.PathWorkspace, summary: "Get the workspace in which the request acts",
		scopes: []controlplane.Scope{controlplane.ScopeLinksRead, controlplane.ScopeAnalytics}, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, _ *struct{}) (*body[api.Workspace], error) {
		return answered(all.Workspace(ctx, actorFrom(ctx)))
	})
	handle(rt, operation{
		id: "change-workspace", method: http.MethodPatch, path: api.PathWorkspace, summary: "Change the name or settings of the workspace",
		scopes: admin, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *body[api.WorkspaceChange]) (*body[api.Workspace], error) {
		return answered(all.ChangeWorkspace(ctx, actorFrom(ctx), in.Body))
	})
	handle(rt, operation{
		id: "list-workspaces", method: http.MethodGet, path: api.PathAllWorkspaces, summary: "List all workspaces", scopes: admin,
	}, func(ctx context.Context, in *paging) (*body[api.WorkspacePage], error) {
		return answered(all.Workspaces(ctx, actorFrom(ctx), in.Limit, in.Cursor))
	})
	handle(rt, operation{
		id: "create-workspace", method: http.MethodPost, path: api.PathAllWorkspaces, summary: "Create a workspace",
		status: http.StatusCreated, scopes: admin, problems: []int{http.StatusConflict},
	}, func(ctx context.Context, in *body[api.NewWorkspace]) (*body[api.Workspace], error) {
		return answered(all.CreateWorkspace(ctx, actorFrom(ctx), in.Body))
	})
	handle(rt, operation{
		id: "change-any-workspace", method: http.MethodPatch, path: api.PathAllWorkspaces + "/{id}",
		summary: "Change the name or settings of any workspace", scopes: admin, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *bodyByID[api.WorkspaceChange]) (*body[api.Workspace], error) {
		return answered(all.ChangeWorkspaceOf(ctx, actorFrom(ctx), waypost.WorkspaceID(in.ID), in.Body))
	})
	handle(rt, operation{
		id: "delete-workspace", method: http.MethodDelete, path: api.PathAllWorkspaces + "/{id}", summary: "Delete a workspace",
		description: deleteWorkspaceDoc, scopes: admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *byID) (*body[api.Workspace], error) {
		return answered(all.DeleteWorkspace(ctx, actorFrom(ctx), waypost.WorkspaceID(in.ID)))
	})
}

const deleteWorkspaceDoc = "Its keys and sessions end at once. Its links become tombstones, which answer 410 on every edge, a thousand at a time; " +
	"then the workspace is closed. Its slug and its codes are never issued again."
