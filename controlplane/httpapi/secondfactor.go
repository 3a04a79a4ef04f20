package httpapi

import (
	"context"
	"net/http"

	qr "github.com/piglig/go-qr"

	"waypost/api"
	"waypost/controlplane"
)

// SecondFactors manages the second factor of the user who has signed in: EForbidden
// without a session, controlplane.ErrPassword and controlplane.ErrCode for a wrong
// password or code, EConflict when the second factor is not in the state that is needed.
type SecondFactors interface {
	BeginSecondFactor(ctx context.Context, actor controlplane.Actor, password string) (api.NewSecondFactor, error)
	ConfirmSecondFactor(ctx context.Context, actor controlplane.Actor, code string) ([]string, error)
	EndSecondFactor(ctx context.Context, actor controlplane.Actor, password, code string) error
	RenewRecoveryCodes(ctx context.Context, actor controlplane.Actor, code string) ([]string, error)
}

func registerFactors(rt *router, a *sessionAPI) {
	problems := []int{http.StatusConflict}
	handle(rt, operation{
		id: "begin-second-factor", method: http.MethodPost, path: api.PathFactor, summary: "Get the secret of a second factor (TOTP), to be confirmed",
		description: "Sign-in does not ask for it before it is confirmed.", status: http.StatusCreated, signed: true, problems: problems,
	}, a.beginFactor)
	handle(rt, operation{
		id: "confirm-second-factor", method: http.MethodPut, path: api.PathFactor, summary: "Turn the second factor on, with its first code",
		signed: true, problems: problems,
	}, func(ctx context.Context, in *body[api.ConfirmSecondFactor]) (*body[api.RecoveryCodes], error) {
		return a.recoveryCodes(ctx, in.Body.Code, a.access.ConfirmSecondFactor)
	})
	handle(rt, operation{
		id: "renew-recovery-codes", method: http.MethodPost, path: api.PathFactor + "/recovery-codes", summary: "Replace the recovery codes",
		signed: true, problems: problems,
	}, func(ctx context.Context, in *body[api.RenewRecoveryCodes]) (*body[api.RecoveryCodes], error) {
		return a.recoveryCodes(ctx, in.Body.Code, a.access.RenewRecoveryCodes)
	})
	handle(rt, operation{
		id: "end-second-factor", method: http.MethodDelete, path: api.PathFactor, summary: "Turn the second factor off",
		signed: true, problems: problems,
	}, func(ctx context.Context, in *body[api.EndSecondFactor]) (*struct{}, error) {
		return &struct{}{}, a.prove(ctx, func(ctx context.Context) error {
			return a.access.EndSecondFactor(ctx, actorFrom(ctx), in.Body.CurrentPassword, in.Body.Code)
		})
	})
}

func (a *sessionAPI) beginFactor(ctx context.Context, in *body[api.BeginSecondFactor]) (*body[api.NewSecondFactor], error) {
	var made api.NewSecondFactor
	err := a.prove(ctx, func(ctx context.Context) (err error) {
		made, err = a.access.BeginSecondFactor(ctx, actorFrom(ctx), in.Body.CurrentPassword)
		return err
	})
	if err != nil {
		return nil, err
	}
	code, err := qr.EncodeText(made.URL, qr.Medium)
	if err != nil {
		return nil, err
	}
	made.QR = string(svgOf(code, &qrInput{Size: 256, Margin: 4, Dark: "000000", Light: "FFFFFF"}))
	return bodyOf(made), nil
}

// recoveryCodes returns the recovery codes that a call makes which needs a code.
func (a *sessionAPI) recoveryCodes(ctx context.Context, code string,
	call func(context.Context, controlplane.Actor, string) ([]string, error),
) (*body[api.RecoveryCodes], error) {
	var codes []string
	err := a.prove(ctx, func(ctx context.Context) (err error) {
		codes, err = call(ctx, actorFrom(ctx), code)
		return err
	})
	if err != nil {
		return nil, err
	}
	return bodyOf(api.RecoveryCodes{Codes: codes}), nil
}
