package controlplane

import (
	"context"
	"fmt"

	"waypost"
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
	State      waypost.State
	Source     rules.Source
	Required   rules.FactSet // the facts that the rules read
	Facts      rules.Facts
	Resolution waypost.Resolution
	Trace      rules.Trace
	NotFound   bool // the answer is the domain's own for 404

	Maintenance bool // the answer is the domain's own for its maintenance
}

// Explain answers a visitor of a link as [Links.Resolve] does, by the same evaluation,
// which it records, and software as an edge does. It explains disabled and expired links
// too. It returns ENotFound for an unknown or deleted link.
func (s *Links) Explain(ctx context.Context, actor Actor, domain, code string, v *Visitor) (Explanation, error) {
	for range maxEdits {
		l, err := s.Read(ctx, actor, domain, code)
		if err != nil {
			return Explanation{}, err
		}
		d, served, err := s.domains.store.DomainOf(ctx, l.Host, l.Host != "")
		if err != nil {
			return Explanation{}, err
		}
		if !served {
			return Explanation{}, waypost.Errorf(waypost.EConflict, "the domain %s is not served, so that its links have no answer", l.Host)
		}
		rec, found, err := s.store.Record(ctx, d.ID, l.Code)
		if err != nil {
			return Explanation{}, err
		}
		if !found || rec.Revision != l.Revision {
			continue // the link has changed between the two reads
		}
		return s.explain(&l, &d, &rec, v)
	}
	return Explanation{}, waypost.Errorf(waypost.EUnavailable, "too many others change the link")
}

func (s *Links) explain(l *waypost.Link, d *waypost.Domain, rec *waypost.Record, v *Visitor) (e Explanation, err error) {
	e.Link, e.State, e.Required = *l, rec.State, rules.RequiredFacts(rec.Programme)
	if e.Source, err = rules.ParseSource(l.Rules); err != nil {
		return e, fmt.Errorf("the rules of the link %s cannot be read: %w", l.Code, err)
	}
	e.Facts.Read(rules.AllFacts, &v.Request)
	e.Facts.Country, e.Facts.City = v.Country, v.City
	e.Facts.Passed, e.Facts.Confirmed = true, true // its owner may see where it leads
	if b, ok := s.blocks.Get(l.Host, l.Code); ok && b.Blocked {
		e.Resolution, e.Trace = waypost.Blocked(b.Policy), rules.Trace{Gate: GateBlocked}
		return e, nil
	}
	e.Resolution, e.Trace = rules.Explain(rec, &e.Facts)
	visit := waypost.Visit{Code: []byte(l.Code), Query: v.Request.Query}
	e.Resolution, _ = e.Resolution.Follow(nil, &visit)
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
