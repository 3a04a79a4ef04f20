package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

type meOutput struct{ Body me }

type me struct {
	Credential string        `json:"credential" enum:"session,key,none" doc:"What the request came with; none is for the development system."`
	User       *user         `json:"user,omitempty" doc:"Who has signed in, or owns the key; left out when nobody does."`
	Key        *meKey        `json:"key,omitempty"`
	Workspace  *meWorkspace  `json:"workspace,omitempty" doc:"In which the request acts; left out while it is not said which of several."`
	Scopes     []string      `json:"scopes" nullable:"false" doc:"What is allowed in that workspace."`
	Workspaces []affiliation `json:"workspaces" nullable:"false" doc:"All that the user is in."`
}

type meKey struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

type meWorkspace struct {
	ID   int64  `json:"id"`
	Slug string `json:"slug"`
	Role string `json:"role" doc:"Of the user; empty without one."`
}

type changeMeInput struct{ Body body[meChange] }

// meChange is what is to change. Null is as good as leaving a field out.
type meChange struct {
	Name            *string `json:"name,omitempty" nullable:"true" minLength:"1" maxLength:"100"`
	Password        *string `json:"password,omitempty" nullable:"true" minLength:"12" maxLength:"256" format:"password" writeOnly:"true" doc:"Ends all other sessions of the user."`
	CurrentPassword string  `json:"current_password,omitempty" maxLength:"256" format:"password" writeOnly:"true" doc:"Needed for a new password."`
}

func (s *server) registerMe() {
	handle(s, huma.Operation{
		OperationID: "me",
		Method:      http.MethodGet,
		Path:        "/api/v1/me",
		Summary:     "Who the request comes from, and what it may do",
		Security:    s.needsAnybody(),
		Responses:   problems(401, 403),
	}, s.me)

	handle(s, withBody(huma.Operation{
		OperationID: "change-me",
		Method:      http.MethodPatch,
		Path:        "/api/v1/me",
		Summary:     "Change the name or password of who has signed in",
		Security:    s.needsAnybody(),
		Responses:   problems(400, 401, 403, 408, 413, 415, 422),
	}, maxBody), s.changeMe)
}

func (s *server) me(ctx context.Context, _ *struct{}) (*meOutput, error) {
	m, err := s.access.Me(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return &meOutput{Body: showMe(&m)}, nil
}

func (s *server) changeMe(ctx context.Context, in *changeMeInput) (*meOutput, error) {
	c, err := decode[meChange](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	var m controlplane.Me
	change := func(ctx context.Context) (err error) {
		m, err = s.access.ChangeMe(ctx, actorFrom(ctx), controlplane.SelfChange{Name: c.Name, Password: c.Password, CurrentPassword: c.CurrentPassword})
		return err
	}
	if c.Password == nil {
		err = change(ctx)
	} else {
		err = s.prove(ctx, change)
	}
	if err != nil {
		return nil, err
	}
	return &meOutput{Body: showMe(&m)}, nil
}

// prove is judge for a password that goes with a session: who has stolen that guesses no
// faster than anybody else.
func (s *server) prove(ctx context.Context, check func(context.Context) error) error {
	var answer error
	err := s.judge(ctx, presented{kind: "password", from: clientFrom(ctx)}, func(ctx context.Context) error {
		if answer = check(ctx); errors.Is(answer, controlplane.ErrPassword) {
			return waypost.WrapError(waypost.EUnauthorized, "wrong", answer)
		}
		return answer
	})
	if answer != nil {
		return answer
	}
	return err
}

func showMe(m *controlplane.Me) me {
	a := &m.Actor
	shown := me{Credential: "none", Scopes: []string{}, Workspaces: []affiliation{}}
	switch {
	case a.SessionID != 0:
		shown.Credential = "session"
	case a.KeyID != 0:
		shown.Credential, shown.Key = "key", &meKey{ID: a.KeyID, Name: a.Name}
	}
	if m.Account != nil {
		u := showUser(m.Account)
		shown.User, shown.Workspaces = &u, showAffiliations(m.Account.Affiliations)
	}
	if a.Workspace != 0 {
		shown.Workspace = &meWorkspace{ID: int64(a.Workspace), Slug: a.Slug, Role: string(a.Role)}
	}
	for _, scope := range controlplane.Scopes() {
		if a.Can(scope) {
			shown.Scopes = append(shown.Scopes, string(scope))
		}
	}
	return shown
}
