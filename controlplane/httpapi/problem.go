package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"waypost"
	"waypost/api"
	"waypost/api/requestid"
)

// Kinds of problems that only HTTP has, besides the kinds of package waypost.
const (
	codeMethodNotAllowed waypost.ErrorCode = "method-not-allowed"
	codeRequestTimeout   waypost.ErrorCode = "request-timeout"
	codeUnsupportedMedia waypost.ErrorCode = "unsupported-media-type"
	codeRateLimited      waypost.ErrorCode = "rate-limited"
	codeMisdirected      waypost.ErrorCode = "misdirected"
)

// kind holds the parts that all problems of one code share.
type kind struct {
	status     int
	title      string
	retryAfter string // seconds; "" when another try is of no use
}

var kinds = map[waypost.ErrorCode]kind{
	waypost.ECounting:     {http.StatusAccepted, "The answer is being counted", "5"},
	waypost.EMalformed:    {http.StatusBadRequest, "The request cannot be read", ""},
	waypost.EUnauthorized: {http.StatusUnauthorized, "Valid credentials are required", ""},
	waypost.ESecondFactor: {http.StatusUnauthorized, "A code of the second factor is required", ""},
	waypost.EForbidden:    {http.StatusForbidden, "This is not allowed", ""},
	waypost.ENotFound:     {http.StatusNotFound, "Not found", ""},
	codeMethodNotAllowed:  {http.StatusMethodNotAllowed, "The method is not allowed here", ""},
	codeRequestTimeout:    {http.StatusRequestTimeout, "The request came too slowly", ""},
	waypost.EConflict:     {http.StatusConflict, "In conflict with the present state", ""},
	waypost.EInProgress:   {http.StatusConflict, "The same request is in progress", "1"},
	waypost.EGone:         {http.StatusGone, "No longer available", ""},
	waypost.EBlocked:      {http.StatusUnavailableForLegalReasons, "Unavailable for legal reasons", ""},
	waypost.EStale:        {http.StatusPreconditionFailed, "It has changed meanwhile", ""},
	waypost.ETooLarge:     {http.StatusRequestEntityTooLarge, "Too large", ""},
	codeRateLimited:       {http.StatusTooManyRequests, "Too many requests", "1"},
	codeUnsupportedMedia:  {http.StatusUnsupportedMediaType, "The body must be JSON", ""},
	codeMisdirected:       {http.StatusMisdirectedRequest, "Another address answers this", ""},
	waypost.EInvalid:      {http.StatusUnprocessableEntity, "The request breaks a rule", ""},
	waypost.EKeyReused:    {http.StatusUnprocessableEntity, "The Idempotency-Key was used for something else", ""},
	waypost.EInternal:     {http.StatusInternalServerError, "Internal error", ""},
	waypost.EUnavailable:  {http.StatusServiceUnavailable, "Temporarily unavailable", "5"},
	waypost.EExhausted:    {http.StatusServiceUnavailable, "No key is left in this region", "60"},
}

// problem is an error with its answer (RFC 9457).
type problem struct {
	api.Problem
	header http.Header
}

func (p *problem) Error() string { return p.Detail }

// code returns the last part of the problem's type.
func (p *problem) code() string { return strings.TrimPrefix(p.Type, waypost.ProblemType("")) }

const problemType = "application/problem+json"

// maxFieldErrors bounds the answer to a body with faults everywhere.
const maxFieldErrors = 20

// fieldErrors is an EInvalid that knows its fields. It is never empty.
type fieldErrors []api.FieldError

func (e fieldErrors) Error() string { return e[0].Location + ": " + e[0].Message }

// sorted orders the errors by location.
func (e fieldErrors) sorted() fieldErrors {
	slices.SortStableFunc(e, func(a, b api.FieldError) int { return strings.Compare(a.Location, b.Location) })
	return e
}

// invalid returns the error of one field.
func invalid(location, message string) error {
	return fieldErrors{{Location: location, Message: message}}
}

// newProblem makes a problem of one kind.
func newProblem(code waypost.ErrorCode, detail string) *problem {
	k, ok := kinds[code]
	if !ok {
		code, k = waypost.EInternal, kinds[waypost.EInternal]
	}
	p := &problem{api.Problem{Type: waypost.ProblemType(code), Title: k.title, Status: k.status, Detail: detail}, http.Header{}}
	if k.retryAfter != "" {
		p.header.Set("Retry-After", k.retryAfter)
	}
	return p
}

// TooManyConnections answers a request on a connection above the limits.
func TooManyConnections(w http.ResponseWriter) {
	p := newProblem(waypost.EUnavailable, "there are too many connections, or too many from this address; use one for several requests")
	p.header.Set("Retry-After", "1")
	writeProblem(w, p)
}

// Misdirected answers a request that another listener answers.
func Misdirected(w http.ResponseWriter, detail string) {
	writeProblem(w, newProblem(codeMisdirected, detail))
}

func writeProblem(w http.ResponseWriter, p *problem) {
	for name, values := range p.header {
		w.Header()[name] = values
	}
	answer := p.Problem
	if p.Status >= http.StatusInternalServerError {
		answer.RequestID = w.Header().Get(requestid.Header)
	}
	text, err := encode(nil, &answer)
	if err != nil {
		panic("httpapi: " + err.Error()) // texts and numbers can be encoded
	}
	writeBody(w, p.Status, problemType, text)
}
