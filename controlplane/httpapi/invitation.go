package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

// invitation is what an administrator hands over to the owner of an account.
type invitation struct {
	Token     string    `json:"token" doc:"With it the account's owner sets the password, once (POST /api/v1/invitation). It is not shown again."`
	ExpiresAt time.Time `json:"expires_at"`
}

func showInvitation(i controlplane.Invitation) *invitation {
	if i.Token == "" {
		return nil
	}
	return &invitation{Token: i.Token, ExpiresAt: i.ExpiresAt.UTC()}
}

type acceptInput struct{ Body body[acceptance] }

type acceptance struct {
	Token    string `json:"token" minLength:"1" maxLength:"256" writeOnly:"true"`
	Password string `json:"password" minLength:"12" maxLength:"256" format:"password" writeOnly:"true"`
}

type acceptOutput struct{ Body user }

const inviteDoc = "The old password is good no longer, all sessions of the user end, and an invitation that was made before is void. The user's API keys go on."

func (s *server) registerInvitation() {
	handle(s, withBody(huma.Operation{
		OperationID: "accept-invitation",
		Method:      http.MethodPost,
		Path:        "/api/v1/invitation",
		Summary:     "Set the password of the account that one was invited to",
		Responses:   problems(400, 401, 403, 408, 413, 415, 422, 429),
		Middlewares: huma.Middlewares{s.fromOwnPages},
	}, maxBody), s.acceptInvitation)

	handle(s, huma.Operation{
		OperationID: "invite-user", Method: http.MethodPost, Path: "/api/v1/users/{id}/invitation", DefaultStatus: http.StatusCreated,
		Summary: "Let a user set a new password, instead of the old one", Security: s.needs(controlplane.ScopeAdmin), Description: inviteDoc,
		Responses: problems(401, 403, 404, 422),
	}, s.inviteUser)
}

func (s *server) acceptInvitation(ctx context.Context, in *acceptInput) (*acceptOutput, error) {
	asked, err := decode[acceptance](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	var account controlplane.Account
	err = s.judge(ctx, presented{kind: "password", from: clientFrom(ctx)}, func(ctx context.Context) (err error) {
		account, err = s.access.AcceptInvitation(ctx, asked.Token, asked.Password)
		return err
	})
	if waypost.CodeOf(err) == waypost.EUnauthorized {
		return nil, challenge(err, "")
	}
	if err != nil {
		return nil, err
	}
	return &acceptOutput{Body: showUser(&account)}, nil
}

func (s *server) inviteUser(ctx context.Context, in *userInput) (*userOutput, error) {
	m, i, err := s.access.InviteMember(ctx, actorFrom(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return showNewUser(&m, i), nil
}
