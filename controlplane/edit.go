package controlplane

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"waypost"
)

// Version is one version of a link among all that ever were.
type Version struct {
	Revision waypost.Revision
	Stamp    uint64
}

// VersionOf is that of a link as it was read.
func VersionOf(l *waypost.Link) Version { return Version{l.Revision, l.Stamp} }

// LinkChange says what of a link is to change: nil leaves a field as it is.
type LinkChange struct {
	Match []Version // the versions that may be changed; nil: any

	OriginalURL    *string
	ExpiresAt      *time.Time // zero: never
	RedirectStatus *int       // 0: the usual one
	ForwardQuery   *bool
	ForwardPath    *bool
	Title          *string
	Description    *string
	Tags           *[]string
	Metadata       *json.RawMessage // all of it; empty: none
	Active         *bool
}

// LinkEditStore changes links.
type LinkEditStore interface {
	// UpdateLink writes a link that was read at a version, and gives l its new one. It
	// changes nothing and says so when the link has another version by now, or is gone. A
	// new twin, the hash of the target, takes the place of the old one when the link is the
	// one of its target.
	UpdateLink(ctx context.Context, at Version, l *waypost.Link, twin *[32]byte) (p waypost.Position, changed bool, err error)
}

// maxEdits bounds how often a change is tried against others of the same link.
const maxEdits = 8

// Find gives a link of the actor's workspace under a domain's host, "" for the default
// domain: ENotFound when there is none or it was deleted, EGone when it has expired.
func (s *Service) Find(ctx context.Context, actor Actor, domain, code string) (waypost.Link, error) {
	l, err := s.present(ctx, actor, domain, code)
	if err == nil && l.Expired(s.cfg.Now()) {
		return waypost.Link{}, waypost.Errorf(waypost.EGone, "the link has expired")
	}
	return l, err
}

// present is Find that gives expired links, too.
func (s *Service) present(ctx context.Context, actor Actor, domain, code string) (waypost.Link, error) {
	if !waypost.ValidCode(code) {
		return waypost.Link{}, notFound()
	}
	d, err := s.domainNamed(ctx, actor, domain)
	if err != nil {
		return waypost.Link{}, err
	}
	return s.links.Link(ctx, actor.Workspace, d.ID, waypost.Code(code))
}

// Remove turns a link into a tombstone, on every edge once the position has reached it.
func (s *Service) Remove(ctx context.Context, actor Actor, domain, code string) (waypost.Position, error) {
	if !waypost.ValidCode(code) {
		return waypost.Position{}, notFound()
	}
	d, err := s.domainNamed(ctx, actor, domain)
	if err != nil {
		return waypost.Position{}, err
	}
	at, err := s.links.DeleteLink(ctx, actor.Workspace, d.ID, waypost.Code(code))
	if err == nil {
		s.wrote(ofLink(d.ID, code), at)
	}
	return at, err
}

// Change changes a link. One that has expired can be changed until the reaper has made it
// a tombstone, and lives again with a later expiry. Errors beside those of Create: ENotFound,
// and EStale when the link has none of the versions that may be changed.
func (s *Service) Change(ctx context.Context, actor Actor, domain, code string, c LinkChange) (Outcome, waypost.Position, error) {
	none := func(err error) (Outcome, waypost.Position, error) { return Outcome{}, waypost.Position{}, err }
	if err := s.hosts.refresh(ctx); err != nil {
		return none(err)
	}
	for range maxEdits {
		l, err := s.present(ctx, actor, domain, code)
		if err != nil {
			return none(err)
		}
		at := VersionOf(&l)
		if c.Match != nil && !slices.Contains(c.Match, at) {
			return none(waypost.Errorf(waypost.EStale, "the link has changed since: get it again, and decide anew"))
		}
		twin, err := s.apply(&l, &c)
		if err != nil {
			return none(err)
		}
		position, changed, err := s.edits.UpdateLink(ctx, at, &l, twin)
		if err != nil {
			return none(err)
		}
		if changed {
			s.wrote(ofLink(l.Domain, code), position)
			o := Outcome{Link: l}
			if c.OriginalURL != nil {
				o.Warnings = warningsOf(&l)
			}
			return o, position, nil
		}
	}
	return none(waypost.Errorf(waypost.EUnavailable, "others change the link all the time"))
}

// apply makes a change to a link as it was read, and gives the hash of a new target.
func (s *Service) apply(l *waypost.Link, c *LinkChange) (twin *[32]byte, err error) {
	if c.OriginalURL != nil && *c.OriginalURL != l.OriginalURL {
		t, err := s.rules.Check(*c.OriginalURL)
		if err != nil {
			return nil, err
		}
		l.OriginalURL, l.Location = t.Original, t.Location
		sum := t.Sum()
		twin = &sum
	}
	if c.ExpiresAt != nil {
		if l.ExpiresAt, err = s.expiry(*c.ExpiresAt); err != nil {
			return nil, err
		}
	}
	set(&l.RedirectStatus, c.RedirectStatus)
	set(&l.Title, c.Title)
	set(&l.Description, c.Description)
	set(&l.Tags, c.Tags)
	set(&l.Metadata, c.Metadata)
	set(&l.Active, c.Active)
	setFlag(&l.Flags, waypost.ForwardQuery, c.ForwardQuery)
	setFlag(&l.Flags, waypost.ForwardPath, c.ForwardPath)
	if err := checkStatus(l); err != nil {
		return nil, err
	}
	return twin, checkTexts(l)
}

func set[T any](field *T, to *T) {
	if to != nil {
		*field = *to
	}
}

func setFlag(flags *waypost.LinkFlags, flag waypost.LinkFlags, to *bool) {
	switch {
	case to == nil:
	case *to:
		*flags |= flag
	default:
		*flags &^= flag
	}
}
