package controlplane

import (
	"context"

	"waypost"
	"waypost/controlplane/target"
	"waypost/internal/patterns"
	"waypost/rules"
)

// checkTarget checks a target of a link, which is a template if the link has a pattern.
func checkTarget(with target.Rules, code waypost.Code, url string) (target.Target, error) {
	if waypost.IsPattern(string(code)) {
		return with.CheckTemplate(url, patterns.Names(string(code)))
	}
	return with.Check(url)
}

// setTargets sets how a compilation checks targets: the targets of rules are like the
// target of the link with that code.
func setTargets(with *rules.Compiling, by target.Rules, code waypost.Code) {
	with.Target = func(url string) (original, location string, err error) {
		t, err := by.Check(url)
		return t.Original, t.Location, err
	}
	with.Template = func(url string) (original, location string, err error) {
		t, err := checkTarget(by, code, url)
		return t.Original, t.Location, err
	}
}

// checkPattern refuses for a pattern what its star or its templates do already.
func checkPattern(l *waypost.Link) error {
	if waypost.IsPattern(string(l.Code)) && l.Flags&waypost.ForwardPath != 0 {
		return waypost.Errorf(waypost.EInvalid, "forward_path is not for patterns: end the pattern with /*, and put {path} into its target")
	}
	return nil
}

// patternsOf returns the index of the patterns of a domain, as of a second ago at most.
func (s *Links) patternsOf(ctx context.Context, domain waypost.DomainID) (*patterns.Index, error) {
	x, _, err := s.patterns.Get(domain, s.now(), func() (*patterns.Index, bool, error) {
		codes, err := s.store.Patterns(ctx, domain)
		return patterns.New(codes), true, err
	})
	return x, err
}

// domainPatterns holds the patterns of a domain, for a request that adds some.
type domainPatterns struct {
	index  patterns.Index
	shapes map[string]waypost.Code // the pattern of each shape
}

// placePattern checks that a domain has room for a pattern, and adds it to the patterns
// that the request has seen. Two requests at the same time may exceed the bounds of a
// domain, which an edge keeps on its own.
func (p *prepared) placePattern(ctx context.Context, l *waypost.Link) error {
	d, err := p.patternsOf(ctx, l.Domain)
	if err != nil {
		return err
	}
	code := string(l.Key())
	other, taken := d.shapes[patterns.Shape(code)]
	switch {
	case taken && other == l.Key():
		return nil // the database answers for it
	case taken:
		return waypost.Errorf(waypost.EConflict, "the pattern %q leads from the same addresses as the pattern %q of the domain", code, other)
	case d.index.Len() >= waypost.MaxPatterns:
		return waypost.Errorf(waypost.EInvalid, "a domain has at most %d patterns", waypost.MaxPatterns)
	}
	if d.index.VisitsWith(code) > patterns.MaxVisits {
		return waypost.Errorf(waypost.EInvalid, "with the pattern %q too many patterns of the domain would fit the beginnings of the same addresses: "+
			"look-ups would take more than %d steps", code, patterns.MaxVisits)
	}
	d.index.Add(code)
	d.shapes[patterns.Shape(code)] = l.Key()
	return nil
}

// patternsOf returns the patterns of a domain, which it reads once per request.
func (p *prepared) patternsOf(ctx context.Context, domain waypost.DomainID) (*domainPatterns, error) {
	if d := p.patterns[domain]; d != nil {
		return d, nil
	}
	codes, err := p.s.store.Patterns(ctx, domain)
	if err != nil {
		return nil, err
	}
	d := &domainPatterns{shapes: make(map[string]waypost.Code, len(codes))}
	for _, code := range codes {
		d.index.Add(code)
		d.shapes[patterns.Shape(code)] = waypost.Code(code)
	}
	if p.patterns == nil {
		p.patterns = map[waypost.DomainID]*domainPatterns{}
	}
	p.patterns[domain] = d
	return d, nil
}
