package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
)

// Kinds of problems that only HTTP knows, beside those of package waypost.
const (
	codeMethodNotAllowed waypost.ErrorCode = "method-not-allowed"
	codeRequestTimeout   waypost.ErrorCode = "request-timeout"
	codeUnsupportedMedia waypost.ErrorCode = "unsupported-media-type"
)

// kind is what is the same in all problems of one code.
type kind struct {
	status     int
	title      string
	retryAfter string // seconds; "" when another try would be no use
	special    bool   // there is a more general kind with the same status
}

var kinds = map[waypost.ErrorCode]kind{
	waypost.EMalformed:    {http.StatusBadRequest, "The request cannot be read", "", false},
	waypost.EUnauthorized: {http.StatusUnauthorized, "Valid credentials are required", "", false},
	waypost.EForbidden:    {http.StatusForbidden, "This is not allowed", "", false},
	waypost.ENotFound:     {http.StatusNotFound, "Not found", "", false},
	codeMethodNotAllowed:  {http.StatusMethodNotAllowed, "The method is not allowed here", "", false},
	codeRequestTimeout:    {http.StatusRequestTimeout, "The request came too slowly", "", false},
	waypost.EConflict:     {http.StatusConflict, "In conflict with what is there", "", false},
	waypost.EInProgress:   {http.StatusConflict, "The same request is being answered", "1", true},
	waypost.EGone:         {http.StatusGone, "No longer available", "", false},
	waypost.EStale:        {http.StatusPreconditionFailed, "It has changed meanwhile", "", false},
	waypost.ETooLarge:     {http.StatusRequestEntityTooLarge, "Too large", "", false},
	codeRateLimited:       {http.StatusTooManyRequests, "Too many requests", "1", false},
	codeUnsupportedMedia:  {http.StatusUnsupportedMediaType, "The body must be JSON", "", false},
	waypost.EInvalid:      {http.StatusUnprocessableEntity, "The request breaks a rule", "", false},
	waypost.EKeyReused:    {http.StatusUnprocessableEntity, "The Idempotency-Key was used for something else", "", true},
	waypost.EInternal:     {http.StatusInternalServerError, "Internal error", "", false},
	waypost.EUnavailable:  {http.StatusServiceUnavailable, "Temporarily unavailable", "5", false},
	waypost.EExhausted:    {http.StatusServiceUnavailable, "No key is left in this region", "60", false},
}

// problem is an answer of RFC 9457. To huma it is an error that knows its status,
// headers and content type.
type problem struct {
	Type   string       `json:"type" format:"uri" example:"urn:waypost:problem:not-found" doc:"Names the kind of problem, and stays the same over time."`
	Title  string       `json:"title" doc:"Says what the kind of problem is."`
	Status int          `json:"status" example:"404" doc:"The HTTP status."`
	Detail string       `json:"detail" doc:"Says what went wrong this time."`
	Errors []fieldError `json:"errors,omitempty" nullable:"false" doc:"The fields at fault, when they are known one by one."`

	header http.Header
}

// fieldError says what is wrong with one field or parameter, never its value.
type fieldError struct {
	Location string `json:"location" example:"body.custom_code" doc:"Where the fault is."`
	Message  string `json:"message" doc:"What is wrong there."`
}

func (p *problem) Error() string             { return p.Detail }
func (p *problem) GetStatus() int            { return p.Status }
func (p *problem) GetHeaders() http.Header   { return p.header }
func (p *problem) ContentType(string) string { return problemType }

// code is what ends the problem's type.
func (p *problem) code() string { return strings.TrimPrefix(p.Type, waypost.ProblemType("")) }

const problemType = "application/problem+json"

// maxFieldErrors bounds an answer to a body that is wrong everywhere.
const maxFieldErrors = 20

// fieldErrors is an EInvalid that knows its fields. It is never empty.
type fieldErrors []fieldError

func (e fieldErrors) Error() string { return e[0].Location + ": " + e[0].Message }

// newProblem makes a problem of one kind.
func newProblem(code waypost.ErrorCode, detail string) *problem {
	k, ok := kinds[code]
	if !ok {
		code, k = waypost.EInternal, kinds[waypost.EInternal]
	}
	p := &problem{Type: waypost.ProblemType(code), Title: k.title, Status: k.status, Detail: detail, header: http.Header{}}
	if k.retryAfter != "" {
		p.header.Set("Retry-After", k.retryAfter)
	}
	return p
}

// problem turns any error into what the client may know of it, and logs what only
// we may know.
func (s *server) problem(ctx context.Context, operation string, err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if fields, ok := errors.AsType[fieldErrors](err); ok {
		p := newProblem(waypost.EInvalid, fields.Error())
		p.Errors = fields[:min(len(fields), maxFieldErrors)]
		return p
	}
	code := waypost.CodeOf(err)
	if known := kinds[code].status; known != 0 && known != http.StatusInternalServerError {
		return newProblem(code, waypost.MessageOf(err))
	}
	// What goes wrong because the time is up, or because the client has left, is
	// not a fault of ours.
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return newProblem(waypost.EUnavailable, "the answer took too long; the request may or may not have had an effect")
	}
	s.log.ErrorContext(ctx, "request failed", slog.String("operation", operation), slog.Any("error", err))
	return newProblem(waypost.EInternal, "internal error")
}

// refuse answers a request that got no further than a middleware.
func (s *server) refuse(ctx huma.Context, w http.ResponseWriter, err error) {
	writeProblem(w, s.problem(ctx.Context(), ctx.Operation().OperationID, err))
}

func writeProblem(w http.ResponseWriter, p *problem) {
	h := w.Header()
	for name, values := range p.header {
		h[name] = values
	}
	h.Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	// An error means that the client has left: there is nobody to tell.
	_ = jsonFormat.Marshal(w, p)
}

// redact gives huma's own errors, which echo the values at fault, our form.
func redact(_ huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	for code, k := range kinds {
		if k.status != m.Status || k.retryAfter != "" || k.special {
			continue
		}
		p := newProblem(code, m.Detail)
		if len(m.Errors) > 0 {
			fields := fieldErrorsOf(m.Errors)
			p.Detail, p.Errors = fields.Error(), fields[:min(len(fields), maxFieldErrors)]
		}
		return p, nil
	}
	return &problem{Type: "about:blank", Title: http.StatusText(m.Status), Status: m.Status, Detail: m.Title}, nil
}

// choices takes away the quotes that huma puts around a whole list of values, as if
// it were one.
func choices(message string) string {
	const list = `expected value to be one of "`
	if rest, ok := strings.CutPrefix(message, list); ok {
		return strings.TrimSuffix(list, `"`) + strings.TrimSuffix(rest, `"`)
	}
	return message
}

// fieldErrorsOf drops the values from what huma found, and sorts the rest, since
// huma reads fields in no particular order.
func fieldErrorsOf[E error](found []E) fieldErrors {
	fields := make(fieldErrors, 0, len(found))
	for _, err := range found {
		f := fieldError{Location: "body", Message: "invalid value"}
		if d, ok := any(err).(*huma.ErrorDetail); ok {
			f = fieldError{Location: d.Location, Message: choices(d.Message)}
		}
		fields = append(fields, f)
	}
	slices.SortFunc(fields, func(a, b fieldError) int { return strings.Compare(a.Location, b.Location) })
	return fields
}
