package controlplane

import (
	"context"
	"fmt"

	"waypost"
	"waypost/internal/codes"
	"waypost/internal/patterns"
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
	return s.explainWith(ctx, actor, domain, path, v, nil)
}

// draft is a link that may differ from the link of its code, or that does not exist.
type draft struct {
	address
	link     waypost.Link
	tried    waypost.Record
	patterns *patterns.Index // with the pattern of the draft
}

// Record implements [codes.Index].
func (x *draft) Record(code []byte) (*waypost.Record, error) {
	if string(code) == string(x.tried.Name) {
		return &x.tried, nil
	}
	return x.address.Record(code)
}

// Patterns implements [codes.Index].
func (x *draft) Patterns() (*patterns.Index, error) { return x.patterns, nil }

// ExplainDraft explains as if the link of a custom code had a target, or as if it were
// created with it. It writes nothing. In addition to the errors of Explain, it returns
// the errors of Create for the code and the target, except that the code may be taken.
func (s *Links) ExplainDraft(ctx context.Context, actor Actor, n *NewLink, path string, v *Visitor) (none Explanation, err error) {
	p, err := s.prepare(ctx, actor)
	if err != nil {
		return none, err
	}
	p.dry = true
	var x draft
	if x.link, _, err = p.link(ctx, n); err != nil {
		return none, err
	}
	if old, err := s.Read(ctx, actor, n.Domain, n.CustomCode); err == nil && old.Code == x.link.Code {
		if _, err := s.apply(&old, &LinkChange{OriginalURL: &n.OriginalURL}, nil); err != nil {
			return none, err
		}
		x.link = old
	}
	l := &x.link
	x.tried = waypost.Record{
		Kind: waypost.KindOf(string(l.Code)), Domain: l.Domain, Name: []byte(l.Key()), Flags: l.Flags, Status: uint16(l.RedirectStatus),
		Payload: []byte(l.Location), Programme: l.Programme,
	}
	if !l.Active {
		x.tried.State = waypost.Disabled
	}
	if !l.ExpiresAt.IsZero() {
		x.tried.ExpiresAt = l.ExpiresAt.UnixMilli()
	}
	if d := p.patterns[l.Domain]; d != nil {
		x.patterns = &d.index
	} else if x.patterns, err = s.patternsOf(ctx, l.Domain); err != nil {
		return none, err
	}
	return s.explainWith(ctx, actor, n.Domain, path, v, &x)
}

// explainWith does the work of Explain, with a draft unless it is nil.
func (s *Links) explainWith(ctx context.Context, actor Actor, domain, path string, v *Visitor, x *draft) (Explanation, error) {
	named, err := s.domains.named(ctx, actor, domain)
	if err != nil {
		return Explanation{}, err
	}
	d, _, err := s.domains.store.DomainOf(ctx, named.Host, false)
	if err != nil {
		return Explanation{}, err
	}
	at := address{ctx, s, named.Host, d.ID, waypost.Record{}}
	index := codes.Index(&at)
	if x != nil {
		x.address, index = at, x
	}
	for range maxEdits {
		visit := waypost.ParseVisit([]byte("/" + path))
		visit.Query = v.Request.Query
		var walk codes.Walk
		found, err := walk.Find(&visit, d.Traits, index)
		if err != nil {
			return Explanation{}, err
		}
		if found.Policy == 0 && found.Record == nil {
			return Explanation{}, waypost.ErrNoLink
		}
		if x != nil && found.Record == &x.tried {
			return s.explain(&x.link, &d, &found, &visit, v)
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
