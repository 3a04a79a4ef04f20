package server

import (
	"math/rand/v2"
	"time"

	"github.com/valyala/fasthttp"

	"waypost"
	"waypost/edge/fastpath"
	"waypost/internal/codes"
	"waypost/rules"
)

// asked is the request that a visit comes from, as one of the two paths has read it.
type asked struct {
	fast *fastpath.Request
	http *fasthttp.RequestCtx

	passed, confirmed bool // by a form
}

// domainOf returns the domain of a host, and false for a host that belongs to none.
func (s *Server) domainOf(host []byte) (waypost.DomainID, bool) {
	domain, ok := s.cfg.Links.Domain(host)
	if !ok && !s.cfg.StrictHosts {
		return waypost.DefaultDomain, true
	}
	return domain, ok
}

// decide returns the answer to a visit to a host, and leaves the visit at the code that
// decided. The answer and the visit are good until the connection's next request.
func (s *Server) decide(c *conn, host []byte, visit *waypost.Visit, by asked) (waypost.DomainID, waypost.Resolution, error) {
	domain, ok := s.domainOf(host)
	if !ok {
		return domain, waypost.NotFound, nil
	}
	res := waypost.NotFound
	var record waypost.Record
	switch found, buf, policy, err := s.find(c, domain, host, visit, &record); {
	case err != nil:
		return domain, res, err
	case policy != 0:
		return domain, waypost.Blocked(policy), nil
	case found:
		res = s.resolveRecord(c, &record, nowFor(&record, s.cfg.Clock), visit, by)
		res, buf = res.Follow(buf, visit)
		keep(&c.record, buf)
	default:
		c.recordUnknown(domain, waypost.LedNowhere, visit, by)
	}
	if res.Status == waypost.NotFound.Status || (res.Link || res.Asks()) && s.cfg.Links.Maintained(domain) {
		res = s.cfg.Links.Targets(domain).InsteadOf(res)
	}
	return domain, res, nil
}

// find moves a visit to the first of its codes that is blocked or that has a link for the
// visit. The record refers to buf.
func (s *Server) find(
	c *conn, domain waypost.DomainID, host []byte, visit *waypost.Visit, record *waypost.Record,
) (found bool, buf []byte, policy waypost.BlockPolicy, err error) {
	for c.walk.Start(visit); c.walk.Next(visit); {
		if policy := s.blocked(domain, host, visit.Code); policy != 0 {
			return false, nil, policy, nil
		}
		*record, buf, found, err = s.cfg.Links.Link(domain, visit.Code, c.record[:0])
		if found && err == nil && codes.Leads(visit, record) {
			return true, buf, 0, nil
		}
		if keep(&c.record, buf); err != nil {
			return false, nil, 0, err
		}
	}
	return false, nil, 0, nil
}

// nowFor returns the time by which a record is judged. A link that never expires needs no
// clock.
func nowFor(record *waypost.Record, clock func() time.Time) int64 {
	if record.ExpiresAt == 0 {
		return 0
	}
	return clock().UnixMilli()
}

// resolveRecord decides by a record and, if it has rules, by facts about the visitor.
func (s *Server) resolveRecord(c *conn, record *waypost.Record, now int64, visit *waypost.Visit, by asked) waypost.Resolution {
	if len(record.Programme) == 0 {
		return waypost.Resolve(record, now)
	}
	required := rules.RequiredFacts(record.Programme)
	r := rules.Request{At: now, Query: visit.Query, Agents: s.cfg.Agents}
	if required&rules.FactTime != 0 {
		r.At = s.cfg.Clock().UnixMilli()
	}
	if by.fast != nil {
		r.UserAgent, r.AcceptLanguage, r.Cookie = by.fast.Agent, by.fast.AcceptLanguage, by.fast.Cookie
	} else {
		header := &by.http.Request.Header
		r.UserAgent = header.UserAgent()
		r.AcceptLanguage, r.Cookie = header.Peek(fasthttp.HeaderAcceptLanguage), header.Peek(fasthttp.HeaderCookie)
	}
	if required&(rules.FactAddress|rules.FactVisitor|rules.FactPlace) != 0 {
		r.Address = s.clientOf(c, by)
	}
	if required&rules.FactChance != 0 {
		r.Chance = uint16(rand.Uint32()) //nolint:gosec // chance, no secret
	}
	var facts rules.Facts
	facts.Read(required, &r)
	facts.Passed, facts.Confirmed = by.passed, by.confirmed
	if required&rules.FactPlace != 0 && s.cfg.Locator != nil {
		facts.Country, facts.City = s.cfg.Locator.Locate(r.Address)
	}
	res := rules.Resolve(record, &facts)
	if res.Broken && (by.http != nil || res.Status != fasthttp.StatusServiceUnavailable) { // the fast path declines a 503
		c.stripe.broken.Add(1)
	}
	return res
}

// isOwnPath reports whether a path, without its first slash, is one of the server's own
// that could be a code.
func isOwnPath(path []byte) bool { return string(path) == "health" || assetAt(path) != nil }
