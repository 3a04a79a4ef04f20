package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"waypost"
	"waypost/internal/semaphore"
)

// router finds the operation for a request, and answers requests that have none.
type router struct {
	mux      *http.ServeMux
	console  http.Handler // nil: there is none
	redirect http.Handler // also of codes with slashes, which have no pattern in mux
	document *document
	auth     *authenticator
	timeout  time.Duration // from a request's headers to its answer
	log      *slog.Logger
	metrics  metrics
	refusals *refusals

	large       *semaphore.Keyed[waypost.WorkspaceID] // of requests with a large body that are answered
	largeMemory *semaphore.Keyed[waypost.WorkspaceID] // bytes
}

// ServeHTTP answers every request: counted, and without ending the process when a handler
// panics.
func (rt *router) ServeHTTP(writer http.ResponseWriter, r *http.Request) {
	w := &response{ResponseWriter: writer}
	// Answers are for their client alone, and true only now. A redirect may say otherwise.
	w.Header()["Cache-Control"] = []string{"no-store"}
	w.Header()["X-Content-Type-Options"] = []string{"nosniff"}
	if r.TLS != nil {
		w.Header()["Strict-Transport-Security"] = []string{waypost.StrictTransport}
	}
	started := time.Now()
	defer func() {
		rt.rescue(w, r, recover())
		rt.metrics.observe(r, w.status, time.Since(started))
	}()
	rt.route(w, r)
}

// route passes a request to its operation. Requests without one get a problem where
// ServeMux would answer in plain text, or redirect paths such as /a/../b.
func (rt *router) route(w http.ResponseWriter, r *http.Request) {
	if rt.console != nil && (r.URL.Path == ConsolePath || strings.HasPrefix(r.URL.Path, ConsolePath+"/")) {
		r.Pattern = "GET " + ConsolePath
		rt.console.ServeHTTP(w, r)
		return
	}
	noRoute := "there is no such path"
	if strings.HasPrefix(r.URL.Path, "/api/") {
		noRoute = "the API has no such path; GET /openapi.json lists its paths"
	}
	var refusal refusal
	if path.Clean(r.URL.Path) == r.URL.Path {
		h, pattern := rt.mux.Handler(r)
		if pattern != "" {
			rt.mux.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(&refusal, r)
	}
	switch {
	case refusal.status == http.StatusMethodNotAllowed:
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && !strings.HasPrefix(r.URL.Path, "/api/"):
		r.Pattern = patternRedirect
		r.SetPathValue("code", strings.TrimPrefix(r.URL.Path, "/"))
		rt.redirect.ServeHTTP(w, r)
		return
	default:
		writeProblem(w, newProblem(waypost.ENotFound, noRoute))
		return
	}
	allowed := refusal.Header().Get("Allow")
	p := newProblem(codeMethodNotAllowed, "allowed here: "+allowed)
	p.header.Set("Allow", allowed)
	writeProblem(w, p)
}

// patternRedirect is the pattern of the redirect.
const patternRedirect = "GET /{code}"

// rescue answers a request after its handler panicked with cause; nil without a panic.
func (rt *router) rescue(w *response, r *http.Request, cause any) {
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause) // makes net/http close the connection
	}
	rt.log.ErrorContext(r.Context(), "handler panicked", "route", r.Pattern,
		"panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	if w.status == 0 {
		writeProblem(w, newProblem(waypost.EInternal, "internal error"))
	}
}

// response remembers the status of an answer.
type response struct {
	http.ResponseWriter
	status int // 0: none yet
}

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// refusal records how ServeMux answers a request without a route.
type refusal struct {
	header http.Header
	status int
}

func (w *refusal) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

func (w *refusal) WriteHeader(status int) { w.status = status }

func (w *refusal) Write(b []byte) (int, error) { return len(b), nil }
