package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"waypost"
)

// rootTimeLimit is for the question where the root leads. Who asks for the root may
// be a program that wants to know whether the service is there, which it is without
// a database.
const rootTimeLimit = time.Second

// meet answers what is for visitors alone and no operation of the API: assets, the
// root of a domain that leads somewhere, and paths below a code.
func (s *server) meet(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	v := visitOf(r)
	switch {
	case v.IsRoot():
		return s.leaveRoot(w, r)
	case v.Rest == nil:
		asset := waypost.AssetAt(v.Code)
		if asset != nil {
			writeAsset(w, r, asset)
		}
		return asset != nil
	case waypost.ValidCode(v.Code) && !waypost.ReservedCode(string(v.Code)):
		r.Pattern = "GET /{code}/{rest...}" // for the metrics
		s.follow(w, r, &v)
		return true
	}
	return false
}

// visitOf takes the request apart as it was sent: net/http decodes a path, edges do
// not.
func visitOf(r *http.Request) waypost.Visit {
	target := r.RequestURI
	if !strings.HasPrefix(target, "/") { // the absolute form
		_, rest, _ := strings.Cut(target, "://")
		target = ""
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			target = rest[i:]
		}
	}
	return waypost.ParseVisit([]byte(target))
}

// leaveRoot redirects from the root of a domain that leads somewhere.
func (s *server) leaveRoot(w http.ResponseWriter, r *http.Request) bool {
	if s.domains == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(r.Context(), rootTimeLimit)
	defer cancel()
	res, leads, err := s.domains.Root(ctx, r.Host)
	if err != nil {
		s.log.WarnContext(ctx, "nobody knows where the root leads", slog.Any("error", err))
	}
	if err != nil || !leads {
		return false
	}
	s.writeRedirect(w, r, &res)
	return true
}

func writePreview(w http.ResponseWriter, r *http.Request, v *waypost.Visit, res *waypost.Resolution) {
	contentType, body := waypost.Preview(v.Code, res, waypost.AcceptsHTML(strings.Join(r.Header.Values("Accept"), ",")))
	h := w.Header()
	for _, header := range waypost.PreviewHeaders {
		h.Set(header.Name, header.Value)
	}
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Vary", "Accept")
	// An error means that the visitor has left.
	_, _ = w.Write(body)
}

func writeAsset(w http.ResponseWriter, r *http.Request, a *waypost.Asset) {
	h := w.Header()
	h.Set("Cache-Control", waypost.AssetAge)
	h.Set("ETag", a.ETag)
	if a.Known([]byte(strings.Join(r.Header.Values("If-None-Match"), ","))) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", a.ContentType)
	h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	// An error means that the visitor has left.
	_, _ = w.Write(a.Body)
}
