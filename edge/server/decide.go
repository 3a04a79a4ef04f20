package server

import (
	"math/rand/v2"

	"github.com/valyala/fasthttp"

	"waypost"
	"waypost/edge/fastpath"
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

// decide returns the answer to a visit to a host. The answer is good until the
// connection's next request.
func (s *Server) decide(c *conn, host []byte, visit *waypost.Visit, by asked) (waypost.DomainID, waypost.Resolution, error) {
	domain, ok := s.domainOf(host)
	if !ok {
		return domain, waypost.NotFound, nil
	}
	if policy := s.blocked(domain, host, visit.Code); policy != 0 {
		return domain, waypost.Blocked(policy), nil
	}
	res, err := s.resolve(c, domain, visit, by)
	if err == nil && (res.Status == waypost.NotFound.Status || (res.Link || res.Asks()) && s.cfg.Links.Maintained(domain)) {
		res = s.cfg.Links.Targets(domain).InsteadOf(res)
	}
	return domain, res, err
}

// resolve looks a visit up in the replica.
func (s *Server) resolve(c *conn, domain waypost.DomainID, visit *waypost.Visit, by asked) (waypost.Resolution, error) {
	if !waypost.ValidCode(visit.Code) {
		return waypost.NotFound, nil
	}
	record, buf, found, err := s.cfg.Links.Link(domain, visit.Code, c.record[:0])
	if err != nil || !found {
		keep(&c.record, buf)
		return waypost.NotFound, err
	}
	var now int64 // a link that never expires needs no clock
	if record.ExpiresAt != 0 {
		now = s.cfg.Clock().UnixMilli()
	}
	res := s.resolveRecord(c, &record, now, visit, by)
	res, buf = res.Follow(buf, visit)
	keep(&c.record, buf)
	return res, nil
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

// isOwnPath reports whether a path that could be a code is one of the server's own.
func isOwnPath(code []byte) bool { return string(code) == "health" }
