package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"waypost"
)

// serve answers every request: within its time, counted, and without ending the
// process when a handler panics.
func (s *server) serve(writer http.ResponseWriter, r *http.Request) {
	// A tenth of the time is kept back, so that the answer to a request whose time
	// is up still arrives within it.
	ctx := r.Context()
	if r.URL.Path != exportPath { // which takes as long as it takes, a page at a time
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout-s.timeout/10)
		defer cancel()
	}
	r = r.WithContext(context.WithValue(ctx, askedKey{}, r.Context()))
	w := &response{ResponseWriter: writer}
	// Answers are for the one who asked, and true only now. A redirect may say otherwise.
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	started := time.Now()
	defer func() {
		s.rescue(w, r, recover())
		s.metrics.observe(r, w.status, time.Since(started))
	}()
	s.route(w, r)
}

// route finds the operation for a request. What has none gets a problem or a page
// where ServeMux would answer in plain text, and redirect paths such as /a/../b.
func (s *server) route(w http.ResponseWriter, r *http.Request) {
	if s.meet(w, r) || s.answerDirectly(w, r) {
		return
	}
	if path.Clean(r.URL.Path) != r.URL.Path {
		writeNoRoute(w, r)
		return
	}
	h, pattern := s.mux.Handler(r)
	if pattern != "" {
		if names := r.Header["Idempotency-Key"]; len(names) > 0 && names[0] == "" {
			// A script whose name for the request came out empty believes that it has one.
			writeProblem(w, newProblem(waypost.EInvalid, "the Idempotency-Key is empty; leave the header out, or give a key"))
			return
		}
		s.mux.ServeHTTP(w, r)
		return
	}
	var refusal refusal
	h.ServeHTTP(&refusal, r)
	if refusal.status != http.StatusMethodNotAllowed {
		writeNoRoute(w, r)
		return
	}
	p := newProblem(codeMethodNotAllowed, "see the Allow header for the methods that are")
	p.header.Set("Allow", refusal.Header().Get("Allow"))
	writeProblem(w, p)
}

// writeNoRoute tells a program that it has the wrong address, and a visitor that the
// link is wrong.
func writeNoRoute(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		writeProblem(w, newProblem(waypost.ENotFound, "the API has no such path; GET /openapi.json lists those that it has"))
		return
	}
	writePage(w, r, http.StatusNotFound)
}

// rescue answers a request whose handler panicked with cause, nil when it did not.
func (s *server) rescue(w *response, r *http.Request, cause any) {
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause) // how a handler tells net/http to cut the connection
	}
	s.log.ErrorContext(r.Context(), "a handler panicked", slog.String("route", r.Pattern),
		slog.String("panic", fmt.Sprint(cause)), slog.String("stack", string(debug.Stack())))
	if w.status == 0 {
		writeProblem(w, newProblem(waypost.EInternal, "internal error"))
	}
}

// response remembers the status that was answered.
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

// refusal takes what ServeMux says about a request without a route.
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

// exactRoot is a mux for which the path "/" is the root alone, as OpenAPI means
// it, and not everything below.
type exactRoot struct{ *http.ServeMux }

func (m exactRoot) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	if pattern == "GET /" {
		pattern = "GET /{$}"
	}
	m.ServeMux.HandleFunc(pattern, h)
}
