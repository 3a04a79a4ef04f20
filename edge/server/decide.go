package server

import (
	"math/rand/v2"
	"time"

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

// domainOf returns the domain that answers for a host, and false if no domain does.
func (s *Server) domainOf(host []byte) (id waypost.DomainID, traits waypost.DomainTraits, ok bool) {
	id, traits, known := s.cfg.Links.Domain(host)
	return id, traits, known || !s.cfg.StrictHosts
}

// decide returns the answer to a visit to a host, and leaves the visit at the code that
// decided. The answer and the visit are good until the connection's next request.
func (s *Server) decide(c *conn, host []byte, visit *waypost.Visit, by asked) (waypost.DomainID, waypost.Resolution, error) {
	domain, traits, ok := s.domainOf(host)
	if !ok {
		return domain, waypost.NotFound, nil
	}
	res := waypost.NotFound
	found, err := c.finder.Find(s.cfg.Links, s.cfg.Blocks, domain, traits, host, visit)
	switch {
	case err != nil:
		return domain, res, err
	case found.Policy != 0:
		return domain, waypost.Blocked(found.Policy), nil
	case found.Record != nil:
		res = s.resolveRecord(c, found.Record, nowFor(found.Record, s.cfg.Clock), visit, by)
		var buf []byte
		res, buf = res.Follow(c.finder.at.buf, visit)
		keep(&c.finder.at.buf, buf)
	default:
		if c.finder.at.broken {
			c.stripe.broken.Add(1)
		}
		c.recordUnknown(domain, traits, visit, by)
	}
	if res.Status == waypost.NotFound.Status || (res.Link || res.Asks()) && traits&waypost.Maintained != 0 {
		res = s.cfg.Links.Targets(domain).InsteadOf(res)
	}
	return domain, res, nil
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
	r := rules.Request{At: now, Query: visit.Query, Link: rules.CookieNumber(record), Agents: s.cfg.Agents}
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
