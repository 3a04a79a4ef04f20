package httpapi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// apiKeysAPI serves API keys.
type apiKeysAPI struct {
	access Access
	now    func() time.Time
}

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

func registerAPIKeys(rt *router, a *apiKeysAPI) {
	const which = "With the scope admin: all keys of the workspace. For other users: their own."
	handle(rt, operation{
		id: "list-keys", method: http.MethodGet, path: api.PathAPIKeys, summary: "List API keys", description: which, signed: true,
	}, a.list)
	handle(rt, operation{
		id: "create-key", method: http.MethodPost, path: api.PathAPIKeys, summary: "Create an API key", description: which, signed: true,
		status: http.StatusCreated, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, a.create)
	handle(rt, operation{
		id: "rotate-key", method: http.MethodPost, path: api.PathAPIKeys + "/{id}/rotate", summary: "Create an API key that replaces another",
		description: which, signed: true, status: http.StatusCreated, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, a.rotate)
	handle(rt, operation{
		id: "revoke-key", method: http.MethodDelete, path: api.PathAPIKeys + "/{id}",
		summary:     "Revoke an API key, on all control planes within a second",
		description: which, signed: true, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *byID) (*struct{}, error) {
		return &struct{}{}, a.access.RevokeAPIKey(ctx, actorFrom(ctx), in.ID)
	})
}

func (a *apiKeysAPI) list(ctx context.Context, in *paging) (*body[api.APIKeyPage], error) {
	all, next, err := a.access.APIKeys(ctx, actorFrom(ctx), in.Limit, in.Cursor)
	if err != nil {
		return nil, err
	}
	return bodyOf(api.APIKeyPage{Keys: mapped(all, apiKeyOf), Next: next}), nil
}

func (a *apiKeysAPI) create(ctx context.Context, in *newAPIKeyInput) (*apiKeyOutput, error) {
	n := controlplane.NewAPIKey{Name: in.Body.Name, Description: in.Body.Description}
	for _, scope := range in.Body.Scopes {
		n.Scopes = append(n.Scopes, controlplane.Scope(scope))
	}
	switch at, in := in.Body.ExpiresAt, in.Body.ExpiresInSeconds; {
	case at != nil && in != nil:
		return nil, waypost.Errorf(waypost.EInvalid, "give expires_at or expires_in_seconds, not both")
	case at != nil:
		n.ExpiresAt = *at
	case in != nil:
		n.ExpiresAt = a.now().Add(time.Duration(*in) * time.Second)
	}
	k, err := a.access.CreateAPIKey(ctx, actorFrom(ctx), n, in.request(ctx, string(in.Raw)))
	if err != nil {
		return nil, err
	}
	return madeKey(&k), nil
}

func (a *apiKeysAPI) rotate(ctx context.Context, in *rotateKeyInput) (*apiKeyOutput, error) {
	k, err := a.access.RotateAPIKey(ctx, actorFrom(ctx), in.ID, time.Duration(in.Grace)*time.Second, in.request(ctx,
		fmt.Sprint(in.ID, in.Grace)))
	if err != nil {
		return nil, err
	}
	return madeKey(&k), nil
}

func madeKey(k *controlplane.MadeKey) *apiKeyOutput {
	out := &apiKeyOutput{Body: apiKeyOf(&k.KeyInfo)}
	if out.Body.Key = k.Text; k.Before {
		out.Replayed = "true"
	}
	return out
}

func apiKeyOf(k *controlplane.KeyInfo) api.APIKey {
	shown := api.APIKey{
		ID: k.ID, Name: k.Name, Description: k.Description, Prefix: k.Prefix, Scopes: make([]string, len(k.Scopes)), OwnerEmail: k.OwnerEmail,
		OwnerID: known(k.Owner, k.Owner != 0), RotatedFrom: known(k.RotatedFrom, k.RotatedFrom != 0),
		CreatedAt: k.CreatedAt.UTC(), ExpiresAt: moment(k.ExpiresAt), LastUsedAt: moment(k.LastUsedAt),
	}
	for i, scope := range k.Scopes {
		shown.Scopes[i] = string(scope)
	}
	return shown
}
