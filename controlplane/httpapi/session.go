package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"waypost"
	"waypost/controlplane"
)

type signInInput struct {
	Body body[signIn]
}

type signIn struct {
	Email    string `json:"email" minLength:"1" maxLength:"254" example:"ann@example.com"`
	Password string `json:"password" minLength:"1" maxLength:"256" format:"password" writeOnly:"true"`
	Cookie   bool   `json:"cookie,omitempty" doc:"Give the token as a cookie that scripts cannot read, and not in the answer."`
}

type signInOutput struct {
	SetCookie string `header:"Set-Cookie" doc:"The session, when a cookie was asked for."`
	Body      session
}

type session struct {
	Token      string        `json:"token,omitempty" doc:"To be sent as Authorization: Bearer. It is shown once; left out when a cookie holds it."`
	ExpiresAt  time.Time     `json:"expires_at" doc:"When the session ends unless it is used; every use prolongs it to twelve hours from then, thirty days at most."`
	User       user          `json:"user"`
	Workspaces []affiliation `json:"workspaces" nullable:"false"`
}

type user struct {
	ID    int64  `json:"id"`
	Email string `json:"email"`
	Name  string `json:"name"`
}

type affiliation struct {
	Slug string `json:"slug" doc:"What the header Waypost-Workspace names."`
	Name string `json:"name"`
	Role string `json:"role" enum:"admin,member,viewer"`
}

type signOutOutput struct {
	SetCookie string `header:"Set-Cookie" doc:"Takes the cookie away."`
}

func (s *server) registerSession() {
	handle(s, withBody(huma.Operation{
		OperationID:   "sign-in",
		Method:        http.MethodPost,
		Path:          "/api/v1/session",
		Summary:       "Begin a session",
		Description:   "Takes as long for an address that is not known as for a password that is wrong. 429 when too many attempts from the network have failed, or are under way.",
		DefaultStatus: http.StatusCreated,
		Responses:     problems(400, 401, 403, 408, 413, 415, 422, 429),
		Middlewares:   huma.Middlewares{s.fromOwnPages},
	}, maxBody), s.signIn)

	handle(s, huma.Operation{
		OperationID:   "sign-out",
		Method:        http.MethodDelete,
		Path:          "/api/v1/session",
		Summary:       "End the session",
		DefaultStatus: http.StatusNoContent,
		Security:      s.needsAnybody(),
		Responses:     problems(401, 403, 422),
	}, s.signOut)
}

// fromOwnPages keeps pages of other origins from signing somebody in.
func (s *server) fromOwnPages(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	if err := s.sameOrigin(ctx.Context(), r, true); err != nil {
		s.refuse(ctx, w, err)
		return
	}
	next(ctx)
}

func (s *server) signIn(ctx context.Context, in *signInInput) (*signInOutput, error) {
	asked, err := decode[signIn](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	var got controlplane.SignedIn
	err = s.judge(ctx, presented{kind: "password", from: clientFrom(ctx)}, func(ctx context.Context) (err error) {
		got, err = s.access.SignIn(ctx, asked.Email, asked.Password)
		return err
	})
	if waypost.CodeOf(err) == waypost.EUnauthorized {
		return nil, challenge(err, "")
	}
	if err != nil {
		return nil, err
	}
	out := &signInOutput{Body: session{
		Token: got.Token, ExpiresAt: got.ExpiresAt.UTC(), User: showUser(&got.Account), Workspaces: showAffiliations(got.Account.Affiliations),
	}}
	if asked.Cookie {
		out.Body.Token = ""
		out.SetCookie = cookie(got.Token, int(controlplane.SessionMost/time.Second))
	}
	return out, nil
}

func (s *server) signOut(ctx context.Context, _ *struct{}) (*signOutOutput, error) {
	if err := s.access.SignOut(ctx, actorFrom(ctx)); err != nil {
		return nil, err
	}
	return &signOutOutput{SetCookie: cookie("", -1)}, nil
}

// cookie is the header that sets the session's cookie. It may outlive the session.
func cookie(token string, maxAge int) string {
	c := http.Cookie{
		Name: sessionCookie, Value: token, Path: "/", MaxAge: maxAge,
		Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	return c.String()
}

func showUser(a *controlplane.Account) user { return user{ID: a.UserID, Email: a.Email, Name: a.Name} }

func showAffiliations(all []controlplane.Affiliation) []affiliation {
	shown := make([]affiliation, len(all))
	for i, a := range all {
		shown[i] = affiliation{Slug: a.Slug, Name: a.Name, Role: string(a.Role)}
	}
	return shown
}
