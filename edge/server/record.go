package server

import (
	"bytes"
	"net/netip"
	"time"

	"waypost"
)

// clickTime dates a click. Now is the system's time.
func (s *Server) clickTime(now time.Time) int64 {
	if s.ownClock {
		now = s.cfg.Clock()
	}
	return now.UnixMilli()
}

// record notes a click. The journal copies what it keeps. The client's address goes
// into it sealed, and of the referrer nothing behind the host. Whether the agent is a bot is judged
// later, where it is read.
func (s *Server) record(v *visitor, domain waypost.DomainID, code, agent, referrer []byte, client netip.Addr, at int64) {
	c := waypost.Click{
		Domain: domain, Code: code, At: at,
		Agent: agent[:min(len(agent), waypost.MaxAgent)], Referrer: originOf(referrer),
	}
	if s.cfg.Sealer != nil {
		s.cfg.Sealer.Seal(&v.sealed, client, c.At)
		c.Address = v.sealed
	}
	s.cfg.Clicks.Record(c)
}

var authority = []byte("://")

// originOf gives what a Referer begins with, up to the end of the host and its port:
// paths and queries are nobody's business. What is no URL gives nothing.
func originOf(referrer []byte) []byte {
	referrer = referrer[:min(len(referrer), waypost.MaxReferrer)]
	i := bytes.Index(referrer, authority)
	if i < 0 {
		return nil
	}
	for end := i + len(authority); end < len(referrer); end++ {
		switch referrer[end] {
		case '/', '?', '#', '\\':
			return referrer[:end]
		}
	}
	return referrer
}
