package controlplane

import (
	"context"
	"time"

	"waypost"
)

// preparing judges the wishes of one request.
type preparing struct {
	s       *Service
	actor   Actor
	dedupe  bool                      // unless a wish says otherwise
	domains map[string]waypost.Domain // asked for before
}

// preparing finds out what all wishes of a request have in common.
func (s *Service) preparing(ctx context.Context, actor Actor) (*preparing, error) {
	p := &preparing{s: s, actor: actor}
	var err error
	if s.twins != nil {
		if p.dedupe, err = s.dedupes(ctx, actor.Workspace); err != nil {
			return nil, err
		}
	}
	return p, s.hosts.refresh(ctx)
}

// link makes a link of a wish, all but its minted code, and the hash of its target when
// it is to be the only link of that.
func (p *preparing) link(ctx context.Context, n *NewLink) (waypost.Link, *[32]byte, error) {
	none := func(err error) (waypost.Link, *[32]byte, error) { return waypost.Link{}, nil, err }
	t, err := p.s.rules.Check(n.OriginalURL)
	if err != nil {
		return none(err)
	}
	d, err := p.domain(ctx, n.Domain)
	if err != nil {
		return none(err)
	}
	l := waypost.Link{
		Workspace: p.actor.Workspace, Domain: d.ID, OriginalURL: t.Original, Location: t.Location,
		RedirectStatus: n.RedirectStatus, Flags: n.flags(), Title: n.Title, Description: n.Description, Tags: n.Tags,
		Metadata: n.Metadata, CreatedBy: n.CreatedBy, Active: !n.Disabled,
	}
	if d.ID != waypost.DefaultDomain {
		l.Host = d.Host
	}
	if n.CustomCode != "" {
		if l.Code, err = waypost.ParseCustomCode(n.CustomCode); err != nil {
			return none(err)
		}
		l.Custom = true
	}
	if l.ExpiresAt, err = p.s.expiry(n.ExpiresAt); err != nil {
		return none(err)
	}
	if err := checkStatus(&l); err != nil {
		return none(err)
	}
	if err := checkTexts(&l); err != nil {
		return none(err)
	}
	twin, err := wantsTwin(n, p.dedupe)
	if err != nil || !twin || p.s.twins == nil {
		return l, nil, err
	}
	sum := t.Sum()
	return l, &sum, nil
}

// domain finds the domain of a host once per request.
func (p *preparing) domain(ctx context.Context, host string) (waypost.Domain, error) {
	if d, ok := p.domains[host]; ok {
		return d, nil
	}
	d, err := p.s.domainNamed(ctx, p.actor, host)
	if waypost.CodeOf(err) == waypost.ENotFound {
		err = waypost.Errorf(waypost.EInvalid, "domain: there is no domain %.64q for this workspace", host)
	}
	if err != nil {
		return d, err
	}
	if p.domains == nil {
		p.domains = make(map[string]waypost.Domain)
	}
	p.domains[host] = d
	return d, nil
}

// checkStatus judges the status of a redirect, and puts in the usual one for none.
func checkStatus(l *waypost.Link) error {
	switch l.RedirectStatus {
	case 0:
		l.RedirectStatus = 302
	case 301, 302, 307, 308:
	default:
		return waypost.Errorf(waypost.EInvalid, "redirect_status must be 301, 302, 307 or 308")
	}
	return nil
}

// expiry judges when a link is to expire: in whole milliseconds, because that is what
// every edge judges by.
func (s *Service) expiry(at time.Time) (time.Time, error) {
	if at.IsZero() {
		return at, nil
	}
	at = at.UTC().Truncate(time.Millisecond)
	if !at.After(s.cfg.Now()) {
		return at, waypost.Errorf(waypost.EInvalid, "expires_at must be in the future")
	}
	if at.Year() > 9999 {
		return at, waypost.Errorf(waypost.EInvalid, "expires_at must be before the year 10000")
	}
	return at, nil
}
