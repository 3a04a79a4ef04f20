package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"net/http"

	"waypost"
	"waypost/controlplane"
)

// Repeatable is for requests that may be sent again without having their effect twice.
type Repeatable struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" pattern:"^[!-~]([ -~]*[!-~])?$" patternDescription:"printable ASCII" doc:"A name for this request, of 1 to 255 printable ASCII characters, such as a UUID. Sent again within 24 hours with the same body, it has no effect but is answered as the first time, with Idempotency-Replayed: true. A request that made nothing is not remembered."`
}

// headerReplayed says that an answer was given before.
const headerReplayed = "Idempotency-Replayed"

// replayed is an answer that was given before. To huma it is an error that knows its
// status, headers and content.
type replayed struct {
	answer *controlplane.Response
	header http.Header
}

func (r *replayed) Error() string                { return "answered before" }
func (r *replayed) GetStatus() int               { return r.answer.Status }
func (r *replayed) GetHeaders() http.Header      { return r.header }
func (r *replayed) ContentType(string) string    { return "application/json" }
func (r *replayed) MarshalJSON() ([]byte, error) { return r.answer.Body, nil }

func replay(a *controlplane.Response) *replayed {
	r := &replayed{answer: a, header: http.Header{}}
	for name, value := range a.Header {
		r.header.Set(name, value)
	}
	r.header.Set(headerReplayed, "true")
	return r
}

// answerOf makes what is kept of an answer: what huma would send, to the byte.
func answerOf(status int, header map[string]string, body any) (controlplane.Response, error) {
	var buf bytes.Buffer
	if err := jsonFormat.Marshal(&buf, body); err != nil {
		return controlplane.Response{}, err
	}
	for name, value := range header {
		if value == "" {
			delete(header, name)
		}
	}
	return controlplane.Response{Status: status, Header: header, Body: buf.Bytes()}, nil
}

// make makes links, once if the request has a name. Answer makes what is kept for when it
// is sent again; then the error is a *replayed.
func (s *server) make(ctx context.Context, operation string, in *Repeatable, body []byte, ns []controlplane.NewLink,
	answer func([]controlplane.Outcome, waypost.Position) (controlplane.Response, error),
) ([]controlplane.Outcome, waypost.Position, error) {
	if in.IdempotencyKey == "" {
		return s.links.CreateBulk(ctx, actorFrom(ctx), ns)
	}
	made, err := s.links.CreateOnce(ctx, actorFrom(ctx), ns, controlplane.Idempotency{
		Route: operation, Key: in.IdempotencyKey, Request: sha256.Sum256(body), Respond: answer,
	})
	if err != nil {
		return nil, waypost.Position{}, err
	}
	if made.Replayed != nil {
		return nil, waypost.Position{}, replay(made.Replayed)
	}
	return made.Outcomes, made.At, nil
}
