package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

// Domains answers what the API is asked about hosts. All methods may be called by
// many goroutines at once; errors are as those of [Links].
type Domains interface {
	DomainEditor

	// Domains gives the domains that the actor's links can have.
	Domains(ctx context.Context, actor controlplane.Actor) ([]waypost.Domain, error)

	// ChangeDomain changes where a domain leads, and gives the position of the change:
	// ENotFound for a domain that the actor does not see, EForbidden for one that is
	// not the actor's to change.
	ChangeDomain(ctx context.Context, actor controlplane.Actor, id waypost.DomainID, c controlplane.DomainChange) (waypost.Domain, waypost.Position, error)

	// Root gives where the root of the domain of a host leads, as the client sent the
	// host, and false when it leads nowhere.
	Root(ctx context.Context, host string) (waypost.Resolution, bool, error)
}

type domainsOutput struct{ Body domainList }

type domainList struct {
	Domains []domain `json:"domains" nullable:"false" doc:"Ordered by id."`
}

type domain struct {
	ID          uint32 `json:"id"`
	Host        string `json:"host"`
	Shared      bool   `json:"shared" doc:"All workspaces have links under it; the default workspace changes it."`
	RootURL     string `json:"root_url" doc:"Where the root of the domain leads; empty: it tells which service it is."`
	NotFoundURL string `json:"not_found_url" doc:"Where everything leads that would answer 404; empty: it answers 404."`
}

type changeDomainInput struct {
	ID int64 `path:"id" minimum:"1" maximum:"2147483647"`
	Waiting
	Body body[domainChange]
}

// domainChange is what is to change. Null is as good as leaving a field out.
type domainChange struct {
	RootURL     *string `json:"root_url,omitempty" nullable:"true" example:"https://example.com/" doc:"Where the root of the domain is to lead: a URL as that of a link, of at most 4,096 bytes once it is percent-encoded. Empty: nowhere. It is shown as it stands in Location."`
	NotFoundURL *string `json:"not_found_url,omitempty" nullable:"true" example:"https://example.com/not-found" doc:"Where unknown codes are to lead, likewise."`
}

type domainOutput struct {
	Position string `header:"Waypost-Position" doc:"Position of the change: a replica that has reached it follows it."`
	Applied  string `header:"Waypost-Applied" doc:"What came of waiting; see wait."`
	Body     domain
}

func (s *server) registerDomains() {
	if s.domains == nil {
		return
	}
	handle(s, huma.Operation{
		OperationID: "list-domains",
		Method:      http.MethodGet,
		Path:        "/api/admin/domains",
		Summary:     "List the domains that links can have, and where they lead",
		Security:    s.needs(controlplane.ScopeAdmin),
		Responses:   problems(401, 403),
	}, s.listDomains)

	handle(s, withBody(huma.Operation{
		OperationID: "change-domain",
		Method:      http.MethodPatch,
		Path:        "/api/admin/domains/{id}",
		Summary:     "Change where a domain leads",
		Security:    s.needs(controlplane.ScopeAdmin),
		Responses:   problems(400, 401, 403, 404, 408, 413, 415, 422),
	}, maxBody), s.changeDomain)
}

func (s *server) listDomains(ctx context.Context, _ *struct{}) (*domainsOutput, error) {
	all, err := s.domains.Domains(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	out := &domainsOutput{Body: domainList{Domains: make([]domain, len(all))}}
	for i := range all {
		out.Body.Domains[i] = showDomain(&all[i])
	}
	return out, nil
}

func (s *server) changeDomain(ctx context.Context, in *changeDomainInput) (*domainOutput, error) {
	c, err := decode[domainChange](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	d, position, err := s.domains.ChangeDomain(ctx, actorFrom(ctx), waypost.DomainID(in.ID), controlplane.DomainChange{Root: c.RootURL, NotFound: c.NotFoundURL})
	if err != nil {
		return nil, err
	}
	return &domainOutput{Position: position.String(), Applied: s.await(ctx, &in.Waiting, position), Body: showDomain(&d)}, nil
}

func showDomain(d *waypost.Domain) domain {
	return domain{
		ID: uint32(d.ID), Host: d.Host, Shared: d.Workspace == 0,
		RootURL: string(d.Root), NotFoundURL: string(d.NotFound),
	}
}
