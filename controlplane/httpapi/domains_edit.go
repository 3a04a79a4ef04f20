package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

const domainsPath = "/api/v1/domains"

// DomainEditor adds and removes domains; errors are as those of [Links].
type DomainEditor interface {
	// AddDomain adds a domain: EInvalid when the host can be none, EConflict when it is in use.
	AddDomain(ctx context.Context, actor controlplane.Actor, n controlplane.NewDomain) (waypost.Domain, waypost.Position, error)

	// RemoveDomain removes a domain: ENotFound for one that the actor does not see, EForbidden
	// for one that is not the actor's to change, EConflict when it has links and force is not set.
	RemoveDomain(ctx context.Context, actor controlplane.Actor, id waypost.DomainID, force bool) (waypost.Position, error)
}

type newDomain struct {
	Host        string `json:"host" minLength:"1" maxLength:"253" example:"go.example.com" doc:"The name, also an internationalised one. No address, no local name, and none under which others register theirs, such as co.uk."`
	Shared      bool   `json:"shared,omitempty" doc:"All workspaces have links under it; for the default workspace alone."`
	RootURL     string `json:"root_url,omitempty" doc:"Where the root of the domain leads: a URL as that of a link, of at most 4,096 bytes once it is percent-encoded. Left out or empty: nowhere."`
	NotFoundURL string `json:"not_found_url,omitempty" doc:"Where unknown codes lead, likewise."`
}

type addDomainInput struct {
	Waiting
	Body body[newDomain]
}

type addDomainOutput struct {
	Position string `header:"Waypost-Position" doc:"Position of the change: a replica that has reached it serves the domain."`
	Applied  string `header:"Waypost-Applied" doc:"What came of waiting; see wait."`
	Body     domain
}

type removeDomainInput struct {
	ID    int64 `path:"id" minimum:"1" maximum:"2147483647"`
	Force bool  `query:"force" doc:"Delete the domain's links with it. Where there are very many, the answer may be 503 before it is done: send the request again."`
	Waiting
}

type removeDomainOutput struct {
	Position string `header:"Waypost-Position" doc:"Position of the change: a replica that has reached it no longer serves the domain."`
	Applied  string `header:"Waypost-Applied" doc:"What came of waiting; see wait."`
}

func (s *server) registerDomainEdit() {
	if s.domains == nil {
		return
	}
	handle(s, huma.Operation{
		OperationID: "list-workspace-domains",
		Method:      http.MethodGet,
		Path:        domainsPath,
		Summary:     "List the domains that links can have, and where they lead",
		Security:    s.needs(controlplane.ScopeLinksRead),
		Responses:   problems(401, 403),
	}, s.listDomains)

	handle(s, withBody(huma.Operation{
		OperationID:   "add-domain",
		Method:        http.MethodPost,
		Path:          domainsPath,
		Summary:       "Add a domain",
		Description:   "Nobody is asked to prove that the host is theirs: it serves nothing before its owner points it at the edges. A host that is in use, whosever it is, answers 409.",
		DefaultStatus: http.StatusCreated,
		Security:      s.needs(controlplane.ScopeAdmin),
		Responses:     problems(400, 401, 403, 408, 409, 413, 415, 422),
	}, maxBody), s.addDomain)

	handle(s, withBody(huma.Operation{
		OperationID: "change-workspace-domain",
		Method:      http.MethodPatch,
		Path:        domainsPath + "/{id}",
		Summary:     "Change where a domain leads",
		Security:    s.needs(controlplane.ScopeAdmin),
		Responses:   problems(400, 401, 403, 404, 408, 413, 415, 422),
	}, maxBody), s.changeDomain)

	handle(s, huma.Operation{
		OperationID:   "remove-domain",
		Method:        http.MethodDelete,
		Path:          domainsPath + "/{id}",
		Summary:       "Remove a domain",
		Description:   "Its host is then free for another domain, which begins without any links.",
		DefaultStatus: http.StatusNoContent,
		Security:      s.needs(controlplane.ScopeAdmin),
		Responses:     problems(401, 403, 404, 409, 422),
	}, s.removeDomain)
}

func (s *server) addDomain(ctx context.Context, in *addDomainInput) (*addDomainOutput, error) {
	n, err := decode[newDomain](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	d, position, err := s.domains.AddDomain(ctx, actorFrom(ctx), controlplane.NewDomain{Host: n.Host, Shared: n.Shared, Root: n.RootURL, NotFound: n.NotFoundURL})
	if err != nil {
		return nil, err
	}
	return &addDomainOutput{Position: position.String(), Applied: s.await(ctx, &in.Waiting, position), Body: showDomain(&d)}, nil
}

func (s *server) removeDomain(ctx context.Context, in *removeDomainInput) (*removeDomainOutput, error) {
	position, err := s.domains.RemoveDomain(ctx, actorFrom(ctx), waypost.DomainID(in.ID), in.Force)
	if err != nil {
		return nil, err
	}
	return &removeDomainOutput{Position: position.String(), Applied: s.await(ctx, &in.Waiting, position)}, nil
}
