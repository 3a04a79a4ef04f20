package httpapi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"waypost/api"
	"waypost/controlplane"
)

// paging asks for a page of a list.
type paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"How many at most."`
	Cursor string `query:"cursor" maxLength:"64" doc:"The next_cursor of the previous page. Default: the first page."`
}

// repeatableKey is [repeatable] for requests with a secret in the answer, which is not
// kept.
type repeatableKey struct {
	IdempotencyKey string `header:"Idempotency-Key" minLength:"1" maxLength:"255" pattern:"^[!-~]([ -~]*[!-~])?$" patternDescription:"printable ASCII characters without a space at the ends" doc:"A name for this request, of 1 to 255 printable ASCII characters, such as a UUID. The same request with the same body, sent again within 24 hours, creates no second key, but gets the first one and Idempotency-Replayed: true; the text of the key is not returned again."`
}

// request identifies a request by its sender and its content.
func (r *repeatableKey) request(ctx context.Context, content string) *controlplane.KeyRequest {
	if r.IdempotencyKey == "" {
		return nil
	}
	actor := actorFrom(ctx)
	return &controlplane.KeyRequest{Key: r.IdempotencyKey, Hash: sha256.Sum256(fmt.Appendf(nil, "%d %d %s", actor.UserID,
		actor.KeyID, content))}
}

type newAPIKeyInput struct {
	repeatableKey
	Body api.NewAPIKey
	Raw  []byte
}

type apiKeyOutput struct {
	Replayed string `header:"Idempotency-Replayed" doc:"\"true\" when the request was answered before: the key is the one that it created."`
	Body     api.APIKey
}

type rotateKeyInput struct {
	repeatableKey
	ID    int64 `path:"id" minimum:"1"`
	Grace int64 `query:"grace" minimum:"0" maximum:"604800" default:"0" doc:"For how many seconds the old key stays valid."`
}

func registerAPIKeys(rt *router, access Access) {
	const which = "With the scope admin: all keys of the workspace. For other users: their own."
	handle(rt, operation{
		id: "list-keys", method: http.MethodGet, path: api.PathAPIKeys, summary: "List API keys", description: which, signed: true,
	}, func(ctx context.Context, in *paging) (*body[api.APIKeyPage], error) {
		return answered(access.APIKeys(ctx, actorFrom(ctx), in.Limit, in.Cursor))
	})
	handle(rt, operation{
		id: "create-key", method: http.MethodPost, path: api.PathAPIKeys, summary: "Create an API key", description: which, signed: true,
		status: http.StatusCreated, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *newAPIKeyInput) (*apiKeyOutput, error) {
		return madeKey(access.CreateAPIKey(ctx, actorFrom(ctx), in.Body, in.request(ctx, string(in.Raw))))
	})
	handle(rt, operation{
		id: "rotate-key", method: http.MethodPost, path: api.PathAPIKeys + "/{id}/rotate", summary: "Create an API key that replaces another",
		description: which, signed: true, status: http.StatusCreated, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *rotateKeyInput) (*apiKeyOutput, error) {
		request := in.request(ctx, fmt.Sprint(in.ID, in.Grace))
		return madeKey(access.RotateAPIKey(ctx, actorFrom(ctx), in.ID, time.Duration(in.Grace)*time.Second, request))
	})
	handle(rt, operation{
		id: "revoke-key", method: http.MethodDelete, path: api.PathAPIKeys + "/{id}",
		summary:     "Revoke an API key, on all control planes within a second",
		description: which, signed: true, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *byID) (*struct{}, error) {
		return &struct{}{}, access.RevokeAPIKey(ctx, actorFrom(ctx), in.ID)
	})
}

func madeKey(k controlplane.MadeKey, err error) (*apiKeyOutput, error) {
	out := &apiKeyOutput{Body: k.APIKey}
	if k.Before {
		out.Replayed = "true"
	}
	return out, err
}
