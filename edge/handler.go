package edge

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"

	"github.com/valyala/fasthttp"

	"waypost"
)

// Header names and values are byte slices made once, because fasthttp copies from
// those without allocating.
var (
	headerLocation     = []byte("Location")
	headerCacheControl = []byte("Cache-Control")
	headerVary         = []byte("Vary")
	headerAllow        = []byte("Allow")
	headerRetryAfter   = []byte("Retry-After")
	headerStale        = []byte("Waypost-Stale")

	privateNoStore = []byte("private, no-store")
	noStore        = []byte("no-store")
	privateMaxAge  = []byte("private, max-age=")
	accept         = []byte("Accept")
	getAndHead     = []byte("GET, HEAD")
	retrySeconds   = []byte("5")

	healthy = []byte(`{"status":"healthy"}`)
)

var (
	errBadStatus   = errors.New("a record has no status that a redirect can have")
	errBadLocation = errors.New("a record has no location that a header can hold")
)

// handle answers one request. What it needs beside fasthttp's own buffers belongs
// to the connection, whose requests come one after the other.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	v := visitorOf(ctx)
	defer s.rescue(ctx, v)
	if s.draining.Load() {
		ctx.SetConnectionClose()
	}

	if !speaksHTTP1(&ctx.Request.Header) {
		s.refuse(ctx, v, fasthttp.StatusBadRequest)
		return
	}
	raw := ctx.Request.Header.RequestURI()
	if len(raw) > maxTarget {
		s.refuse(ctx, v, fasthttp.StatusRequestURITooLong)
		return
	}
	authority, segment, ok := splitTarget(raw)
	if !ok {
		s.refuse(ctx, v, fasthttp.StatusBadRequest)
		return
	}
	host, ok := hostOf(ctx, v, authority)
	if !ok {
		s.refuse(ctx, v, fasthttp.StatusBadRequest)
		return
	}

	switch string(segment) {
	case "":
		sendJSON(ctx, s.about)
	case "health":
		sendJSON(ctx, healthy)
	default:
		s.redirect(ctx, v, host, segment)
	}
}

// redirect answers for the code that segment may be.
func (s *Server) redirect(ctx *fasthttp.RequestCtx, v *visitor, host, segment []byte) {
	if !waypost.ValidCode(segment) {
		s.sendError(ctx, v, fasthttp.StatusNotFound)
		return
	}
	domain, ok := s.cfg.Links.Domain(host)
	if !ok {
		if s.cfg.StrictHosts {
			s.sendError(ctx, v, fasthttp.StatusNotFound)
			return
		}
		domain = waypost.DefaultDomain
	}
	record, buf, found, err := s.cfg.Links.Link(domain, segment, v.record[:0])
	v.keepRecord(buf)
	if err != nil {
		s.fail(ctx, v, err)
		return
	}
	res := waypost.NotFound
	if found {
		var now int64 // a link that never expires does not ask
		if record.ExpiresAt != 0 {
			now = s.cfg.Clock().UnixMilli()
		}
		res = waypost.Resolve(&record, now)
	}
	switch res.Status {
	case 301, 302, 307, 308:
		if s.sendRedirect(ctx, v, res) && s.cfg.Clicks != nil && ctx.IsGet() {
			s.cfg.Clicks.Record(domain, segment, s.cfg.Clock().UnixMilli())
		}
	case 404, 410:
		s.sendError(ctx, v, res.Status)
	default:
		s.fail(ctx, v, errBadStatus)
	}
}

// sendRedirect reports whether the answer is a redirect.
func (s *Server) sendRedirect(ctx *fasthttp.RequestCtx, v *visitor, res waypost.Resolution) bool {
	if !fitsHeader(res.Location) {
		s.fail(ctx, v, errBadLocation)
		return false
	}
	header := &ctx.Response.Header
	ctx.Response.SetStatusCode(res.Status)
	header.SetCanonical(headerLocation, res.Location)
	if res.MaxAge > 0 {
		v.text = strconv.AppendInt(append(v.text[:0], privateMaxAge...), res.MaxAge, 10)
		header.SetCanonical(headerCacheControl, v.text)
	} else {
		header.SetCanonical(headerCacheControl, privateNoStore)
	}
	if s.cfg.MaxStaleness > 0 {
		if age := s.cfg.Staleness(); age > s.cfg.MaxStaleness {
			v.text = strconv.AppendInt(v.text[:0], int64(age.Seconds()), 10)
			header.SetCanonical(headerStale, v.text)
		}
	}
	if ctx.IsHead() {
		header.SetContentLength(0) // which fasthttp says by itself only for GET
	}
	v.stripe.count(res.Status)
	return true
}

// fitsHeader reports whether a location can stand in a header as it is. The
// control plane has judged it long ago; this is against records that went bad.
func fitsHeader(location []byte) bool {
	return len(location) > 0 && bytes.IndexByte(location, '\r') < 0 &&
		bytes.IndexByte(location, '\n') < 0 && bytes.IndexByte(location, 0) < 0
}

// sendError answers with the page or problem document of status.
func (s *Server) sendError(ctx *fasthttp.RequestCtx, v *visitor, status int) {
	contentType, body := waypost.ErrorBody(status, waypost.AcceptsHTML(ctx.Request.Header.PeekCanonical(accept)))
	header := &ctx.Response.Header
	ctx.Response.SetStatusCode(status)
	header.SetContentType(contentType)
	header.SetCanonical(headerCacheControl, noStore)
	header.SetCanonical(headerVary, accept)
	ctx.Response.SetBodyRaw(body)
	v.stripe.count(status)
}

// fail answers 503: the link may be there, but this node cannot tell. Of many
// failures it logs one per second.
func (s *Server) fail(ctx *fasthttp.RequestCtx, v *visitor, err error) {
	s.sendError(ctx, v, fasthttp.StatusServiceUnavailable)
	ctx.Response.Header.SetCanonical(headerRetryAfter, retrySeconds)
	v.stripe.errors.Add(1)
	second := s.cfg.Clock().Unix()
	if last := s.loggedFail.Load(); last != second && s.loggedFail.CompareAndSwap(last, second) {
		s.cfg.Logger.Error("a link could not be read", slog.Any("error", err))
	}
}

// rescue keeps one request that panics from ending the process: fasthttp does not.
func (s *Server) rescue(ctx *fasthttp.RequestCtx, v *visitor) {
	p := recover()
	if p == nil {
		return
	}
	ctx.Response.Reset()
	s.sendError(ctx, v, fasthttp.StatusInternalServerError)
	ctx.SetConnectionClose()
	v.stripe.errors.Add(1)
	s.cfg.Logger.Error("a redirect panicked", slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
}

func sendJSON(ctx *fasthttp.RequestCtx, body []byte) {
	header := &ctx.Response.Header
	header.SetContentType("application/json")
	header.SetCanonical(headerCacheControl, noStore)
	ctx.Response.SetBodyRaw(body)
}
