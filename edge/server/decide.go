package server

import (
	"waypost"
)

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
func (s *Server) decide(c *conn, host []byte, visit *waypost.Visit) (waypost.DomainID, waypost.Resolution, error) {
	domain, ok := s.domainOf(host)
	if !ok {
		return domain, waypost.NotFound, nil
	}
	res, err := s.resolve(c, domain, visit)
	if err == nil && res.Status == waypost.NotFound.Status {
		res = s.cfg.Links.Targets(domain).InsteadOf(res)
	}
	return domain, res, err
}

// resolve looks a visit up in the replica.
func (s *Server) resolve(c *conn, domain waypost.DomainID, visit *waypost.Visit) (waypost.Resolution, error) {
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
	res, buf := waypost.Resolve(&record, now).Follow(buf, visit)
	keep(&c.record, buf)
	return res, nil
}

// isOwnPath reports whether a path that could be a code is one of the server's own.
func isOwnPath(code []byte) bool { return string(code) == "health" }
