package controlplane

import (
	"context"
	"slices"

	"waypost"
)

// RequestID identifies an idempotent request: the client chooses the key.
type RequestID struct {
	Workspace waypost.WorkspaceID
	Route     string
	Key       string // 1 to 255 bytes
}

// Response is a stored response, sent again byte for byte when its request is repeated.
type Response struct {
	Status int
	Header map[string]string
	Body   []byte
}

// IdempotencyRecord goes with the links of an idempotent request. The store writes it in
// the same transaction, so that the links exist if and only if the response does.
type IdempotencyRecord struct {
	ID      RequestID
	Request [32]byte // hash of the request

	// Respond makes the response to store from the placements of the insertions that
	// carry the record, in their order. The store calls it within the transaction.
	Respond func(placed []InsertResult, at waypost.Position) (Response, error)

	// Import is a step of an import, which keeps the body as the outcome of its rows; nil:
	// the response is of a request.
	Import *ImportStep
}

// Idempotency makes a request take effect once, however often it is sent.
type Idempotency struct {
	Route   string
	Key     string
	Request [32]byte // hash of the request

	// Respond makes the response that is stored, and sent when the request is repeated.
	Respond func(outcomes []Outcome, at waypost.Position) (Response, error)

	Import *ImportStep // see [IdempotencyRecord]
}

// Made is the result of an idempotent request for links.
type Made struct {
	Outcomes []Outcome
	At       waypost.Position
	Replayed *Response // the response that the request got before; the rest is empty
}

// CreateOnce is CreateBulk for an idempotent request. In addition to the errors of
// CreateBulk it returns EKeyReused when the key was used for another request, and
// EInProgress while the request is still being answered. It does not store a request that
// created no link.
func (s *Links) CreateOnce(ctx context.Context, actor Actor, ns []NewLink, key Idempotency) (Made, error) {
	id := RequestID{Workspace: actor.Workspace, Route: key.Route, Key: key.Key}
	if !s.running.Acquire(ctx, id) {
		return Made{}, waypost.WrapError(waypost.EInProgress, "a request with this Idempotency-Key is still being answered", ctx.Err())
	}
	defer s.running.Release(id, 1)
	if slices.ContainsFunc(ns, func(n NewLink) bool { return n.Password != "" }) {
		if err := s.passwords.request(ctx, actor.Workspace, &key); err != nil {
			return Made{}, err
		}
	}
	made, err := s.replay(ctx, id, key.Request)
	if err != nil || made.Replayed != nil {
		return made, err
	}
	made, answered, err := s.create(ctx, actor, ns, &key)
	if err != nil || !answered {
		return made, err
	}
	if made, err = s.replay(ctx, id, key.Request); err == nil && made.Replayed == nil {
		err = waypost.Errorf(waypost.EInProgress, "the request was answered a moment ago: send it again for the response")
	}
	return made, err
}

// replay returns the stored response to a request, if there is one.
func (s *Links) replay(ctx context.Context, id RequestID, request [32]byte) (Made, error) {
	response, stored, found, err := s.store.Response(ctx, id)
	switch {
	case err != nil || !found:
		return Made{}, err
	case stored != request:
		return Made{}, waypost.Errorf(waypost.EKeyReused, "this Idempotency-Key was used for another request")
	}
	return Made{Replayed: &response}, nil
}

// pendingResponse is shared by the pending links of an idempotent request.
type pendingResponse struct {
	id      RequestID
	request [32]byte
	step    *ImportStep
	respond func(sent []*pendingLink, placed []InsertResult, at waypost.Position) (Response, error)
}

// newPendingResponse prepares the response of a request. The writer calls respond before
// the transaction commits, so respond only reads the links.
func newPendingResponse(actor Actor, key *Idempotency, outcomes []Outcome, all []*pendingLink) *pendingResponse {
	return &pendingResponse{
		id: RequestID{Workspace: actor.Workspace, Route: key.Route, Key: key.Key}, request: key.Request, step: key.Import,
		respond: func(sent []*pendingLink, placed []InsertResult, at waypost.Position) (Response, error) {
			final := slices.Clone(outcomes)
			for _, x := range all {
				final[x.index].Err, final[x.index].Found = x.err, x.found
			}
			for i, x := range sent {
				final[x.index].Err, final[x.index].Found = placementError(x, placed[i]), placed[i] == Found
			}
			return key.Respond(final, at)
		},
	}
}
