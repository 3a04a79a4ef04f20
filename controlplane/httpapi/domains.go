package httpapi

import (
	"context"
	"net/http"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// Domains manages domains. ENotFound: the actor does not see the domain. EForbidden: the
// actor may not change it.
type Domains interface {
	// Domains returns the domains that the actor's links can have.
	Domains(ctx context.Context, actor controlplane.Actor) ([]waypost.Domain, error)

	// AddDomain adds a domain: EInvalid when the host is not allowed, EConflict when it is
	// in use.
	AddDomain(ctx context.Context, actor controlplane.Actor, n controlplane.NewDomain) (waypost.Domain, waypost.Position, error)

	// ChangeDomain changes the targets of a domain.
	ChangeDomain(ctx context.Context, actor controlplane.Actor, id waypost.DomainID,
		c controlplane.DomainChange) (waypost.Domain, waypost.Position, error)

	// RemoveDomain removes a domain: EConflict when it has links and force is not set.
	RemoveDomain(ctx context.Context, actor controlplane.Actor, id waypost.DomainID, force bool) (waypost.Position, error)

	// Root returns the redirect of the root of a host's domain, and false when it has no
	// target. The host is as the client sent it.
	Root(ctx context.Context, host string) (waypost.Resolution, bool, error)
}

// domainsAPI serves domains.
type domainsAPI struct {
	domains Domains
	waiter  Waiter
}

type domainsOutput struct{ Body api.DomainList }

type addDomainInput struct {
	waiting
	Body api.NewDomain
}

type changeDomainInput struct {
	ID int64 `path:"id" minimum:"1" maximum:"2147483647"`
	waiting
	Body api.DomainChange
}

type domainOutput struct {
	changedOutput
	Body api.Domain
}

type removeDomainInput struct {
	ID    int64 `path:"id" minimum:"1" maximum:"2147483647"`
	Force bool  `query:"force" doc:"Delete the domain's links, too. With very many links the answer may be 503 before it is done: then send the request again."`
	waiting
}

func registerDomains(rt *router, a *domainsAPI) {
	admin := []controlplane.Scope{controlplane.ScopeAdmin}
	handle(rt, operation{
		id: "list-domains", method: http.MethodGet, path: api.PathDomains, summary: "List the domains that links can have, and their targets",
		scopes: []controlplane.Scope{controlplane.ScopeLinksRead},
	}, a.list)
	handle(rt, operation{
		id: "add-domain", method: http.MethodPost, path: api.PathDomains, summary: "Add a domain",
		description: "No proof of ownership is needed: a domain serves nothing before its owner points it at the edges. " +
			"A host that is in use, in any workspace, answers 409.",
		status: http.StatusCreated, scopes: admin, problems: []int{http.StatusConflict},
	}, a.add)
	handle(rt, operation{
		id: "change-domain", method: http.MethodPatch, path: api.PathDomains + "/{id}", summary: "Change the targets of a domain",
		scopes: admin, problems: []int{http.StatusNotFound},
	}, a.change)
	// The same under the paths of administration.
	handle(rt, operation{
		id: "list-all-domains", method: http.MethodGet, path: "/api/admin/domains",
		summary: "List the domains that links can have, and their targets", scopes: admin,
	}, a.list)
	handle(rt, operation{
		id: "change-any-domain", method: http.MethodPatch, path: "/api/admin/domains/{id}", summary: "Change the targets of a domain",
		scopes: admin, problems: []int{http.StatusNotFound},
	}, a.change)
	handle(rt, operation{
		id: "remove-domain", method: http.MethodDelete, path: api.PathDomains + "/{id}", summary: "Remove a domain",
		description: "Afterwards its host is free for another domain, which begins without any links.",
		scopes:      admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, a.remove)
}

func (a *domainsAPI) list(ctx context.Context, _ *struct{}) (*domainsOutput, error) {
	all, err := a.domains.Domains(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	shown := make([]api.Domain, len(all))
	for i := range all {
		shown[i] = domainOf(&all[i])
	}
	return &domainsOutput{api.DomainList{Domains: shown}}, nil
}

func (a *domainsAPI) add(ctx context.Context, in *addDomainInput) (*domainOutput, error) {
	n := &in.Body
	d, position, err := a.domains.AddDomain(ctx, actorFrom(ctx), controlplane.NewDomain{
		Host: n.Host, Shared: n.Shared,
		Root: n.RootURL, NotFound: n.NotFoundURL,
	})
	if err != nil {
		return nil, err
	}
	return a.changed(ctx, &d, &in.waiting, position), nil
}

func (a *domainsAPI) change(ctx context.Context, in *changeDomainInput) (*domainOutput, error) {
	c := controlplane.DomainChange{Root: in.Body.RootURL, NotFound: in.Body.NotFoundURL}
	d, position, err := a.domains.ChangeDomain(ctx, actorFrom(ctx), waypost.DomainID(in.ID), c)
	if err != nil {
		return nil, err
	}
	return a.changed(ctx, &d, &in.waiting, position), nil
}

func (a *domainsAPI) remove(ctx context.Context, in *removeDomainInput) (*changedOutput, error) {
	position, err := a.domains.RemoveDomain(ctx, actorFrom(ctx), waypost.DomainID(in.ID), in.Force)
	if err != nil {
		return nil, err
	}
	return &changedOutput{Position: position.String(), Applied: await(ctx, a.waiter, &in.waiting, position)}, nil
}

func (a *domainsAPI) changed(ctx context.Context, d *waypost.Domain, in *waiting, at waypost.Position) *domainOutput {
	return &domainOutput{changedOutput{Position: at.String(), Applied: await(ctx, a.waiter, in, at)}, domainOf(d)}
}

func domainOf(d *waypost.Domain) api.Domain {
	return api.Domain{ID: uint32(d.ID), Host: d.Host, Shared: d.Workspace == 0, RootURL: string(d.Root), NotFoundURL: string(d.NotFound)}
}
