package httpapi

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"waypost/controlplane"
)

// Names of the security schemes.
const (
	bearerScheme = "bearer"
	headerScheme = "apiKey"
	cookieScheme = "session" // where there are sessions
)

// describe configures huma: the frame of the document, and JSON as the only
// format. Huma's own pages are left out, since they load from elsewhere.
func describe(version string) huma.Config {
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:       "Waypost",
				Version:     version,
				Description: "Creates, shows and deletes short links. Errors are problem documents (RFC 9457), times are RFC 3339 in UTC.",
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					bearerScheme: {Type: "http", Scheme: "bearer", Description: "An API key."},
					headerScheme: {Type: "apiKey", In: "header", Name: "X-Api-Key", Description: "An API key."},
				},
			},
		},
		// "json" is how huma looks up the format of application/problem+json.
		Formats:       map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat},
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{redact},
	}
}

// needs documents that an operation is for actors with any of the scopes;
// authenticate reads them from there.
func (s *server) needs(anyOf ...controlplane.Scope) []map[string][]string {
	var security []map[string][]string
	for _, scope := range anyOf {
		scopes := []string{string(scope)}
		security = append(security, s.credentials(scopes)...)
	}
	if s.anonymous != nil {
		security = append(security, map[string][]string{})
	}
	return security
}

// needsAnybody documents that an operation is for whoever has a valid credential.
func (s *server) needsAnybody() []map[string][]string {
	security := s.credentials([]string{})
	if s.anonymous != nil {
		security = append(security, map[string][]string{})
	}
	return security
}

func (s *server) credentials(scopes []string) []map[string][]string {
	all := []map[string][]string{{bearerScheme: scopes}, {headerScheme: scopes}}
	if s.access != nil {
		all = append(all, map[string][]string{cookieScheme: scopes})
	}
	return all
}

// workspaceHeader documents how who is in several workspaces says which is meant.
func workspaceHeader() *huma.Param {
	return &huma.Param{
		Name: headerWorkspace, In: "header",
		Description: "Slug of the workspace that is meant. A session needs it when its user is in several; an API key has only its own.",
		Schema:      &huma.Schema{Type: huma.TypeString, MaxLength: new(63)},
	}
}

// scopesOf gives the scopes of which an operation needs one, none when it is public
// or for anybody with a credential.
func scopesOf(op *huma.Operation) (anyOf []controlplane.Scope) {
	for _, alternative := range op.Security {
		for _, scope := range alternative[bearerScheme] {
			anyOf = append(anyOf, controlplane.Scope(scope))
		}
	}
	return anyOf
}

// problems documents the errors that an operation may answer with, beside those
// that any may.
func problems(statuses ...int) map[string]*huma.Response {
	responses := map[string]*huma.Response{}
	for _, status := range append(statuses, http.StatusInternalServerError, http.StatusServiceUnavailable) {
		response := &huma.Response{
			Description: http.StatusText(status),
			Headers:     map[string]*huma.Param{},
			Content:     map[string]*huma.MediaType{problemType: {Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}}},
		}
		switch status {
		case http.StatusUnauthorized, http.StatusForbidden:
			response.Headers["WWW-Authenticate"] = textHeader("How to authenticate (RFC 6750).")
		case http.StatusServiceUnavailable, http.StatusTooManyRequests:
			response.Headers["Retry-After"] = textHeader("Seconds to wait before another try.")
		case http.StatusConflict:
			response.Headers["Retry-After"] = textHeader("Seconds to wait before another try, when the same request is being answered.")
		}
		responses[strconv.Itoa(status)] = response
	}
	return responses
}

// created documents the answers to a wish for a link, which may have been given before:
// 201, and 200 with a body when a link may be found. Huma adds the rest of 201.
func created(responses map[string]*huma.Response, schema, found string) map[string]*huma.Response {
	if found != "" {
		responses["200"] = &huma.Response{
			Description: found,
			Headers: map[string]*huma.Param{
				"Location": textHeader("Path of the link in this API."), "ETag": textHeader(etagDoc),
				"Waypost-Position": textHeader("A position at which the link is there."), "Waypost-Applied": textHeader(appliedDoc),
			},
			Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Ref: "#/components/schemas/" + schema}}},
		}
		withReplay(responses, "200")
	}
	return withReplay(responses, "201")
}

// withReplay documents that an answer may be one that was given before.
func withReplay(responses map[string]*huma.Response, status string) map[string]*huma.Response {
	if responses[status] == nil {
		responses[status] = &huma.Response{}
	}
	if responses[status].Headers == nil {
		responses[status].Headers = map[string]*huma.Param{}
	}
	responses[status].Headers[headerReplayed] = textHeader("\"true\" when the request was answered before, and this is that answer.")
	return responses
}

// withNotModified documents the answer to a client that has what it asks for.
func withNotModified(responses map[string]*huma.Response) map[string]*huma.Response {
	responses["304"] = &huma.Response{Description: "The link is in a state that the client has", Headers: map[string]*huma.Param{"ETag": textHeader(etagDoc)}}
	return responses
}

// redirects documents the answers to a visitor.
func redirects() map[string]*huma.Response {
	responses := problems(400, 404, 410, 414)
	for _, status := range []string{"400", "404", "410", "414", "500", "503"} {
		r := responses[status]
		r.Content["text/html"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
		r.Headers["Vary"] = textHeader("The answer depends on Accept.")
	}
	responses["200"] = &huma.Response{
		Description: "With a plus sign behind the code: where the link leads",
		Headers:     map[string]*huma.Param{"Vary": textHeader("The answer depends on Accept.")},
		Content: map[string]*huma.MediaType{
			"application/json": {Schema: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}},
			"text/html":        {Schema: &huma.Schema{Type: huma.TypeString}},
		},
	}
	for _, status := range []int{301, 302, 307, 308} {
		responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Headers: map[string]*huma.Param{
				"Location":      textHeader("The target."),
				"Cache-Control": textHeader("How long a browser may keep the redirect."),
			},
		}
	}
	return responses
}

func textHeader(description string) *huma.Param {
	return &huma.Param{Description: description, Schema: &huma.Schema{Type: huma.TypeString}}
}

// serveDocument finishes the document, once all operations are registered, and
// serves it. Its text is made when it is asked for first: that takes two thirds of a
// control plane's start.
func (s *server) serveDocument() {
	document := s.api.OpenAPI()
	schemas := document.Components.Schemas
	schemas.Schema(reflect.TypeFor[problem](), true, "")
	// Huma describes its own errors, which redact lets nobody see.
	delete(schemas.Map(), "ErrorModel")
	delete(schemas.Map(), "ErrorDetail")
	documentLimits(document)
	text := sync.OnceValue(func() []byte {
		text, err := json.Marshal(document)
		if err != nil {
			panic("httpapi: the OpenAPI document: " + err.Error())
		}
		return text
	})
	s.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// An error means that the client has left.
		_, _ = w.Write(text())
	})
}
