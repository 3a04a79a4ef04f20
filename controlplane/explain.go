package controlplane

import (
	"context"
	"fmt"

	"waypost"
	"waypost/internal/codes"
	"waypost/rules"
)

// Visitor describes a visitor to explain an answer to.
type Visitor struct {
	Request rules.Request
	Country [2]byte // ISO 3166-1 alpha-2; zero: unknown
	City    string  // an English name; "": unknown
}

// GateBlocked is the gate of a link that an operator has blocked.
const GateBlocked = "blocked"

// Explanation is the answer of a link to a visitor, and the way to it.
type Explanation struct {
	Link       waypost.Link
	Match      codes.Match // how the visitor's path names the link
	Held       []waypost.Held
	Source     rules.Source
	Required   rules.FactSet // the facts that the rules read
	Facts      rules.Facts
	Resolution waypost.Resolution
	Trace      rules.Trace
	NotFound   bool // the answer is the domain's own for 404

	Maintenance bool // the answer is the domain's own for its maintenance
}

// Explain answers a visitor of a path of a domain as [Links.Resolve] does, by the same
// walk and the same evaluation, which it records, and software as an edge does. The path
// has neither its first slash nor a query. Explain explains disabled and expired links
// too. It returns ENotFound for a path that leads to no link of the actor's workspace, or
// to a deleted one.
func (s *Links) Explain(ctx context.Context, actor Actor, domain, path string, v *Visitor) (Explanation, error) {
	named, err := s.domains.named(ctx, actor, domain)
	if err != nil {
		return Explanation{}, err
	}
	d, _, err := s.domains.store.DomainOf(ctx, named.Host, false)
	if err != nil {
		return Explanation{}, err
	}
	for range maxEdits {
		visit := waypost.ParseVisit([]byte("/" + path))
		visit.Query = v.Request.Query
		found, err := s.find(ctx, named.Host, &d, &visit)
		if err != nil {
			return Explanation{}, err
		}
		if found.Policy == 0 && found.Record == nil {
			return Explanation{}, waypost.ErrNoLink
		}
		l, err := s.store.Link(ctx, actor.Workspace, d.ID, waypost.Code(visit.Code))
		if err != nil {
			return Explanation{}, err
		}
		if found.Policy == 0 && found.Record.Revision != l.Revision {
			continue // the link has changed between the two reads
		}
		return s.explain(&l, &d, &found, &visit, v)
	}
	return Explanation{}, waypost.Errorf(waypost.EUnavailable, "too many others change the link")
}

func (s *Links) explain(
	l *waypost.Link, d *waypost.Domain, found *codes.Found, visit *waypost.Visit, v *Visitor,
) (e Explanation, err error) {
	e.Link, e.Match, e.Held, e.Required = *l, found.Match, visit.Held, rules.RequiredFacts(l.Programme)
	if e.Source, err = rules.ParseSource(l.Rules); err != nil {
		return e, fmt.Errorf("the rules of the link %s cannot be read: %w", l.Code, err)
	}
	if found.Record != nil {
		v.Request.Link = rules.CookieNumber(found.Record)
	}
	e.Facts.Read(rules.AllFacts, &v.Request)
	e.Facts.Country, e.Facts.City = v.Country, v.City
	e.Facts.Passed, e.Facts.Confirmed = true, true // its owner may see where it leads
	if found.Policy != 0 {
		e.Resolution, e.Trace = waypost.Blocked(found.Policy), rules.Trace{Gate: GateBlocked}
		return e, nil
	}
	e.Resolution, e.Trace = rules.Explain(found.Record, &e.Facts)
	e.Resolution, _ = e.Resolution.Follow(nil, visit)
	if before := e.Resolution; before.Status == waypost.NotFound.Status || before.Link {
		e.Resolution = d.InsteadOf(before)
		e.NotFound = !before.Link && e.Resolution.Redirects()
		e.Maintenance = before.Link && !e.Resolution.Link
	}
	if rules.RefusesBot(&e.Resolution, nil, e.Facts.UserAgent) {
		e.Resolution = waypost.Resolution{Status: 403}
	}
	return e, nil
}
