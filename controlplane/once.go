package controlplane

import (
	"context"
	"sync"

	"waypost"
)

// RequestID names a request that may be sent again: the key is the client's own.
type RequestID struct {
	Workspace waypost.WorkspaceID
	Route     string
	Key       string // 1 to 255 bytes
}

// Answer is what a request was answered, to be given again byte for byte.
type Answer struct {
	Status int
	Header map[string]string
	Body   []byte
}

// Receipt goes with the links of a request that may be sent again: it is kept in the
// same transaction, so that there are links if and only if there is an answer.
type Receipt struct {
	ID      RequestID
	Request [32]byte // hash of what was asked

	// Answer makes what to keep, once it is known what has become of those insertions
	// that carry the receipt, in their order. It is called within the transaction.
	Answer func(placed []Placement, at waypost.Position) (Answer, error)
}

// AnswerStore keeps what requests were answered.
type AnswerStore interface {
	// Answered finds the answer to a request, and the hash of what was asked.
	Answered(ctx context.Context, id RequestID) (a Answer, request [32]byte, found bool, err error)
}

// Once makes that a request has its effect once, however often it is sent.
type Once struct {
	Route   string
	Key     string
	Request [32]byte // hash of what is asked

	// Answer makes the answer that is kept, and given to whoever sends the request again.
	Answer func(outcomes []Outcome, at waypost.Position) (Answer, error)
}

// Made is what became of a request for links.
type Made struct {
	Outcomes []Outcome
	At       waypost.Position
	Replayed *Answer // the request was answered before, with this; the rest is empty
}

// CreateOnce is CreateBulk for a request that may be sent again. Errors beside its own:
// EKeyReused when something else was asked under the key, EInProgress when the request
// is still being answered. A request that made no link is not kept.
func (s *Service) CreateOnce(ctx context.Context, actor Actor, ns []NewLink, o Once) (Made, error) {
	if s.answers == nil {
		return Made{}, waypost.Errorf(waypost.EInvalid, "this control plane keeps no answers: send no Idempotency-Key")
	}
	id := RequestID{Workspace: actor.Workspace, Route: o.Route, Key: o.Key}
	leave, err := s.running.enter(ctx, id)
	if err != nil {
		return Made{}, err
	}
	defer leave()
	made, err := s.replay(ctx, id, o.Request)
	if err != nil || made.Replayed != nil {
		return made, err
	}
	made.Outcomes, made.At, err = s.create(ctx, actor, ns, &o)
	if err != nil {
		return Made{}, err
	}
	for i := range made.Outcomes {
		if made.Outcomes[i].Err == errAnswered { //nolint:errorlint // it is never wrapped
			return s.replay(ctx, id, o.Request)
		}
	}
	return made, nil
}

// replay gives the kept answer to a request, if there is one.
func (s *Service) replay(ctx context.Context, id RequestID, request [32]byte) (Made, error) {
	a, was, found, err := s.answers.Answered(ctx, id)
	switch {
	case err != nil || !found:
		return Made{}, err
	case was != request:
		return Made{}, waypost.Errorf(waypost.EKeyReused, "something else was asked under this Idempotency-Key before")
	}
	return Made{Replayed: &a}, nil
}

// errAnswered is the outcome of links of a request that another control plane, or this
// one, has answered meanwhile.
var errAnswered = waypost.Errorf(waypost.EInProgress, "the request was answered a moment ago: send it again for the answer")

// running are the requests under way in this process, by name. The second of two waits
// for the first, and then finds its answer.
type running struct {
	mu  sync.Mutex
	ids map[RequestID]chan struct{} // closed when it is over
}

// enter waits until nobody else answers the request. The caller calls leave.
func (r *running) enter(ctx context.Context, id RequestID) (leave func(), err error) {
	for {
		r.mu.Lock()
		before := r.ids[id]
		if before == nil {
			if r.ids == nil {
				r.ids = make(map[RequestID]chan struct{})
			}
			over := make(chan struct{})
			r.ids[id] = over
			r.mu.Unlock()
			return func() {
				r.mu.Lock()
				defer r.mu.Unlock()
				delete(r.ids, id)
				close(over)
			}, nil
		}
		r.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, waypost.WrapError(waypost.EInProgress, "a request with this Idempotency-Key is still being answered", ctx.Err())
		}
	}
}
