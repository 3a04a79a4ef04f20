package httpapi

import (
	"context"
	"net/http"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

type accountsInput struct {
	paging
	Email string `query:"email" maxLength:"254" doc:"Only the account of this address."`
}

const inviteDoc = "The old password is no longer valid, all sessions of the user end, and an earlier invitation is void. The user's API keys stay valid."

// registerUsers registers the users of a workspace and, for operators, all accounts.
func registerUsers(rt *router, all Workspaces) {
	admin := []controlplane.Scope{controlplane.ScopeAdmin}
	handle(rt, operation{
		id: "list-users", method: http.MethodGet, path: api.PathUsers, summary: "List the users of the workspace", scopes: admin,
	}, func(ctx context.Context, in *paging) (*body[api.MemberPage], error) {
		return answered(all.Members(ctx, actorFrom(ctx), in.Limit, in.Cursor))
	})
	handle(rt, operation{
		id: "create-user", method: http.MethodPost, path: api.PathUsers, summary: "Create a user of the workspace",
		status: http.StatusCreated, scopes: admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *body[api.NewMember]) (*body[api.Member], error) {
		return answered(all.AddMember(ctx, actorFrom(ctx), in.Body))
	})
	handle(rt, operation{
		id: "get-user", method: http.MethodGet, path: api.PathUsers + "/{id}", summary: "Get a user of the workspace",
		scopes: admin, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *byID) (*body[api.Member], error) {
		return answered(all.Member(ctx, actorFrom(ctx), in.ID))
	})
	handle(rt, operation{
		id: "change-user", method: http.MethodPatch, path: api.PathUsers + "/{id}",
		summary:     "Change a user's role, name or password, or disable the account",
		description: "Only operators change the account, that is all except the role, of a user of several workspaces.",
		scopes:      admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *bodyByID[api.MemberChange]) (*body[api.Member], error) {
		return answered(all.ChangeMember(ctx, actorFrom(ctx), in.ID, in.Body))
	})
	handle(rt, operation{
		id: "delete-user", method: http.MethodDelete, path: api.PathUsers + "/{id}", summary: "Remove a user from the workspace, with the user's keys",
		description: "The account ends, too, unless several workspaces share it.",
		scopes:      admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *byID) (*struct{}, error) {
		return &struct{}{}, all.RemoveMember(ctx, actorFrom(ctx), in.ID)
	})
	handle(rt, operation{
		id: "invite-user", method: http.MethodPost, path: api.PathUsers + "/{id}/invitation", summary: "Let a user set a new password",
		description: inviteDoc, status: http.StatusCreated, scopes: admin, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *byID) (*body[api.Member], error) {
		return answered(all.InviteMember(ctx, actorFrom(ctx), in.ID))
	})
	handle(rt, operation{
		id: "add-user-to-workspace", method: http.MethodPost, path: api.PathAllWorkspaces + "/{id}/users", summary: "Add a user to any workspace",
		description: "An address with an account keeps that account; leave out name and password in this case. From then on operators manage " +
			"the account. When another workspace than theirs managed it before, its password and sessions end and the answer has an " +
			"invitation, because otherwise its creator would get access, too.",
		status: http.StatusCreated, scopes: admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *bodyByID[api.NewMember]) (*body[api.Member], error) {
		return answered(all.AddMemberTo(ctx, actorFrom(ctx), waypost.WorkspaceID(in.ID), in.Body))
	})
	handle(rt, operation{
		id: "list-accounts", method: http.MethodGet, path: api.PathAllUsers, summary: "List the users of all workspaces", scopes: admin,
	}, func(ctx context.Context, in *accountsInput) (*body[api.AccountPage], error) {
		return answered(all.Accounts(ctx, actorFrom(ctx), in.Email, in.Limit, in.Cursor))
	})
	handle(rt, operation{
		id: "change-account", method: http.MethodPatch, path: api.PathAllUsers + "/{id}",
		summary: "Change any user's name or password, or disable or enable the account",
		scopes:  admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *bodyByID[api.AccountChange]) (*body[api.Account], error) {
		return answered(all.ChangeAccount(ctx, actorFrom(ctx), in.ID, in.Body))
	})
	handle(rt, operation{
		id: "reset-second-factor", method: http.MethodDelete, path: api.PathAllUsers + "/{id}/second-factor",
		summary: "Turn off the second factor of any user, who has lost it",
		scopes:  admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *byID) (*body[api.Account], error) {
		return answered(all.ResetSecondFactor(ctx, actorFrom(ctx), in.ID))
	})
	handle(rt, operation{
		id: "invite-account", method: http.MethodPost, path: api.PathAllUsers + "/{id}/invitation", summary: "Let any user set a new password",
		description: inviteDoc, status: http.StatusCreated, scopes: admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *byID) (*body[api.Account], error) {
		return answered(all.InviteAccount(ctx, actorFrom(ctx), in.ID))
	})
}
