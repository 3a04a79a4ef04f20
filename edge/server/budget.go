package server

import (
	"github.com/valyala/fasthttp"

	"waypost"
	"waypost/rules"
)

// hides reports whether a request must not learn the target of a link: the link has a
// password or counts its visits, and this is no visit. Software that says so is no
// visitor of a link with granted clicks.
func (s *Server) hides(ctx *fasthttp.RequestCtx, visit *waypost.Visit, res *waypost.Resolution) bool {
	if res.Asks() {
		return visit.Preview // the page with the form discloses nothing
	}
	if !res.Link || !res.Gated {
		return false
	}
	header := &ctx.Request.Header
	return visit.Preview || !ctx.IsGet() || isPrefetch(header) || rules.RefusesBot(res, s.cfg.Agents, header.UserAgent())
}

// spend takes a click of a link's budget. If all clicks are spent, the answer becomes the
// redirect to the target for exhausted budgets, which is no click, or a status is
// returned. If this edge has no click and does not know more, the status is 503.
func (s *Server) spend(ctx *fasthttp.RequestCtx, domain waypost.DomainID, code []byte, res *waypost.Resolution) (status int) {
	spent, exhausted := false, false
	if s.cfg.Budgets != nil {
		spent, exhausted = s.cfg.Budgets.SpendOrAsk(ctx, domain, code)
	}
	switch {
	case spent:
		return 0
	case !exhausted:
		return fasthttp.StatusServiceUnavailable
	case res.Exhausted == nil:
		return fasthttp.StatusGone
	}
	*res = waypost.Resolution{Status: fasthttp.StatusFound, Location: res.Exhausted}
	return 0
}

// refuseClick answers a visit for which no click is left, or none at the moment.
func (s *Server) refuseClick(ctx *fasthttp.RequestCtx, c *conn, status int) {
	s.sendError(ctx, c, status)
	if status == fasthttp.StatusServiceUnavailable {
		ctx.Response.Header.SetCanonical(headerRetryAfter, retrySeconds)
	}
}
