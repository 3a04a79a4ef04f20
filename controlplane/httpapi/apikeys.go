package httpapi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

type apiKeysOutput struct{ Body apiKeyList }

type apiKeyList struct {
	Keys       []apiKey `json:"keys" nullable:"false" doc:"Newest first. Keys that have expired stay for a while."`
	NextCursor string   `json:"next_cursor" doc:"Empty on the last page."`
}

type apiKey struct {
	ID          int64      `json:"id"`
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Prefix      string     `json:"prefix" example:"wp_live_4fGh" doc:"How the key begins, to tell it by."`
	Scopes      []string   `json:"scopes" nullable:"false"`
	OwnerID     *int64     `json:"owner_id" nullable:"true" doc:"The user with whose membership the key ends, and beyond whose role it does not go. Null: it has none."`
	OwnerEmail  string     `json:"owner_email" doc:"Empty without an owner."`
	RotatedFrom *int64     `json:"rotated_from" nullable:"true" doc:"The key whose place it took."`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   *time.Time `json:"expires_at" nullable:"true" doc:"Null: never."`
	LastUsedAt  *time.Time `json:"last_used_at" nullable:"true" doc:"True to a minute. Null: never."`
	Key         string     `json:"key,omitempty" doc:"The key itself, in the answer to the call that made it. It is not shown again."`
}

// RepeatableKey is [Repeatable] for requests whose answer holds a secret, which is not kept. Its name is exported for huma.
type RepeatableKey struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" pattern:"^[!-~]([ -~]*[!-~])?$" patternDescription:"printable ASCII" doc:"A name for this request, of 1 to 255 printable ASCII characters, such as a UUID. Sent again within 24 hours with the same body, it makes no second key, but is answered with the one that was made and Idempotency-Replayed: true; the text of the key is not told again."`
}

// request names a request by who sends it and what it asks for.
func (r *RepeatableKey) request(ctx context.Context, asked string) *controlplane.KeyRequest {
	if r.IdempotencyKey == "" {
		return nil
	}
	actor := actorFrom(ctx)
	return &controlplane.KeyRequest{Key: r.IdempotencyKey, Hash: sha256.Sum256(fmt.Appendf(nil, "%d %d %s", actor.UserID, actor.KeyID, asked))}
}

type newAPIKeyInput struct {
	RepeatableKey
	Body body[newAPIKey]
}

type newAPIKey struct {
	Name             string     `json:"name" minLength:"1" maxLength:"100"`
	Description      string     `json:"description,omitempty" maxLength:"500"`
	Scopes           []string   `json:"scopes" nullable:"false" minItems:"1" maxItems:"4" uniqueItems:"true" enum:"links:read,links:write,analytics:read,admin" doc:"None that its maker has not."`
	ExpiresAt        *time.Time `json:"expires_at,omitempty" nullable:"true" doc:"Default: never."`
	ExpiresInSeconds *int64     `json:"expires_in_seconds,omitempty" nullable:"true" minimum:"1" maximum:"315360000" doc:"Instead of expires_at."`
}

type apiKeyOutput struct {
	Replayed string `header:"Idempotency-Replayed" doc:"\"true\" when the request was answered before: the key is the one that it made."`
	Body     apiKey
}

type rotateKeyInput struct {
	RepeatableKey
	ID    int64 `path:"id" minimum:"1"`
	Grace int64 `query:"grace" minimum:"0" maximum:"604800" default:"0" doc:"For how many seconds the old key goes on."`
}

type apiKeyInput struct {
	ID int64 `path:"id" minimum:"1"`
}

func (s *server) registerAPIKeys() {
	const who = "With the scope admin: all of the workspace. Others who have signed in: their own."
	anybody := s.needsAnybody()
	handle(s, huma.Operation{
		OperationID: "list-keys", Method: http.MethodGet, Path: "/api/v1/keys",
		Summary: "List API keys", Description: who, Security: anybody, Responses: problems(400, 401, 403, 422),
	}, s.listAPIKeys)
	handle(s, withBody(huma.Operation{
		OperationID: "create-key", Method: http.MethodPost, Path: "/api/v1/keys", DefaultStatus: http.StatusCreated,
		Summary: "Make an API key", Description: who, Security: anybody, Responses: problems(400, 401, 403, 404, 408, 409, 413, 415, 422),
	}, maxBody), s.createAPIKey)
	handle(s, huma.Operation{
		OperationID: "rotate-key", Method: http.MethodPost, Path: "/api/v1/keys/{id}/rotate", DefaultStatus: http.StatusCreated,
		Summary: "Make an API key that takes another's place", Description: who, Security: anybody, Responses: problems(401, 403, 404, 409, 422),
	}, s.rotateAPIKey)
	handle(s, huma.Operation{
		OperationID: "revoke-key", Method: http.MethodDelete, Path: "/api/v1/keys/{id}", DefaultStatus: http.StatusNoContent,
		Summary: "Revoke an API key, on all control planes within a second", Description: who, Security: anybody, Responses: problems(401, 403, 404, 422),
	}, s.revokeAPIKey)
}

func (s *server) listAPIKeys(ctx context.Context, in *Paging) (*apiKeysOutput, error) {
	all, next, err := s.access.APIKeys(ctx, actorFrom(ctx), in.Limit, in.Cursor)
	if err != nil {
		return nil, err
	}
	out := &apiKeysOutput{Body: apiKeyList{Keys: make([]apiKey, len(all)), NextCursor: next}}
	for i := range all {
		out.Body.Keys[i] = showAPIKey(&all[i])
	}
	return out, nil
}

func (s *server) createAPIKey(ctx context.Context, in *newAPIKeyInput) (*apiKeyOutput, error) {
	n, err := decode[newAPIKey](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	wish := controlplane.NewAPIKey{Name: n.Name, Description: n.Description}
	for _, scope := range n.Scopes {
		wish.Scopes = append(wish.Scopes, controlplane.Scope(scope))
	}
	switch {
	case n.ExpiresAt != nil && n.ExpiresInSeconds != nil:
		return nil, waypost.Errorf(waypost.EInvalid, "give expires_at or expires_in_seconds, not both")
	case n.ExpiresAt != nil:
		wish.ExpiresAt = *n.ExpiresAt
	case n.ExpiresInSeconds != nil:
		wish.ExpiresAt = s.now().Add(time.Duration(*n.ExpiresInSeconds) * time.Second)
	}
	k, err := s.access.CreateAPIKey(ctx, actorFrom(ctx), wish, in.request(ctx, string(in.Body.raw)))
	if err != nil {
		return nil, err
	}
	return showNewKey(&k), nil
}

func showNewKey(k *controlplane.MadeKey) *apiKeyOutput {
	out := &apiKeyOutput{Body: showAPIKey(&k.KeyInfo)}
	if out.Body.Key = k.Text; k.Before {
		out.Replayed = "true"
	}
	return out
}

func (s *server) rotateAPIKey(ctx context.Context, in *rotateKeyInput) (*apiKeyOutput, error) {
	k, err := s.access.RotateAPIKey(ctx, actorFrom(ctx), in.ID, time.Duration(in.Grace)*time.Second, in.request(ctx, fmt.Sprint(in.ID, in.Grace)))
	if err != nil {
		return nil, err
	}
	return showNewKey(&k), nil
}

func (s *server) revokeAPIKey(ctx context.Context, in *apiKeyInput) (*struct{}, error) {
	return nil, s.access.RevokeAPIKey(ctx, actorFrom(ctx), in.ID)
}

func showAPIKey(k *controlplane.KeyInfo) apiKey {
	shown := apiKey{
		ID: k.ID, Name: k.Name, Description: k.Description, Prefix: k.Prefix, Scopes: make([]string, len(k.Scopes)), OwnerEmail: k.OwnerEmail,
		CreatedAt: k.CreatedAt, ExpiresAt: moment(k.ExpiresAt), LastUsedAt: moment(k.LastUsedAt),
	}
	for i, scope := range k.Scopes {
		shown.Scopes[i] = string(scope)
	}
	if k.Owner != 0 {
		shown.OwnerID = &k.Owner
	}
	if k.RotatedFrom != 0 {
		shown.RotatedFrom = &k.RotatedFrom
	}
	return shown
}
