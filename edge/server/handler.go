package server

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"

	"waypost"
	"waypost/rules"
)

var (
	headerAllow      = []byte("Allow")
	headerRetryAfter = []byte("Retry-After")

	getAndHead   = []byte("GET, HEAD")
	retrySeconds = []byte("5")

	healthy = []byte(`{"status":"healthy"}`)
)

// handle answers a request that fasthttp has read.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	c := connOf(ctx)
	defer s.rescue(ctx, c)
	if c.isTimed() {
		began := time.Now()
		defer func() { s.metrics.durations.Observe(time.Since(began).Seconds()) }()
	}
	c.requests++
	posted := len(ctx.Request.Body()) > 0 // see refuseBody
	if posted || s.draining.Load() {
		ctx.SetConnectionClose() // see lineGuard
	}

	if !speaksHTTP1(&ctx.Request.Header) {
		s.refuse(ctx, c, fasthttp.StatusBadRequest)
		return
	}
	raw := ctx.Request.Header.RequestURI()
	if len(raw) > maxTarget {
		s.refuse(ctx, c, fasthttp.StatusRequestURITooLong)
		return
	}
	authority, path, ok := splitTarget(raw)
	if !ok {
		s.refuse(ctx, c, fasthttp.StatusBadRequest)
		return
	}
	host, ok := hostOf(ctx, c, authority)
	if !ok {
		s.refuse(ctx, c, fasthttp.StatusBadRequest)
		return
	}

	if !wellEscaped(path) {
		s.sendError(ctx, c, fasthttp.StatusBadRequest)
		return
	}

	visit := waypost.ParseVisit(path)
	if posted {
		s.takeForm(ctx, c, host, &visit)
		return
	}
	switch file := assetAt(visit.Path); {
	case len(visit.Path) == 0:
		s.root(ctx, c, host)
		return
	case file != nil:
		file.send(ctx)
		return
	case isOwnPath(visit.Path):
		sendJSON(ctx, healthy)
		return
	}
	s.visit(ctx, c, host, &visit)
}

// wellEscaped reports whether each percent sign of a path, before its query, begins an
// escape. The control plane reads no other path, and fasthttp reads all.
func wellEscaped(path []byte) bool {
	path, _, _ = bytes.Cut(path, []byte("?"))
	for {
		at := bytes.IndexByte(path, '%')
		if at < 0 {
			return true
		}
		if _, ok := waypost.Unescape(path[at:]); !ok {
			return false
		}
		path = path[at+1:]
	}
}

// root answers for the domain itself.
func (s *Server) root(ctx *fasthttp.RequestCtx, c *conn, host []byte) {
	if domain, _, ok := s.domainOf(host); ok {
		if res, leads := s.cfg.Links.Targets(domain).AtRoot(); leads {
			s.sendRedirect(ctx, c, &res, cookie{})
			return
		}
	}
	sendJSON(ctx, s.about)
}

// visit answers for the code of a visit.
func (s *Server) visit(ctx *fasthttp.RequestCtx, c *conn, host []byte, visit *waypost.Visit) {
	by := asked{http: ctx}
	domain, res, err := s.decide(c, host, visit, by)
	if err == nil && res.Status == fasthttp.StatusServiceUnavailable {
		err = errBadProgramme
	}
	if err != nil {
		s.fail(ctx, c, err)
		return
	}
	if res.Blocked {
		s.sendBlocked(ctx, c, &res)
		return
	}
	switch res.Status {
	case 400, 404, 410, 414:
		s.sendError(ctx, c, res.Status)
		return
	}
	if s.hides(ctx, visit, &res) {
		s.sendError(ctx, c, fasthttp.StatusForbidden)
		return
	}
	if res.Asks() {
		s.sendForm(ctx, c, &res, fasthttp.StatusOK)
		return
	}
	s.redirectVisitor(ctx, c, domain, visit, &res, by)
}

// redirectVisitor answers a visit with the redirect of its resolution, and counts the
// click.
func (s *Server) redirectVisitor(
	ctx *fasthttp.RequestCtx, c *conn, domain waypost.DomainID, visit *waypost.Visit, resolved *waypost.Resolution, by asked,
) {
	res := *resolved
	if rules.Limited(&res) {
		if status := s.spend(ctx, c.finder.at.record.Domain, c.finder.at.record.Name, &res); status != 0 {
			s.refuseClick(ctx, c, status)
			return
		}
	}
	if res.Link && visit.Preview && res.Redirects() {
		s.sendPreview(ctx, c, visit.Code, &res)
		return
	}
	prefetch := res.Link && isPrefetch(&ctx.Request.Header)
	if prefetch {
		res.MaxAge = 0 // or the visit would be answered from the browser's cache
	}
	if by.confirmed {
		res.Status = fasthttp.StatusSeeOther // the target is to be asked by GET
	}
	if s.sendRedirect(ctx, c, &res, c.finder.cookie(visit)) && res.Link && s.cfg.Clicks != nil && ctx.IsGet() && !prefetch {
		header := &ctx.Request.Header
		s.recordClick(c, waypost.Click{
			Domain: domain, Code: visit.Code, Rule: res.Rule, Variant: res.Variant,
			Agent: header.UserAgent(), Referrer: header.Referer(), At: s.cfg.Clock().UnixMilli(),
		}, visit, s.clientOf(c, by))
	}
}

// sendRedirect reports whether the answer is a redirect, and not a failure.
func (s *Server) sendRedirect(ctx *fasthttp.RequestCtx, c *conn, res *waypost.Resolution, of cookie) bool {
	a, err := s.redirect(res, of)
	if err != nil {
		s.fail(ctx, c, err)
		return false
	}
	s.send(ctx, c, &a)
	return true
}

// sendError answers with the page or problem document of status.
func (s *Server) sendError(ctx *fasthttp.RequestCtx, c *conn, status int) {
	a := problem(status, wantsPage(&ctx.Request.Header))
	s.send(ctx, c, &a)
}

func (s *Server) send(ctx *fasthttp.RequestCtx, c *conn, a *answer) {
	c.text = a.set(ctx, c.text)
	c.stripe.count(a.status)
}

// wantsPage reports whether a client prefers a page to JSON. Several Accept lines are one
// list (RFC 9110, section 5.3).
func wantsPage(header *fasthttp.RequestHeader) bool {
	lines := header.PeekAll(fasthttp.HeaderAccept)
	if len(lines) == 1 {
		return acceptsHTML(lines[0])
	}
	return acceptsHTML(bytes.Join(lines, []byte(",")))
}

// fail answers 503: the link may exist, but this node cannot read it. It logs one of many
// failures a second.
func (s *Server) fail(ctx *fasthttp.RequestCtx, c *conn, err error) {
	s.sendError(ctx, c, fasthttp.StatusServiceUnavailable)
	ctx.Response.Header.SetCanonical(headerRetryAfter, retrySeconds)
	c.stripe.errors.Add(1)
	second := s.cfg.Clock().Unix()
	if last := s.loggedFail.Load(); last != second && s.loggedFail.CompareAndSwap(last, second) {
		s.cfg.Logger.Error("cannot read a link", "error", err)
	}
}

// rescue keeps a panic in one request from ending the process, which fasthttp does not.
func (s *Server) rescue(ctx *fasthttp.RequestCtx, c *conn) {
	p := recover()
	if p == nil {
		return
	}
	ctx.Response.Reset()
	s.sendError(ctx, c, fasthttp.StatusInternalServerError)
	ctx.SetConnectionClose()
	s.logPanic(c, p)
}

// logPanic counts a panic and logs it with the stack, at most once a second.
func (s *Server) logPanic(c *conn, p any) {
	c.stripe.errors.Add(1)
	s.panics.Do(func() {
		s.cfg.Logger.Error("recovered from a panic of a redirect", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	})
}

func sendJSON(ctx *fasthttp.RequestCtx, body []byte) {
	harden(ctx)
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.Header.Set("Cache-Control", noStore)
	ctx.Response.SetBodyRaw(body)
}
