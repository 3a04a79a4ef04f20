package httpapi

import (
	"context"
	"net/http"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// usersAPI serves the users of a workspace and, to operators, all accounts.
type usersAPI struct{ workspaces Workspaces }

type accountsInput struct {
	paging
	Email string `query:"email" maxLength:"254" doc:"Only the account of this address."`
}

const inviteDoc = "The old password is no longer valid, all sessions of the user end, and an earlier invitation is void. The user's API keys stay valid."

func registerUsers(rt *router, a *usersAPI) {
	admin := []controlplane.Scope{controlplane.ScopeAdmin}
	handle(rt, operation{
		id: "list-users", method: http.MethodGet, path: api.PathUsers, summary: "List the users of the workspace", scopes: admin,
	}, a.list)
	handle(rt, operation{
		id: "create-user", method: http.MethodPost, path: api.PathUsers, summary: "Create a user of the workspace",
		status: http.StatusCreated, scopes: admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *body[api.NewMember]) (*body[api.Member], error) {
		m, i, err := a.workspaces.AddMember(ctx, actorFrom(ctx), newMemberOf(&in.Body))
		return invited(&m, i), err
	})
	handle(rt, operation{
		id: "get-user", method: http.MethodGet, path: api.PathUsers + "/{id}", summary: "Get a user of the workspace",
		scopes: admin, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *byID) (*body[api.Member], error) {
		m, err := a.workspaces.Member(ctx, actorFrom(ctx), in.ID)
		return invited(&m, controlplane.Invitation{}), err
	})
	handle(rt, operation{
		id: "change-user", method: http.MethodPatch, path: api.PathUsers + "/{id}",
		summary:     "Change a user's role, name or password, or disable the account",
		description: "Only operators change the account, that is all except the role, of a user of several workspaces.",
		scopes:      admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, a.change)
	handle(rt, operation{
		id: "delete-user", method: http.MethodDelete, path: api.PathUsers + "/{id}", summary: "Remove a user from the workspace, with the user's keys",
		description: "The account ends, too, unless several workspaces share it.",
		scopes:      admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *byID) (*struct{}, error) {
		return &struct{}{}, a.workspaces.RemoveMember(ctx, actorFrom(ctx), in.ID)
	})
	handle(rt, operation{
		id: "invite-user", method: http.MethodPost, path: api.PathUsers + "/{id}/invitation", summary: "Let a user set a new password",
		description: inviteDoc, status: http.StatusCreated, scopes: admin, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *byID) (*body[api.Member], error) {
		m, i, err := a.workspaces.InviteMember(ctx, actorFrom(ctx), in.ID)
		return invited(&m, i), err
	})
	handle(rt, operation{
		id: "add-user-to-workspace", method: http.MethodPost, path: api.PathAllWorkspaces + "/{id}/users", summary: "Add a user to any workspace",
		description: "An address with an account keeps that account; leave out name and password in this case. From then on operators manage " +
			"the account. When another workspace than theirs managed it before, its password and sessions end and the answer has an " +
			"invitation, because otherwise its creator would get access, too.",
		status: http.StatusCreated, scopes: admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *bodyByID[api.NewMember]) (*body[api.Member], error) {
		m, i, err := a.workspaces.AddMemberTo(ctx, actorFrom(ctx), waypost.WorkspaceID(in.ID), newMemberOf(&in.Body))
		return invited(&m, i), err
	})
	handle(rt, operation{
		id: "list-accounts", method: http.MethodGet, path: api.PathAllUsers, summary: "List the users of all workspaces", scopes: admin,
	}, a.accounts)
	handle(rt, operation{
		id: "change-account", method: http.MethodPatch, path: api.PathAllUsers + "/{id}",
		summary: "Change any user's name or password, or disable or enable the account",
		scopes:  admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *bodyByID[api.AccountChange]) (*body[api.Account], error) {
		info, err := a.workspaces.ChangeAccount(ctx, actorFrom(ctx), in.ID, controlplane.AccountChange(in.Body))
		return bodyOf(accountOf(&info)), err
	})
	handle(rt, operation{
		id: "reset-second-factor", method: http.MethodDelete, path: api.PathAllUsers + "/{id}/second-factor",
		summary: "Turn off the second factor of any user, who has lost it",
		scopes:  admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, a.resetFactor)
	handle(rt, operation{
		id: "invite-account", method: http.MethodPost, path: api.PathAllUsers + "/{id}/invitation", summary: "Let any user set a new password",
		description: inviteDoc, status: http.StatusCreated, scopes: admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *byID) (*body[api.Account], error) {
		info, i, err := a.workspaces.InviteAccount(ctx, actorFrom(ctx), in.ID)
		out := bodyOf(accountOf(&info))
		out.Body.Invitation = invitationOf(i)
		return out, err
	})
}

func (a *usersAPI) resetFactor(ctx context.Context, in *byID) (*body[api.Account], error) {
	info, err := a.workspaces.ResetSecondFactor(ctx, actorFrom(ctx), in.ID)
	return bodyOf(accountOf(&info)), err
}

func (a *usersAPI) list(ctx context.Context, in *paging) (*body[api.MemberPage], error) {
	all, next, err := a.workspaces.Members(ctx, actorFrom(ctx), in.Limit, in.Cursor)
	if err != nil {
		return nil, err
	}
	return bodyOf(api.MemberPage{Users: mapped(all, memberOf), Next: next}), nil
}

func (a *usersAPI) change(ctx context.Context, in *bodyByID[api.MemberChange]) (*body[api.Member], error) {
	change := controlplane.MemberChange{AccountChange: controlplane.AccountChange(in.Body.AccountChange)}
	if in.Body.Role != nil {
		change.Role = new(controlplane.Role(*in.Body.Role))
	}
	m, err := a.workspaces.ChangeMember(ctx, actorFrom(ctx), in.ID, change)
	return invited(&m, controlplane.Invitation{}), err
}

func (a *usersAPI) accounts(ctx context.Context, in *accountsInput) (*body[api.AccountPage], error) {
	all, next, err := a.workspaces.Accounts(ctx, actorFrom(ctx), in.Email, in.Limit, in.Cursor)
	if err != nil {
		return nil, err
	}
	return bodyOf(api.AccountPage{Users: mapped(all, accountOf), Next: next}), nil
}

func newMemberOf(n *api.NewMember) controlplane.NewMember {
	return controlplane.NewMember{Email: n.Email, Name: n.Name, Role: controlplane.Role(n.Role), Password: n.Password}
}

// invited returns a member with an invitation, if there is one.
func invited(m *controlplane.Member, i controlplane.Invitation) *body[api.Member] {
	out := bodyOf(memberOf(m))
	out.Body.Invitation = invitationOf(i)
	return out
}

func memberOf(m *controlplane.Member) api.Member {
	return api.Member{
		ID: m.UserID, Email: m.Email, Name: m.Name, Role: string(m.Role), Disabled: m.Disabled, Shared: !m.Own, CreatedAt: m.CreatedAt.UTC(),
		HasPassword: m.HasPassword, InvitedUntil: moment(m.InvitedUntil),
	}
}

func accountOf(a *controlplane.AccountInfo) api.Account {
	return api.Account{
		ID: a.UserID, Email: a.Email, Name: a.Name, Home: a.Home, Disabled: a.Disabled, HasPassword: a.HasPassword,
		SecondFactor: a.SecondFactor, InvitedUntil: moment(a.InvitedUntil), CreatedAt: a.CreatedAt.UTC(),
		Workspaces: mapped(a.Affiliations, affiliationOf),
	}
}

func invitationOf(i controlplane.Invitation) *api.Invitation {
	if i.Token == "" {
		return nil
	}
	return &api.Invitation{Token: i.Token, ExpiresAt: i.ExpiresAt.UTC()}
}
