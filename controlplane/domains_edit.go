package controlplane

import (
	"context"

	"waypost"
	"waypost/controlplane/target"
)

// MaxDomains bounds the domains of one workspace.
const MaxDomains = 1000

// NewDomain is a wish for a domain.
type NewDomain struct {
	Host     string // as people write it
	Shared   bool   // all workspaces have links under it; for operators alone
	Root     string // where its root leads; "": nowhere
	NotFound string // where unknown codes lead; "": nowhere
}

// DomainEditStore adds and removes domains. Both are durable when they return, in the
// audit log, and part of the changelog at the position given.
type DomainEditStore interface {
	// CreateDomain adds a domain: EConflict when there is one with the host, whosever it is,
	// or the workspace has as many as it may have.
	CreateDomain(ctx context.Context, by Actor, d waypost.Domain) (waypost.Domain, waypost.Position, error)

	// RetireDomain removes a domain that the actor may change: ENotFound when there is none,
	// EConflict when it has links and force is not set. With force they become tombstones
	// first, many transactions of them if need be; when ctx ends before, what is done stays done.
	RetireDomain(ctx context.Context, by Actor, id waypost.DomainID, force bool) (waypost.Position, error)
}

// AddDomain gives the actor's workspace a domain of its own, or, to operators, all a shared
// one. Nobody is asked whose the host is: it serves nothing before its owner points it at
// the edges. EInvalid says that it can be no domain, EConflict that there is one already.
func (s *Service) AddDomain(ctx context.Context, actor Actor, n NewDomain) (waypost.Domain, waypost.Position, error) {
	none := func(err error) (waypost.Domain, waypost.Position, error) {
		return waypost.Domain{}, waypost.Position{}, err
	}
	d := waypost.Domain{Workspace: actor.Workspace}
	if n.Shared {
		if err := actor.CheckOperator(); err != nil {
			return none(err)
		}
		d.Workspace = 0
	}
	host, err := target.DomainName(n.Host)
	if err != nil {
		return none(err)
	}
	d.Host = host
	for _, field := range []struct {
		name, url string
		to        *[]byte
	}{{"root_url", n.Root, &d.Root}, {"not_found_url", n.NotFound, &d.NotFound}} {
		location, err := s.domainTarget(ctx, field.name, &field.url, host)
		if err != nil {
			return none(err)
		}
		*field.to = []byte(*location)
	}
	if s.ownHost(host) {
		return none(hostTaken(host))
	}
	d, at, err := s.domainEdits.CreateDomain(ctx, actor, d)
	if err != nil {
		return none(err)
	}
	s.hosts.changed(ctx)
	s.wrote(ofHost(host), at)
	return d, at, nil
}

func hostTaken(host string) error {
	return waypost.Errorf(waypost.EConflict, "the host %s is in use", host)
}

// RemoveDomain removes a domain, whose host then is free for another: ENotFound for one that
// the actor does not see, EForbidden for one that is not the actor's to change, EConflict when
// it has links and force is not set. With force its links are deleted with it.
func (s *Service) RemoveDomain(ctx context.Context, actor Actor, id waypost.DomainID, force bool) (waypost.Position, error) {
	if _, err := s.changeable(ctx, actor, id); err != nil {
		return waypost.Position{}, err
	}
	if id == waypost.DefaultDomain {
		return waypost.Position{}, waypost.Errorf(waypost.EForbidden, "the domain of the base URL cannot be removed")
	}
	at, err := s.domainEdits.RetireDomain(ctx, actor, id, force)
	if err != nil {
		return waypost.Position{}, err
	}
	s.hosts.changed(ctx)
	s.wrote(ofDomain(id), at)
	return at, nil
}

// changeable finds a domain that the actor may change.
func (s *Service) changeable(ctx context.Context, actor Actor, id waypost.DomainID) (*waypost.Domain, error) {
	seen, err := s.domains.Domains(ctx, actor.Workspace)
	if err != nil {
		return nil, err
	}
	for i := range seen {
		switch d := &seen[i]; {
		case d.ID != id:
		case d.Workspace == 0 && actor.Workspace != waypost.DefaultWorkspace:
			return nil, waypost.Errorf(waypost.EForbidden, "a domain that is shared is changed with a key of the default workspace only")
		default:
			return d, nil
		}
	}
	return nil, waypost.Errorf(waypost.ENotFound, "there is no such domain")
}
