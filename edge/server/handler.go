package server

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
	authority, path, ok := splitTarget(raw)
	if !ok {
		s.refuse(ctx, v, fasthttp.StatusBadRequest)
		return
	}
	host, ok := hostOf(ctx, v, authority)
	if !ok {
		s.refuse(ctx, v, fasthttp.StatusBadRequest)
		return
	}

	visit := waypost.ParseVisit(path)
	if visit.Rest == nil && !visit.Preview {
		switch {
		case len(visit.Code) == 0:
			s.root(ctx, v, host)
			return
		case isOwnPath(visit.Code):
			sendJSON(ctx, healthy)
			return
		}
		if asset := waypost.AssetAt(visit.Code); asset != nil {
			sendAsset(ctx, asset)
			return
		}
	}
	s.visit(ctx, v, host, &visit)
}

// isOwnPath reports whether what could be a code is the path of an answer of ours.
func isOwnPath(code []byte) bool { return string(code) == "health" }

// domainOf gives the domain that a request for a host is about, and false when it
// is about none.
func (s *Server) domainOf(host []byte) (waypost.DomainID, bool) {
	domain, ok := s.cfg.Links.Domain(host)
	if !ok && !s.cfg.StrictHosts {
		return waypost.DefaultDomain, true
	}
	return domain, ok
}

// root answers for the domain itself.
func (s *Server) root(ctx *fasthttp.RequestCtx, v *visitor, host []byte) {
	if domain, ok := s.domainOf(host); ok {
		if res, leads := s.cfg.Links.Targets(domain).AtRoot(); leads {
			s.sendRedirect(ctx, v, &res)
			return
		}
	}
	sendJSON(ctx, s.about)
}

// visit answers for the code that a visit may be to.
func (s *Server) visit(ctx *fasthttp.RequestCtx, v *visitor, host []byte, visit *waypost.Visit) {
	domain, res, err := s.decide(v, host, visit)
	if err != nil {
		s.fail(ctx, v, err)
		return
	}
	switch res.Status {
	case 301, 302, 307, 308:
	case 400, 404, 410, 414:
		s.sendError(ctx, v, res.Status)
		return
	default:
		s.fail(ctx, v, errBadStatus)
		return
	}
	if !res.Link {
		s.sendRedirect(ctx, v, &res)
		return
	}
	if visit.Preview {
		s.sendPreview(ctx, v, visit.Code, &res)
		return
	}
	prefetch := isPrefetch(&ctx.Request.Header)
	if prefetch {
		res.MaxAge = 0 // or the visit itself would never come here
	}
	if s.sendRedirect(ctx, v, &res) && s.cfg.Clicks != nil && ctx.IsGet() && !prefetch {
		header := &ctx.Request.Header
		s.record(v, domain, visit.Code, header.UserAgent(), header.Referer(), s.clientOf(ctx, v), s.cfg.Clock().UnixMilli())
	}
}

// decide gives the answer to a visit to a host. It is good until the connection's
// next request.
func (s *Server) decide(v *visitor, host []byte, visit *waypost.Visit) (waypost.DomainID, waypost.Resolution, error) {
	domain, ok := s.domainOf(host)
	if !ok {
		return domain, waypost.NotFound, nil
	}
	res, err := s.resolve(v, domain, visit)
	if err == nil && res.Status == fasthttp.StatusNotFound {
		res = s.cfg.Links.Targets(domain).InsteadOf(res)
	}
	return domain, res, err
}

// resolve finds what the replica says about a visit. The answer is good until the
// connection's next request.
func (s *Server) resolve(v *visitor, domain waypost.DomainID, visit *waypost.Visit) (waypost.Resolution, error) {
	if !waypost.ValidCode(visit.Code) {
		return waypost.NotFound, nil
	}
	record, buf, found, err := s.cfg.Links.Link(domain, visit.Code, v.record[:0])
	if err != nil || !found {
		v.keepRecord(buf)
		return waypost.NotFound, err
	}
	var now int64 // a link that never expires does not ask
	if record.ExpiresAt != 0 {
		now = s.cfg.Clock().UnixMilli()
	}
	res, buf := waypost.Resolve(&record, now).Follow(buf, visit)
	v.keepRecord(buf)
	return res, nil
}

// sendRedirect reports whether the answer is a redirect.
func (s *Server) sendRedirect(ctx *fasthttp.RequestCtx, v *visitor, res *waypost.Resolution) bool {
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
	if seconds, stale := s.staleSeconds(); stale {
		v.text = strconv.AppendInt(v.text[:0], seconds, 10)
		header.SetCanonical(headerStale, v.text)
	}
	if ctx.IsHead() {
		header.SetContentLength(0) // which fasthttp says by itself only for GET
	}
	v.stripe.count(res.Status)
	return true
}

// staleSeconds gives the age of a replica that is older than it should be.
func (s *Server) staleSeconds() (seconds int64, stale bool) {
	if s.cfg.MaxStaleness <= 0 {
		return 0, false
	}
	age := s.cfg.Staleness()
	return int64(age.Seconds()), age > s.cfg.MaxStaleness
}

// fitsHeader reports whether a location can stand in a header as it is. The
// control plane has judged it long ago; this is against records that went bad.
func fitsHeader(location []byte) bool {
	return len(location) > 0 && bytes.IndexByte(location, '\r') < 0 &&
		bytes.IndexByte(location, '\n') < 0 && bytes.IndexByte(location, 0) < 0
}

// sendError answers with the page or problem document of status.
func (s *Server) sendError(ctx *fasthttp.RequestCtx, v *visitor, status int) {
	contentType, body := waypost.ErrorBody(status, asksForPage(&ctx.Request.Header))
	header := &ctx.Response.Header
	ctx.Response.SetStatusCode(status)
	header.SetContentType(contentType)
	header.SetCanonical(headerCacheControl, noStore)
	header.SetCanonical(headerVary, accept)
	ctx.Response.SetBodyRaw(body)
	v.stripe.count(status)
}

// asksForPage reports whether a client wants a page rather than JSON. Several Accept lines are one list
// (RFC 9110, section 5.3).
func asksForPage(header *fasthttp.RequestHeader) bool {
	lines := header.PeekAll(fasthttp.HeaderAccept)
	if len(lines) == 1 {
		return waypost.AcceptsHTML(lines[0])
	}
	return waypost.AcceptsHTML(bytes.Join(lines, []byte(",")))
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
