package controlplane

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/text/unicode/norm"

	"waypost"
	"waypost/internal/codes"
)

// NewAlias is a request for a further address of a link.
type NewAlias struct {
	Domain string // host; "": the default domain
	Code   string
	Title  string // for the owner
	waypost.Print
}

const maxBatch = 100

// ErrNoAlias says that a link has no such alias.
var ErrNoAlias = waypost.Errorf(waypost.ENotFound, "the link has no such alias")

var errPatternAlias = waypost.Errorf(waypost.EInvalid, "a pattern has no aliases, and is none: create another pattern")

// AddAlias adds an alias to a link, which an address of it names, and returns the link.
// An alias that the link has already stays as it is. In addition to the errors of Create,
// AddAlias returns ENotFound, and EConflict while an operator blocks an address of the
// link.
func (s *Links) AddAlias(
	ctx context.Context, actor Actor, domain, code string, n NewAlias,
) (none waypost.Link, at waypost.Position, err error) {
	l, err := s.Read(ctx, actor, domain, code)
	if err != nil {
		return none, at, err
	}
	if waypost.IsPattern(string(l.Code)) {
		return none, at, errPatternAlias
	}
	d, err := s.domains.named(ctx, actor, n.Domain)
	if err != nil {
		return none, at, err
	}
	a, err := s.newAlias(&d, n)
	if err != nil {
		return none, at, err
	}
	addresses := l.Addresses()
	for i := range addresses {
		have := &addresses[i]
		switch {
		case have.Domain == a.Domain && have.Key() == a.Key() && have.N > 0:
			return l, waypost.Position{}, nil
		case have.Domain == a.Domain && have.Key() == a.Key():
			return none, at, waypost.Errorf(waypost.EConflict, "the code %q is the link's own", a.Code)
		}
	}
	return s.store.AddAlias(ctx, actor, l.ID, a, s.claim(a.Domain, a.Code))
}

// newAlias checks an alias in a domain.
func (s *Links) newAlias(d *waypost.Domain, n NewAlias) (a waypost.Alias, err error) {
	a = waypost.Alias{Domain: d.ID, Title: n.Title, Print: n.Print}
	a.Batch = norm.NFC.String(a.Batch)
	if a.Code, err = codes.Parse(n.Code, s.isShared(d.ID)); err != nil {
		return a, err
	}
	switch {
	case waypost.IsPattern(string(a.Code)):
		return a, errPatternAlias
	case d.Traits&waypost.CaseSwitching != 0:
		return a, ErrSwitching
	}
	if key := keyOf(a.Code, d.Traits&waypost.IgnoresCase != 0); key != a.Code {
		a.Folded = key
	}
	if _, err := time.Parse(time.DateOnly, a.PrintedOn); err != nil && a.PrintedOn != "" {
		return a, waypost.Errorf(waypost.EInvalid, "printed_on must be a date such as 2026-03-31")
	}
	return a, cmp.Or(checkText("title", a.Title, waypost.MaxTitle), checkText("batch", a.Batch, maxBatch))
}

// setAliases sets the aliases that a new link asks for, each once.
func (p *prepared) setAliases(ctx context.Context, l *waypost.Link, all []NewAlias) error {
	switch {
	case len(all) > 0 && p.aliases > waypost.MaxBulk:
		return waypost.Errorf(waypost.EInvalid, "aliases: at most %d of all links in one request", waypost.MaxBulk)
	case len(all) > waypost.MaxAliases:
		return waypost.Errorf(waypost.EInvalid, "a link has at most %d aliases", waypost.MaxAliases)
	case len(all) > 0 && waypost.IsPattern(string(l.Code)):
		return errPatternAlias
	}
	for _, n := range all {
		d, err := p.domain(ctx, n.Domain)
		if err != nil {
			return err
		}
		a, err := p.s.newAlias(&d, n)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(l.Addresses(), func(x waypost.Alias) bool {
			return x.Domain == a.Domain && x.Key() == a.Key()
		}) {
			l.Aliases = append(l.Aliases, a)
		}
	}
	return nil
}

// RemoveAlias removes an alias of a link, and returns the link. Edges answer 404 for the
// alias once they reach the position, and its code names no link again.
func (s *Links) RemoveAlias(
	ctx context.Context, actor Actor, domain, code, host, alias string,
) (none waypost.Link, at waypost.Position, err error) {
	l, err := s.Read(ctx, actor, domain, code)
	if err != nil {
		return none, at, err
	}
	d, key, err := s.domains.locate(ctx, actor, host, alias)
	if err != nil {
		return none, at, err
	}
	for i := range l.Aliases {
		if a := &l.Aliases[i]; a.Domain == d.ID && a.Key() == key {
			return s.store.RemoveAlias(ctx, actor, l.ID, a.Domain, key)
		}
	}
	return none, at, ErrNoAlias
}
