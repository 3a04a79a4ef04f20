package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// Access authenticates the senders of requests, and manages sessions and API keys.
type Access interface {
	Authenticate(ctx context.Context, key string) (controlplane.Actor, error)
	AuthenticateSession(ctx context.Context, token, workspace string) (controlplane.Actor, error)
	SignIn(ctx context.Context, c *api.SignIn, by controlplane.Browser) (controlplane.SignedIn, error)
	AcceptInvitation(ctx context.Context, token, password string) (controlplane.Account, error)
	SignOut(ctx context.Context, actor controlplane.Actor) error
	Sessions(ctx context.Context, actor controlplane.Actor) (api.Sessions, error)
	EndSession(ctx context.Context, actor controlplane.Actor, id int64) error
	EndOtherSessions(ctx context.Context, actor controlplane.Actor) error
	Me(ctx context.Context, actor controlplane.Actor) (controlplane.Me, error)
	ChangeMe(ctx context.Context, actor controlplane.Actor, c api.MeChange) (controlplane.Me, error)
	SecondFactors
	APIKeys(ctx context.Context, actor controlplane.Actor, limit int, cursor string) (api.APIKeyPage, error)
	CreateAPIKey(ctx context.Context, actor controlplane.Actor, n api.NewAPIKey, r *controlplane.KeyRequest) (controlplane.MadeKey, error)
	RotateAPIKey(ctx context.Context, actor controlplane.Actor, id int64, grace time.Duration,
		r *controlplane.KeyRequest) (controlplane.MadeKey, error)
	RevokeAPIKey(ctx context.Context, actor controlplane.Actor, id int64) error
}

// sessionAPI serves sessions and the account of the user who has signed in.
type sessionAPI struct {
	access Access
	auth   *authenticator
}

type signInOutput struct {
	SetCookie string `header:"Set-Cookie" doc:"The session, when a cookie was requested."`
	Body      api.Session
}

type signOutOutput struct {
	SetCookie string `header:"Set-Cookie" doc:"Removes the cookie."`
}

func registerSession(rt *router, a *sessionAPI) {
	handle(rt, operation{
		id: "sign-in", method: http.MethodPost, path: api.PathSession, summary: "Begin a session", status: http.StatusCreated,
		description: "Takes an address with its password, or the token of a sign-in link, and a code if the user has a second factor. " +
			"A 401 of the type urn:waypost:problem:second-factor-required asks for the code, and uses up no link. Takes as long for an unknown address as for a wrong password. " +
			"429: too many attempts from the network, or for the account, have failed, or are under way.",
		problems: []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}, ownPages: true,
	}, a.signIn)
	handle(rt, operation{
		id: "sign-out", method: http.MethodDelete, path: api.PathSession, summary: "End the session", signed: true,
	}, func(ctx context.Context, _ *struct{}) (*signOutOutput, error) {
		return &signOutOutput{SetCookie: cookie("", -1)}, a.access.SignOut(ctx, actorFrom(ctx))
	})
	handle(rt, operation{
		id: "me", method: http.MethodGet, path: api.PathMe, summary: "Get the sender of the request, and its permissions", signed: true,
	}, a.me)
	handle(rt, operation{
		id: "change-me", method: http.MethodPatch, path: api.PathMe, summary: "Change the name or password of the user who has signed in", signed: true,
	}, a.changeMe)
	handle(rt, operation{
		id: "list-sessions", method: http.MethodGet, path: api.PathSessions, summary: "List the sessions of the user who has signed in", signed: true,
	}, func(ctx context.Context, _ *struct{}) (*body[api.Sessions], error) {
		return answered(a.access.Sessions(ctx, actorFrom(ctx)))
	})
	handle(rt, operation{
		id: "end-other-sessions", method: http.MethodDelete, path: api.PathSessions,
		summary: "End all other sessions of the user who has signed in", signed: true,
	}, func(ctx context.Context, _ *struct{}) (*struct{}, error) {
		return &struct{}{}, a.access.EndOtherSessions(ctx, actorFrom(ctx))
	})
	handle(rt, operation{
		id: "end-session", method: http.MethodDelete, path: api.PathSessions + "/{id}",
		summary: "End a session of the user who has signed in", signed: true, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *byID) (*struct{}, error) {
		return &struct{}{}, a.access.EndSession(ctx, actorFrom(ctx), in.ID)
	})
	handle(rt, operation{
		id: "accept-invitation", method: http.MethodPost, path: api.PathInvitation, summary: "Set the password of an account, with an invitation",
		problems: []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}, ownPages: true,
	}, a.acceptInvitation)
}

func (a *sessionAPI) signIn(ctx context.Context, in *body[api.SignIn]) (*signInOutput, error) {
	var got controlplane.SignedIn
	c := &in.Body
	switch {
	case c.SignInToken == "" && c.Email == "":
		return nil, invalid("body.email", "is required, unless there is a sign_in_token")
	case c.SignInToken == "" && c.Password == "":
		return nil, invalid("body.password", "is required, unless there is a sign_in_token")
	case c.SignInToken != "" && (c.Email != "" || c.Password != ""):
		return nil, invalid("body.sign_in_token", "goes without email and password")
	}
	account, _ := controlplane.ParseEmail(in.Body.Email) // "": of no account
	by := controlplane.Browser{Address: callFrom(ctx).client, UserAgent: callFrom(ctx).request.UserAgent()}
	p := presented{kind: "password", account: account, from: by.Address}
	if c.Code != "" {
		if p.codeOf = account; c.SignInToken != "" {
			p.codeOf = c.SignInToken
		}
	}
	err := a.withPassword(ctx, p, func(ctx context.Context) (err error) {
		got, err = a.access.SignIn(ctx, c, by)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &signInOutput{Body: api.Session{
		Token: got.Token, ExpiresAt: got.ExpiresAt.UTC(), User: userOf(&got.Account), Workspaces: mapped(got.Account.Affiliations, affiliationOf),
	}}
	if in.Body.Cookie {
		out.Body.Token = ""
		out.SetCookie = cookie(got.Token, int(controlplane.SessionMost/time.Second))
	}
	return out, nil
}

func (a *sessionAPI) acceptInvitation(ctx context.Context, in *body[api.AcceptInvitation]) (*body[api.User], error) {
	var account controlplane.Account
	err := a.withPassword(ctx, presented{kind: "password", from: callFrom(ctx).client}, func(ctx context.Context) (err error) {
		account, err = a.access.AcceptInvitation(ctx, in.Body.Token, in.Body.Password)
		return err
	})
	if err != nil {
		return nil, err
	}
	return bodyOf(userOf(&account)), nil
}

// withPassword checks the password of an account, a link or an invitation, within the
// limits on guesses.
func (a *sessionAPI) withPassword(ctx context.Context, p presented, check func(context.Context) error) error {
	err := a.auth.checkCredential(ctx, p, check)
	if code := waypost.CodeOf(err); code == waypost.EUnauthorized || code == waypost.ESecondFactor {
		return challenge(err, "")
	}
	return err
}

func (a *sessionAPI) me(ctx context.Context, _ *struct{}) (*body[api.Me], error) {
	m, err := a.access.Me(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return bodyOf(meOf(&m)), nil
}

func (a *sessionAPI) changeMe(ctx context.Context, in *body[api.MeChange]) (*body[api.Me], error) {
	var m controlplane.Me
	change := func(ctx context.Context) (err error) {
		m, err = a.access.ChangeMe(ctx, actorFrom(ctx), in.Body)
		return err
	}
	var err error
	if in.Body.Password == nil {
		err = change(ctx)
	} else {
		err = a.prove(ctx, change)
	}
	if err != nil {
		return nil, err
	}
	return bodyOf(meOf(&m)), nil
}

// prove checks the password or code of a user who has signed in: the thief of a session
// guesses no faster than others.
func (a *sessionAPI) prove(ctx context.Context, check func(context.Context) error) error {
	me, err := a.access.Me(ctx, actorFrom(ctx))
	if err != nil {
		return err
	}
	p := presented{kind: "password", from: callFrom(ctx).client}
	if me.Account != nil {
		p.account, p.codeOf = me.Account.Email, me.Account.Email
	}
	var outcome error
	err = a.auth.checkCredential(ctx, p, func(ctx context.Context) error {
		if outcome = check(ctx); errors.Is(outcome, controlplane.ErrPassword) {
			return waypost.WrapError(waypost.EUnauthorized, "wrong", outcome)
		}
		return outcome
	})
	if outcome != nil {
		return outcome
	}
	return err
}

// cookie returns the header that sets the session's cookie. It may outlive the session.
func cookie(token string, maxAge int) string {
	c := http.Cookie{
		Name: sessionCookie, Value: token, Path: "/", MaxAge: maxAge,
		Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	return c.String()
}

func meOf(m *controlplane.Me) api.Me {
	a := &m.Actor
	shown := api.Me{Credential: "none", Scopes: []string{}, Workspaces: []api.Affiliation{}, Operator: a.CheckOperator() == nil}
	switch {
	case a.SessionID != 0:
		shown.Credential = "session"
	case a.KeyID != 0:
		shown.Credential, shown.Key = "key", &api.MeKey{ID: a.KeyID, Name: a.Name}
	}
	if m.Account != nil {
		u := userOf(m.Account)
		shown.User, shown.Workspaces = &u, mapped(m.Account.Affiliations, affiliationOf)
	}
	if m.Factor != nil {
		shown.HasPassword = &m.HasPassword
		shown.SecondFactor = m.Factor
	}
	if a.Workspace != 0 {
		shown.Workspace = &api.MeWorkspace{ID: int64(a.Workspace), Slug: a.Slug, Role: string(a.Role), TimeZone: m.TimeZone}
	}
	for _, scope := range controlplane.Scopes() {
		if a.Can(scope) {
			shown.Scopes = append(shown.Scopes, string(scope))
		}
	}
	return shown
}

func userOf(a *controlplane.Account) api.User {
	return api.User{ID: a.UserID, Email: a.Email, Name: a.Name}
}

func affiliationOf(a *controlplane.Affiliation) api.Affiliation {
	return api.Affiliation{Slug: a.Slug, Name: a.Name, Role: string(a.Role)}
}
