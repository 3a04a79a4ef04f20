package controlplane

import (
	"context"

	"waypost"
)

// DomainStore keeps the hosts under which codes are unique.
type DomainStore interface {
	// Domains gives a workspace's own domains and those that all share, by id.
	Domains(ctx context.Context, ws waypost.WorkspaceID) ([]waypost.Domain, error)

	// AllDomains gives the domains of all workspaces, without where they lead.
	AllDomains(ctx context.Context) ([]waypost.Domain, error)

	// DomainOf finds the domain that a host, as [waypost.HostName] makes it, belongs to.
	DomainOf(ctx context.Context, host string) (d waypost.Domain, found bool, err error)

	// DefaultTargets gives those of the default domain.
	DefaultTargets(ctx context.Context) (waypost.DomainTargets, error)

	// SetDomain changes where a domain of the workspace leads, or, for the default
	// workspace, also a shared one; ENotFound for any other. The change is durable
	// when it returns, in the audit log, and part of the changelog at the position
	// given.
	SetDomain(ctx context.Context, by Actor, id waypost.DomainID, c DomainChange) (waypost.Domain, waypost.Position, error)
}

// DomainChange says where a domain shall lead from now on: nil leaves a target as
// it is, "" takes it away. As users write it they are URLs like those of links; a
// store gets Locations.
type DomainChange struct {
	Root     *string `json:"root_url,omitempty"`      // from the domain's root
	NotFound *string `json:"not_found_url,omitempty"` // from what would answer 404
}

// Domains gives the domains that the actor's links can have, by id.
func (s *Service) Domains(ctx context.Context, actor Actor) ([]waypost.Domain, error) {
	return s.domains.Domains(ctx, actor.Workspace)
}

// ChangeDomain changes where a domain leads visitors who follow no link. ENotFound for
// a domain that the actor does not see, EForbidden for a shared one unless the actor
// is of the default workspace, and what the rules for targets say of the URLs.
func (s *Service) ChangeDomain(ctx context.Context, actor Actor, id waypost.DomainID, c DomainChange) (waypost.Domain, waypost.Position, error) {
	none := func(err error) (waypost.Domain, waypost.Position, error) {
		return waypost.Domain{}, waypost.Position{}, err
	}
	present, err := s.changeable(ctx, actor, id)
	switch {
	case err != nil:
		return none(err)
	case c.Root == nil && c.NotFound == nil:
		return none(waypost.Errorf(waypost.EInvalid, "say what to change: root_url, not_found_url"))
	}
	for _, field := range []struct {
		name string
		url  **string
	}{{"root_url", &c.Root}, {"not_found_url", &c.NotFound}} {
		if *field.url, err = s.domainTarget(ctx, field.name, *field.url, present.Host); err != nil {
			return none(err)
		}
	}
	d, at, err := s.domains.SetDomain(ctx, actor, id, c)
	if err == nil {
		s.wrote(ofDomain(id), at)
	}
	return d, at, err
}

// domainTarget judges a URL like that of a link, for a domain with a host, and gives the
// Location of it.
func (s *Service) domainTarget(ctx context.Context, field string, url *string, host string) (*string, error) {
	if url == nil || *url == "" {
		return url, nil
	}
	t, err := s.rules.Check(*url)
	if err != nil {
		return nil, waypost.WrapError(waypost.CodeOf(err), field+": "+waypost.MessageOf(err), err)
	}
	if len(t.Location) > waypost.MaxDomainURL {
		return nil, waypost.Errorf(waypost.ETooLarge, "%s is %d bytes long once it is percent-encoded, but at most %d are allowed", field, len(t.Location), waypost.MaxDomainURL)
	}
	_, own, err := s.domains.DomainOf(ctx, t.Host)
	if err != nil {
		return nil, err
	}
	if own || t.Host == host {
		return nil, waypost.Errorf(waypost.EInvalid, "%s: the host is a domain of this service, so visitors could be sent in a circle", field)
	}
	return &t.Location, nil
}
