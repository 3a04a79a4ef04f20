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
	Domains(ctx context.Context, actor controlplane.Actor) ([]controlplane.OwnedDomain, error)
	EveryDomain(ctx context.Context, actor controlplane.Actor) ([]controlplane.OwnedDomain, error)
	AddDomain(ctx context.Context, actor controlplane.Actor, n api.NewDomain) (controlplane.OwnedDomain, waypost.Position, error)
	Verify(ctx context.Context, actor controlplane.Actor, id waypost.DomainID) (controlplane.OwnedDomain, waypost.Position, error)
	Approve(ctx context.Context, actor controlplane.Actor, id waypost.DomainID) (controlplane.OwnedDomain, waypost.Position, error)
	ChangeDomain(ctx context.Context, actor controlplane.Actor, id waypost.DomainID,
		c api.DomainChange) (controlplane.OwnedDomain, waypost.Position, error)
	RemoveDomain(ctx context.Context, actor controlplane.Actor, id waypost.DomainID, force bool) (waypost.Position, error)
	RemoveAnyDomain(ctx context.Context, actor controlplane.Actor, id waypost.DomainID, force bool) (waypost.Position, error)
	Root(ctx context.Context, host string) (waypost.Resolution, bool, error)
}

// domainsAPI serves domains.
type domainsAPI struct {
	domains      Domains
	waiter       Waiter
	certificates Certificates
}

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

type domainInput struct {
	ID int64 `path:"id" minimum:"1" maximum:"2147483647"`
	waiting
}

func registerDomains(rt *router, a *domainsAPI) {
	admin := []controlplane.Scope{controlplane.ScopeAdmin}
	handle(rt, operation{
		id: "list-domains", method: http.MethodGet, path: api.PathDomains, summary: "List the domains of the workspace and the shared ones",
		scopes: []controlplane.Scope{controlplane.ScopeLinksRead},
	}, func(ctx context.Context, _ *struct{}) (*body[api.DomainList], error) {
		all, err := a.domains.Domains(ctx, actorFrom(ctx))
		return a.domainsOf(all, false), err
	})
	handle(rt, operation{
		id: "add-domain", method: http.MethodPost, path: api.PathDomains, summary: "Add a domain",
		description: "A domain is pending, and not served, until its owner has proved it: put the text `proof.record_value` into a TXT record at " +
			"`proof.record_name`, then verify the domain. An operator's own domain is served at once.",
		status: http.StatusCreated, scopes: admin, problems: []int{http.StatusConflict},
	}, a.addDomain)
	handle(rt, operation{
		id: "change-domain", method: http.MethodPatch, path: api.PathDomains + "/{id}", summary: "Change the targets of a domain, and how it reads addresses",
		scopes: admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, a.change)
	handle(rt, operation{
		id: "verify-domain", method: http.MethodPost, path: api.PathDomains + "/{id}/verify", summary: "Look for the proof of a domain now",
		description: "Answers 200 once DNS has the record: the domain is served. 422 says that the record is missing, 503 that DNS does not answer, " +
			"409 that another workspace has proved the host as well. A domain that another workspace had, and no longer proves, is taken over.",
		scopes: admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *domainInput) (*domainOutput, error) {
		d, position, err := a.domains.Verify(ctx, actorFrom(ctx), waypost.DomainID(in.ID))
		return a.changed(ctx, &d, &in.waiting, position, err)
	})
	handle(rt, operation{
		id: "remove-domain", method: http.MethodDelete, path: api.PathDomains + "/{id}", summary: "Remove a domain",
		description: "Afterwards its host is free for another domain, which begins without any links.",
		scopes:      admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *removeDomainInput) (*changedOutput, error) {
		return a.removed(ctx, in, a.domains.RemoveDomain)
	})

	// The domains of all workspaces, for operators.
	handle(rt, operation{
		id: "list-all-domains", method: http.MethodGet, path: api.PathAllDomains, summary: "List the domains of all workspaces", scopes: admin,
	}, func(ctx context.Context, _ *struct{}) (*body[api.DomainList], error) {
		all, err := a.domains.EveryDomain(ctx, actorFrom(ctx))
		return a.domainsOf(all, true), err
	})
	handle(rt, operation{
		id: "approve-domain", method: http.MethodPost, path: api.PathAllDomains + "/{id}/approve", summary: "Serve a domain without a proof",
		description: "For names that public DNS does not know. An approved domain is never looked up.",
		scopes:      admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *domainInput) (*domainOutput, error) {
		d, position, err := a.domains.Approve(ctx, actorFrom(ctx), waypost.DomainID(in.ID))
		return a.changed(ctx, &d, &in.waiting, position, err)
	})
	handle(rt, operation{
		id: "remove-any-domain", method: http.MethodDelete, path: api.PathAllDomains + "/{id}", summary: "Remove a domain of any workspace",
		scopes: admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *removeDomainInput) (*changedOutput, error) {
		return a.removed(ctx, in, a.domains.RemoveAnyDomain)
	})
}

func (a *domainsAPI) domainsOf(all []controlplane.OwnedDomain, owners bool) *body[api.DomainList] {
	shown := make([]api.Domain, len(all))
	for i := range all {
		shown[i] = a.domainOf(&all[i])
		if owners {
			shown[i].WorkspaceID = int64(all[i].Workspace)
		}
	}
	return bodyOf(api.DomainList{Domains: shown})
}

func (a *domainsAPI) addDomain(ctx context.Context, in *addDomainInput) (*domainOutput, error) {
	d, position, err := a.domains.AddDomain(ctx, actorFrom(ctx), in.Body)
	return a.changed(ctx, &d, &in.waiting, position, err)
}

func (a *domainsAPI) change(ctx context.Context, in *changeDomainInput) (*domainOutput, error) {
	d, position, err := a.domains.ChangeDomain(ctx, actorFrom(ctx), waypost.DomainID(in.ID), in.Body)
	return a.changed(ctx, &d, &in.waiting, position, err)
}

func (a *domainsAPI) removed(ctx context.Context, in *removeDomainInput,
	remove func(context.Context, controlplane.Actor, waypost.DomainID, bool) (waypost.Position, error),
) (*changedOutput, error) {
	position, err := remove(ctx, actorFrom(ctx), waypost.DomainID(in.ID), in.Force)
	if err != nil {
		return nil, err
	}
	return &changedOutput{Position: position.String(), Applied: appliedText(await(ctx, a.waiter, &in.waiting, position))}, nil
}

// changed is the answer with a domain that was changed, unless that failed.
func (a *domainsAPI) changed(
	ctx context.Context, d *controlplane.OwnedDomain, in *waiting, at waypost.Position, err error,
) (*domainOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &domainOutput{changedOutput{Position: at.String()}, a.domainOf(d)}
	out.Body.Applied = await(ctx, a.waiter, in, at)
	out.Applied = appliedText(out.Body.Applied)
	return out, nil
}

func (a *domainsAPI) domainOf(d *controlplane.OwnedDomain) api.Domain {
	certificate := api.DomainCertificate{State: controlplane.CertificateNone}
	if d.Served() { // otherwise the host may be another workspace's
		certificate = a.certificates.Of(d.Host)
	}
	shown := api.Domain{
		Certificate: certificate, ID: uint32(d.ID), Host: d.Host, Shared: d.Workspace == 0, State: string(d.State),
		RootURL: string(d.Root), NotFoundURL: string(d.NotFound), MaintenanceURL: string(d.Maintenance),
		ExactPaths: d.Traits&waypost.ExactPaths != 0, Case: controlplane.CaseOf(d.Traits&waypost.IgnoresCase != 0),
		CaseSwitching: d.Traits&waypost.CaseSwitching != 0,
	}
	if d.Proof != "" {
		shown.Proof = &api.DomainProof{
			RecordName: controlplane.ProofName(d.Host), RecordValue: d.Proof,
			CheckedAt: moment(d.CheckedAt), UnprovedSince: moment(d.UnprovedSince), SuspendedAt: moment(d.SuspendedAt()),
		}
	}
	return shown
}
