package httpapi

import (
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"

	"waypost/api"
)

// Names of the security schemes.
const (
	bearerScheme = "bearer"
	headerScheme = "apiKey"
	cookieScheme = "session"
)

// document is the OpenAPI document of the API, which grows with each operation.
type document struct {
	version, server string
	anonymous       bool // operations accept requests without a credential
	schemas         schemas
	paths           map[string]map[string]any
}

// answer describes an answer of an operation.
type answer struct {
	Description string            `json:"description"`
	Headers     map[string]header `json:"headers,omitzero"`
	Content     map[string]media  `json:"content,omitzero"`
}

type header struct {
	Description string  `json:"description,omitzero"`
	Schema      *schema `json:"schema"`
}

type media struct {
	Schema *schema `json:"schema"`
}

var textSchema = &schema{Type: "string"}

func textHeader(description string) header { return header{description, textSchema} }

func newDocument(version, server string, anonymous bool) *document {
	d := &document{version: version, server: server, anonymous: anonymous, schemas: schemas{}, paths: map[string]map[string]any{}}
	return d
}

// described is an operation in the document.
type described struct {
	OperationID string                `json:"operationId"`
	Summary     string                `json:"summary"`
	Description string                `json:"description,omitzero"`
	Security    []map[string][]string `json:"security"`
	Parameters  []parameter           `json:"parameters,omitzero"`
	RequestBody *requestBody          `json:"requestBody,omitzero"`
	Responses   map[string]answer     `json:"responses"`
}

type requestBody struct {
	Required bool             `json:"required"`
	Content  map[string]media `json:"content"`
}

func (d *document) addOperation(b *binding) {
	op := &b.op
	shown := described{
		OperationID: op.id, Summary: op.summary, Description: op.description,
		Security: d.security(op), Parameters: slices.Clone(b.parameters), Responses: map[string]answer{},
	}
	if b.op.octets {
		shown.RequestBody = &requestBody{true, map[string]media{"application/octet-stream": {&schema{Type: "string", Format: "binary"}}}}
	}
	if b.body != nil {
		shown.RequestBody = &requestBody{true, map[string]media{jsonType: {b.body}}}
	}
	if op.needsCredential() {
		shown.Parameters = append(shown.Parameters, workspaceParameter())
	}
	for _, status := range d.problemsOf(b) {
		shown.Responses[strconv.Itoa(status)] = d.problemAnswer(status)
	}
	if status := op.status; !d.replaces(op, status) {
		if status == 0 && b.out.body == nil {
			status = http.StatusNoContent
		} else if status == 0 {
			status = http.StatusOK
		}
		shown.Responses[strconv.Itoa(status)] = d.success(b, status)
	}
	for status, a := range op.answers {
		shown.Responses[strconv.Itoa(status)] = a
	}
	if op.needsCredential() {
		for status, a := range shown.Responses {
			if status != "401" {
				shown.Responses[status] = withLimits(a)
			}
		}
	}
	if d.paths[op.path] == nil {
		d.paths[op.path] = map[string]any{}
	}
	d.paths[op.path][strings.ToLower(op.method)] = shown
}

// replaces reports whether an operation describes its success itself.
func (d *document) replaces(op *operation, status int) bool {
	if status == 0 {
		status = http.StatusOK
	}
	for given := range op.answers {
		if given == status || status == http.StatusOK && given/100 == 3 && given != http.StatusNotModified {
			return true
		}
	}
	return false
}

func (d *document) success(b *binding, status int) answer {
	a := answer{Description: http.StatusText(status), Headers: map[string]header{}}
	for _, h := range b.out.headers {
		a.Headers[h.name] = textHeader(h.description)
	}
	if b.out.body != nil {
		a.Content = map[string]media{jsonType: {d.schemas.of(b.out.body, "")}}
	}
	return a
}

// problemsOf lists the statuses of the problems that an operation can answer with.
func (d *document) problemsOf(b *binding) []int {
	all := append([]int{http.StatusInternalServerError, http.StatusServiceUnavailable}, b.op.problems...)
	if b.op.needsCredential() {
		all = append(all, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests)
	}
	if !b.op.anyQuery {
		all = append(all, http.StatusBadRequest, http.StatusUnprocessableEntity)
	}
	if b.body != nil {
		all = append(all, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	return all
}

func (d *document) problemAnswer(status int) answer {
	a := answer{
		Description: http.StatusText(status), Headers: map[string]header{},
		Content: map[string]media{problemType: {&schema{Ref: "#/components/schemas/Problem"}}},
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		a.Headers["WWW-Authenticate"] = textHeader("How to authenticate (RFC 6750).")
	case http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusAccepted:
		a.Headers["Retry-After"] = textHeader("Seconds to wait before another try.")
	case http.StatusConflict:
		a.Headers["Retry-After"] = textHeader("Seconds to wait before another try, when the same request is in progress.")
	}
	return a
}

// withLimits adds the headers of rate limits, which are set where the installation has a
// limit.
func withLimits(a answer) answer {
	headers := map[string]header{
		"RateLimit-Limit":     textHeader("Requests that the credential may send at once, when the installation limits them."),
		"RateLimit-Remaining": textHeader("How many of them are left."),
		"RateLimit-Reset":     textHeader("Seconds until all of them are available again."),
	}
	for name, h := range a.Headers {
		headers[name] = h
	}
	a.Headers = headers
	return a
}

func (d *document) security(op *operation) []map[string][]string {
	all := []map[string][]string{}
	if !op.needsCredential() {
		return all // which says that none is needed
	}
	scopes := [][]string{{}}
	if len(op.scopes) > 0 {
		scopes = nil
		for _, scope := range op.scopes {
			scopes = append(scopes, []string{string(scope)})
		}
	}
	for _, needed := range scopes {
		all = append(all, map[string][]string{bearerScheme: needed}, map[string][]string{headerScheme: needed},
			map[string][]string{cookieScheme: needed})
	}
	if d.anonymous {
		all = append(all, map[string][]string{})
	}
	return all
}

// workspaceParameter documents how a user of several workspaces chooses one.
func workspaceParameter() parameter {
	most := 63
	return parameter{
		Name: api.HeaderWorkspace, In: "header", Schema: &schema{Type: "string", MaxLength: &most},
		Description: "Slug of the workspace to act in. A session needs it when its user is in several workspaces; an API key has only its own.",
	}
}

// text renders the document.
func (d *document) text() ([]byte, error) {
	d.schemas.component(reflect.TypeFor[api.Problem]())
	type object = map[string]any
	return jsonv2.Marshal(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Waypost", "version": d.version, "license": object{"name": "Apache 2.0", "identifier": "Apache-2.0"},
			"description": "Creates, changes, lists and deletes short links, and counts their clicks. " +
				"Errors are problem documents (RFC 9457). Times are RFC 3339 (5.6): in answers in UTC; in requests with any offset, " +
				"with t and z in either case, and a leap second, such as 2016-12-31T23:59:60Z, is the first moment after it. " +
				"In requests, null means the same as leaving a field out, except where a field says otherwise.",
		},
		"servers": []object{{"url": d.server}},
		"paths":   d.paths,
		"components": object{
			"schemas": d.schemas,
			"securitySchemes": object{
				bearerScheme: object{"type": "http", "scheme": "bearer", "description": "An API key, or the token of a session."},
				headerScheme: object{"type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "An API key."},
				cookieScheme: object{
					"type": "apiKey", "in": "cookie", "name": sessionCookie,
					"description": "A session that was begun with a cookie. Pages of other origins cannot use it.",
				},
			},
		},
	}, jsonv2.Deterministic(true))
}

// serve answers GET /openapi.json. The text is rendered once, for the first request.
func (d *document) serve(mux *http.ServeMux) {
	text := sync.OnceValue(func() []byte {
		text, err := d.text()
		if err != nil {
			panic("httpapi: the OpenAPI document: " + err.Error())
		}
		return text
	})
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		writeBody(w, http.StatusOK, jsonType, text())
	})
}

// Descriptions that several operations share.
const (
	etagDoc     = "Names this state of the link, for If-Match and If-None-Match."
	replayedDoc = "\"true\" when the request was answered before, and this is that answer."
)
