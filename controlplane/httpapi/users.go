package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost/controlplane"
)

type usersOutput struct{ Body userList }

type userList struct {
	Users      []member `json:"users" nullable:"false" doc:"By id."`
	NextCursor string   `json:"next_cursor" doc:"Empty on the last page."`
}

type member struct {
	ID        int64     `json:"id"`
	Email     string    `json:"email"`
	Name      string    `json:"name"`
	Role      string    `json:"role" enum:"admin,member,viewer"`
	Disabled  bool      `json:"disabled" doc:"Cannot sign in, and neither can the user's keys be used."`
	Shared    bool      `json:"shared" doc:"Operators look after the account, because it is in several workspaces, or was."`
	CreatedAt time.Time `json:"created_at" doc:"When the user came into the workspace."`

	HasPassword  bool       `json:"has_password" doc:"Without one nobody can sign in until an invitation is accepted."`
	InvitedUntil *time.Time `json:"invited_until" nullable:"true" doc:"Until when an invitation is good that nobody has accepted. Null: there is none."`

	Invitation *invitation `json:"invitation,omitempty" doc:"In the answer to the call that made it."`
}

type newUserInput struct{ Body body[newUser] }

type newUser struct {
	Email    string `json:"email" minLength:"3" maxLength:"254" example:"ann@example.com" doc:"What the user signs in with. No mail is sent there."`
	Name     string `json:"name,omitempty" maxLength:"100" doc:"Default: the address."`
	Role     string `json:"role" enum:"admin,member,viewer" doc:"A viewer reads, a member also creates and changes links, an admin does all."`
	Password string `json:"password,omitempty" maxLength:"256" format:"password" writeOnly:"true" doc:"For operators alone, at least 12 characters. Left out, the answer has an invitation, with which the account's owner sets it."`
}

type userInput struct {
	ID int64 `path:"id" minimum:"1"`
}

type userOutput struct{ Body member }

type changeUserInput struct {
	ID   int64 `path:"id" minimum:"1"`
	Body body[userChange]
}

// userChange is what is to change. Null is as good as leaving a field out.
type userChange struct {
	AccountChange
	Role *string `json:"role,omitempty" nullable:"true" enum:"admin,member,viewer"`
}

func (s *server) registerUsers() {
	admin := s.needs(controlplane.ScopeAdmin)
	handle(s, huma.Operation{
		OperationID: "list-users", Method: http.MethodGet, Path: "/api/v1/users",
		Summary: "List the users of the workspace", Security: admin, Responses: problems(400, 401, 403, 422),
	}, s.listUsers)
	handle(s, withBody(huma.Operation{
		OperationID: "create-user", Method: http.MethodPost, Path: "/api/v1/users", DefaultStatus: http.StatusCreated,
		Summary: "Make a user of the workspace", Security: admin, Responses: problems(400, 401, 403, 404, 408, 409, 413, 415, 422),
	}, maxBody), s.createUser)
	handle(s, huma.Operation{
		OperationID: "get-user", Method: http.MethodGet, Path: "/api/v1/users/{id}",
		Summary: "Find a user of the workspace", Security: admin, Responses: problems(401, 403, 404, 422),
	}, s.getUser)
	handle(s, withBody(huma.Operation{
		OperationID: "change-user", Method: http.MethodPatch, Path: "/api/v1/users/{id}",
		Summary: "Change a user's role, name or password, or disable the account", Security: admin,
		Description: "The account, which is all but the role, of a user who is in several workspaces is changed by operators only.",
		Responses:   problems(400, 401, 403, 404, 408, 409, 413, 415, 422),
	}, maxBody), s.changeUser)
	handle(s, huma.Operation{
		OperationID: "delete-user", Method: http.MethodDelete, Path: "/api/v1/users/{id}", DefaultStatus: http.StatusNoContent,
		Summary: "Take a user out of the workspace, with the user's keys", Security: admin,
		Description: "The account ends, too, unless it is shared between workspaces.",
		Responses:   problems(401, 403, 404, 409, 422),
	}, s.deleteUser)
}

func (s *server) listUsers(ctx context.Context, in *Paging) (*usersOutput, error) {
	all, next, err := s.access.Members(ctx, actorFrom(ctx), in.Limit, in.Cursor)
	if err != nil {
		return nil, err
	}
	out := &usersOutput{Body: userList{Users: make([]member, len(all)), NextCursor: next}}
	for i := range all {
		out.Body.Users[i] = showMember(&all[i])
	}
	return out, nil
}

func (s *server) createUser(ctx context.Context, in *newUserInput) (*userOutput, error) {
	n, err := decode[newUser](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	m, i, err := s.access.AddMember(ctx, actorFrom(ctx), n.wish())
	if err != nil {
		return nil, err
	}
	return showNewUser(&m, i), nil
}

func showNewUser(m *controlplane.Member, i controlplane.Invitation) *userOutput {
	out := &userOutput{Body: showMember(m)}
	out.Body.Invitation = showInvitation(i)
	return out
}

func (n *newUser) wish() controlplane.NewMember {
	return controlplane.NewMember{Email: n.Email, Name: n.Name, Role: controlplane.Role(n.Role), Password: n.Password}
}

func (s *server) getUser(ctx context.Context, in *userInput) (*userOutput, error) {
	m, err := s.access.Member(ctx, actorFrom(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return &userOutput{Body: showMember(&m)}, nil
}

func (s *server) changeUser(ctx context.Context, in *changeUserInput) (*userOutput, error) {
	c, err := decode[userChange](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	change := controlplane.MemberChange{AccountChange: c.change()}
	if c.Role != nil {
		change.Role = new(controlplane.Role(*c.Role))
	}
	m, err := s.access.ChangeMember(ctx, actorFrom(ctx), in.ID, change)
	if err != nil {
		return nil, err
	}
	return &userOutput{Body: showMember(&m)}, nil
}

func (s *server) deleteUser(ctx context.Context, in *userInput) (*struct{}, error) {
	return nil, s.access.RemoveMember(ctx, actorFrom(ctx), in.ID)
}

func showMember(m *controlplane.Member) member {
	return member{
		ID: m.UserID, Email: m.Email, Name: m.Name, Role: string(m.Role), Disabled: m.Disabled, Shared: !m.Own, CreatedAt: m.CreatedAt.UTC(),
		HasPassword: m.HasPassword, InvitedUntil: moment(m.InvitedUntil),
	}
}
