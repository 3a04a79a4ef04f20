package server

import (
	"bytes"
	"net/netip"
	"time"

	"waypost"
)

// clickTime dates a click, in Unix milliseconds. now is the system's time.
func (s *Server) clickTime(now time.Time) int64 {
	if s.ownClock {
		now = s.cfg.Clock()
	}
	return now.UnixMilli()
}

// recordClick hands a click to the journal, which copies the fields that it keeps. The
// client's address is sealed first, and the referrer is cut behind its host. Of the query
// the utm parameters are kept, if the domain counts them. Whether the agent is a bot is
// judged later, when the click is read. An address that a pattern answers is counted like
// one that names no link.
func (s *Server) recordClick(c *conn, click waypost.Click, visit *waypost.Visit, client netip.Addr) {
	if s.cfg.Unknown != nil && waypost.IsPattern(click.Code) {
		s.cfg.Unknown.Record(waypost.UnknownVisit{
			Domain: click.Domain, Traits: c.finder.at.traits, Kind: waypost.LedByPattern, Path: visit.Path, Agent: click.Agent,
			From: client, At: click.At,
		})
	}
	if query := visit.Query; len(query) > 0 && waypost.HasUTM(query) && s.cfg.Links.Targets(click.Domain).CountUTM {
		c.utm = waypost.AppendUTM(c.utm[:0], query)
		click.UTM = c.utm
	}
	click.Agent, click.Referrer = click.Agent[:min(len(click.Agent), waypost.MaxAgent)], originOf(click.Referrer)
	if s.cfg.Sealer != nil {
		s.cfg.Sealer.Seal(&c.sealed, client, click.At)
		click.Address = c.sealed
	}
	s.cfg.Clicks.Record(click)
}

// recordUnknown hands a visit of an address that names no link to the counter of unknown
// addresses. The agent is cut later.
func (c *conn) recordUnknown(domain waypost.DomainID, traits waypost.DomainTraits, visit *waypost.Visit, by asked) {
	s := c.server
	if s.cfg.Unknown == nil || by.http != nil && (!by.http.IsGet() || isPrefetch(&by.http.Request.Header)) {
		return
	}
	v := waypost.UnknownVisit{
		Domain: domain, Traits: traits, Kind: waypost.LedNowhere, Path: visit.Path, From: s.clientOf(c, by), At: s.cfg.Clock().UnixMilli(),
	}
	if by.fast != nil {
		v.Agent = by.fast.Agent
	} else {
		v.Agent = by.http.Request.Header.UserAgent()
	}
	s.cfg.Unknown.Record(v)
}

var authorityMark = []byte("://")

// originOf returns the beginning of a Referer up to the end of its host and port, because
// paths and queries are private. It returns nothing for text that is no URL.
func originOf(referrer []byte) []byte {
	referrer = referrer[:min(len(referrer), waypost.MaxReferrer)]
	i := bytes.Index(referrer, authorityMark)
	if i < 0 {
		return nil
	}
	for end := i + len(authorityMark); end < len(referrer); end++ {
		switch referrer[end] {
		case '/', '?', '#', '\\':
			return referrer[:end]
		}
	}
	return referrer
}

// clientOf returns the address of the client: the other end, or the address in the PROXY
// header, or, behind a trusted proxy, the right-most untrusted address in
// X-Forwarded-For. It does not allocate. The address must be neither logged nor kept.
func (s *Server) clientOf(c *conn, by asked) netip.Addr {
	switch {
	case !c.trusted:
		return c.peer
	case by.fast != nil:
		c.forwarded[0] = by.fast.ForwardedFor
		return s.trusted.Client(c.peer, c.forwarded[:])
	}
	return s.trusted.Client(c.peer, by.http.Request.Header.PeekAll("X-Forwarded-For"))
}
