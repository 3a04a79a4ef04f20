package httpapi

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"waypost"
)

func (s *server) registerRedirect() {
	handle(s, huma.Operation{
		OperationID:   "redirect",
		Method:        http.MethodGet,
		Path:          "/{code}",
		Summary:       "Follow a link",
		Description:   "The same redirect as an edge gives, at once by whatever was written through this control plane. It is not counted: only edges, which visitors are sent to, keep a journal of clicks. With a plus sign behind the code the answer is 200 and tells where the link leads. Links that forward paths answer below /{code}/ as well.",
		DefaultStatus: http.StatusFound,
		Responses:     redirects(),
	}, s.redirect)

	// ServeMux sends HEAD the way of GET, so it needs to be described only.
	document := s.api.OpenAPI()
	head := *document.Paths["/{code}"].Get
	head.OperationID, head.Method, head.Summary = "redirect-head", http.MethodHead, "See where a link leads"
	document.AddOperation(&head)
}

func (s *server) redirect(_ context.Context, _ *codeInput) (*huma.StreamResponse, error) {
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		r, w := humago.Unwrap(ctx)
		v := visitOf(r) // and not huma's code, which is decoded
		s.follow(w, r, &v)
	}}, nil
}

// follow answers a visit to a code.
func (s *server) follow(w http.ResponseWriter, r *http.Request, v *waypost.Visit) {
	res, err := s.links.Resolve(r.Context(), r.Host, v)
	switch {
	case err != nil:
		writePage(w, r, s.problem(r.Context(), "redirect", err).Status)
	case !res.Redirects():
		writePage(w, r, res.Status)
	case v.Preview && res.Link:
		writePreview(w, r, v, &res)
	default:
		s.writeRedirect(w, r, &res)
	}
}

func (s *server) writeRedirect(w http.ResponseWriter, r *http.Request, res *waypost.Resolution) {
	// The target was judged long ago; this is against a record that went bad.
	if len(res.Location) == 0 || bytes.ContainsAny(res.Location, "\r\n\x00") {
		s.log.ErrorContext(r.Context(), "a record has no location that a header can hold", slog.String("path", r.URL.Path))
		writePage(w, r, http.StatusServiceUnavailable)
		return
	}
	h := w.Header()
	// http.Redirect would parse the target and change it.
	h["Location"] = []string{string(res.Location)}
	h.Set("Cache-Control", "private, no-store")
	if res.MaxAge > 0 {
		h.Set("Cache-Control", "private, max-age="+strconv.FormatInt(res.MaxAge, 10))
	}
	w.WriteHeader(res.Status)
}

// writePage answers a visitor for whom there is no redirect, in HTML or as a
// problem.
func writePage(w http.ResponseWriter, r *http.Request, status int) {
	contentType, body := waypost.ErrorBody(status, waypost.AcceptsHTML(strings.Join(r.Header.Values("Accept"), ",")))
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Vary", "Accept")
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", kinds[waypost.EUnavailable].retryAfter)
	}
	w.WriteHeader(status)
	// An error means that the visitor has left.
	_, _ = w.Write(body)
}
