package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost/controlplane"
)

type accountsInput struct {
	Paging
	Email string `query:"email" maxLength:"254" doc:"The account of this address alone."`
}

type accountsOutput struct{ Body accountList }

type accountList struct {
	Users      []account `json:"users" nullable:"false" doc:"By id."`
	NextCursor string    `json:"next_cursor" doc:"Empty on the last page."`
}

type account struct {
	ID           int64         `json:"id"`
	Email        string        `json:"email"`
	Name         string        `json:"name"`
	Home         string        `json:"home" doc:"Slug of the workspace that looks after the account; empty when operators do."`
	Disabled     bool          `json:"disabled"`
	HasPassword  bool          `json:"has_password" doc:"Without one nobody can sign in until an invitation is accepted."`
	InvitedUntil *time.Time    `json:"invited_until" nullable:"true" doc:"Until when an invitation is good that nobody has accepted. Null: there is none."`
	CreatedAt    time.Time     `json:"created_at"`
	Workspaces   []affiliation `json:"workspaces" nullable:"false" doc:"All that the user is in."`
	Invitation   *invitation   `json:"invitation,omitempty" doc:"In the answer to the call that made it."`
}

type accountOutput struct{ Body account }

type changeAccountInput struct {
	ID   int64 `path:"id" minimum:"1"`
	Body body[AccountChange]
}

// AccountChange is what is to change of an account. Null is as good as leaving a field out. Its name is exported for huma,
// which passes over embedded fields that are not.
type AccountChange struct {
	Name     *string `json:"name,omitempty" nullable:"true" minLength:"1" maxLength:"100"`
	Disabled *bool   `json:"disabled,omitempty" nullable:"true" doc:"Ends the user's sessions; the keys can be used again once the user is enabled."`
	Password *string `json:"password,omitempty" nullable:"true" minLength:"12" maxLength:"256" format:"password" writeOnly:"true" doc:"For operators alone. Ends the user's sessions."`
}

func (c *AccountChange) change() controlplane.AccountChange {
	return controlplane.AccountChange{Name: c.Name, Disabled: c.Disabled, Password: c.Password}
}

func (s *server) registerAccounts() {
	admin := s.needs(controlplane.ScopeAdmin)
	handle(s, huma.Operation{
		OperationID: "list-accounts", Method: http.MethodGet, Path: "/api/admin/users",
		Summary: "List the users of all workspaces", Security: admin, Responses: problems(400, 401, 403, 422),
	}, s.listAccounts)
	handle(s, withBody(huma.Operation{
		OperationID: "change-account", Method: http.MethodPatch, Path: "/api/admin/users/{id}",
		Summary: "Change any user's name or password, or disable or enable the account", Security: admin,
		Responses: problems(400, 401, 403, 404, 408, 409, 413, 415, 422),
	}, maxBody), s.changeAccount)
	handle(s, huma.Operation{
		OperationID: "invite-account", Method: http.MethodPost, Path: "/api/admin/users/{id}/invitation", DefaultStatus: http.StatusCreated,
		Summary: "Let any user set a new password, instead of the old one", Security: admin, Description: inviteDoc,
		Responses: problems(401, 403, 404, 409, 422),
	}, s.inviteAccount)
}

func (s *server) listAccounts(ctx context.Context, in *accountsInput) (*accountsOutput, error) {
	all, next, err := s.access.Accounts(ctx, actorFrom(ctx), in.Email, in.Limit, in.Cursor)
	if err != nil {
		return nil, err
	}
	out := &accountsOutput{Body: accountList{Users: make([]account, len(all)), NextCursor: next}}
	for i := range all {
		out.Body.Users[i] = showAccount(&all[i])
	}
	return out, nil
}

func (s *server) changeAccount(ctx context.Context, in *changeAccountInput) (*accountOutput, error) {
	c, err := decode[AccountChange](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	a, err := s.access.ChangeAccount(ctx, actorFrom(ctx), in.ID, c.change())
	if err != nil {
		return nil, err
	}
	return &accountOutput{Body: showAccount(&a)}, nil
}

func (s *server) inviteAccount(ctx context.Context, in *userInput) (*accountOutput, error) {
	a, i, err := s.access.InviteAccount(ctx, actorFrom(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	out := &accountOutput{Body: showAccount(&a)}
	out.Body.Invitation = showInvitation(i)
	return out, nil
}

func showAccount(a *controlplane.AccountInfo) account {
	return account{
		ID: a.UserID, Email: a.Email, Name: a.Name, Home: a.Home, Disabled: a.Disabled, HasPassword: a.HasPassword,
		InvitedUntil: moment(a.InvitedUntil), CreatedAt: a.CreatedAt.UTC(), Workspaces: showAffiliations(a.Affiliations),
	}
}
