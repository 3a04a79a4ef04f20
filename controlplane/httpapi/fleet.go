package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/fleet"
	"waypost/internal/condition"
)

// Fleet knows the edges.
type Fleet interface {
	Waiter
	Edges() []fleet.EdgeStatus
	ControlPlanes() []fleet.ControlStatus
}

// Nodes manages the credentials of edges. EForbidden: the actor is not an operator.
type Nodes interface {
	NewEnrolment(ctx context.Context, actor controlplane.Actor, e api.NewEnrolment) (api.Enrolment, error)
	Revoke(ctx context.Context, actor controlplane.Actor, node string) error
	Credentials(ctx context.Context, actor controlplane.Actor) ([]api.NodeCredential, error)
}

// Orders passes orders of operators on to edges.
type Orders interface {
	Give(ctx context.Context, actor controlplane.Actor, order api.EdgeOrder) (api.EdgeOrder, error)
	Find(ctx context.Context, actor controlplane.Actor, node string, id int64) (api.EdgeOrder, error)
	Ask(ctx context.Context, actor controlplane.Actor, order api.EdgeOrder) (api.EdgeOutcome, error)
	Verified(node string) (api.EdgeOrder, bool)
}

// fleetAPI serves the edges, their credentials and their orders to operators.
type fleetAPI struct {
	blocks Blocks
	fleet  Fleet
	nodes  Nodes
	orders Orders
	clicks Clicks
	url    string // at which edges reach this control plane; "": they use the API's, or it is not known
	log    *slog.Logger
}

type nodeInput struct {
	Node string `path:"node" maxLength:"64" example:"eu-1" doc:"The name of an edge."`
}

type drainInput struct {
	Node string `path:"node" doc:"Name of the edge."`
	Body api.DrainEdge
}

type acceptHeldInput struct {
	nodeInput
	Body api.AcceptHeld
}

type findOrderInput struct {
	nodeInput
	ID int64 `path:"id" minimum:"1" doc:"The order's number."`
}

func registerFleet(rt *router, a *fleetAPI) {
	admin := []controlplane.Scope{controlplane.ScopeAdmin}
	handle(rt, operation{
		id: "list-edges", method: http.MethodGet, path: api.PathEdges, summary: "List the edges with their states and lags", scopes: admin,
	}, a.edges)
	handle(rt, operation{
		id: "give-up-edge", method: http.MethodDelete, path: api.PathEdges + "/{node}", summary: "Declare an edge as lost for good, with its disk",
		description: "Statistics no longer wait for its clicks: it neither holds `complete_until` back nor is among those `behind`. " +
			"Nothing is deleted; if the edge returns, statistics wait for it again, and its clicks are counted. " +
			"If PostgreSQL was failed over or restored and the edge has not reported since, the exact click budgets of all " +
			"existing links end for good. 409 for an edge that was heard of within the last minute. It is in the audit log.",
		scopes: admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *nodeInput) (*struct{}, error) {
		return &struct{}{}, a.clicks.GiveUpEdge(ctx, actorFrom(ctx), in.Node)
	})
	handle(rt, operation{
		id: "enrol-edge", method: http.MethodPost, path: api.PathEdgeEnrolments, summary: "Create a token with which an edge enrols, once",
		description: "The edge makes a credential of its own and exchanges the token for it (POST /replication/v1/enrol); the control plane " +
			"keeps its hash. At most 1,000 tokens are open at once. It is in the audit log.",
		status: http.StatusCreated, scopes: admin, problems: []int{http.StatusConflict},
	}, a.enrol)
	handle(rt, operation{
		id: "list-edge-credentials", method: http.MethodGet, path: api.PathEdgeCredentials,
		summary: "List the credentials of edges, including revoked ones", scopes: admin,
	}, a.credentials)
	handle(rt, operation{
		id: "revoke-edge", method: http.MethodDelete, path: api.PathEdgeCredentials + "/{node}", summary: "Revoke an edge's credential",
		description: "Within a second all control planes refuse the edge, and its streams end. It continues to serve its links. " +
			"Tokens for its name alone are void. It is in the audit log.",
		scopes: admin, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *nodeInput) (*struct{}, error) {
		return &struct{}{}, a.nodes.Revoke(ctx, actorFrom(ctx), in.Node)
	})
	handle(rt, operation{
		id: "verify-edge", method: http.MethodPost, path: api.PathEdges + "/{node}/verifications",
		summary: "Let an edge read all its records and compare them with the digest",
		description: "Orders the edge to read all records on its disk while it serves, and to compare their sum with the digest of its position. " +
			"An edge repairs damage in any case. The answer is an order, which later has an outcome. It is in the audit log.",
		scopes: admin, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *nodeInput) (*body[api.EdgeOrder], error) {
		return answered(a.orders.Give(ctx, actorFrom(ctx), api.EdgeOrder{Node: in.Node, What: fleet.OrderVerify}))
	})
	handle(rt, operation{
		id: "accept-edge", method: http.MethodPost, path: api.PathEdges + "/{node}/acceptances",
		summary: "Let an edge take a change that it holds back",
		description: "An edge holds a change back that would delete very many links at once, or replace nearly all of them by nothing, and serves " +
			"the former state. This order confirms the change. The answer is an order, which later has an outcome. It is in the audit log.",
		scopes: admin, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *acceptHeldInput) (*body[api.EdgeOrder], error) {
		return answered(a.orders.Give(ctx, actorFrom(ctx), api.EdgeOrder{Node: in.Node, What: fleet.OrderAccept, Hold: in.Body.What}))
	})
	handle(rt, operation{
		id: "drain-edge", method: http.MethodPost, path: api.PathEdges + "/{node}/drains",
		summary: "Let an edge send new visitors elsewhere, or end that",
		description: "Orders the edge to answer /readyz with 503, so that balancers turn to other edges. It serves visitors who come " +
			"nevertheless, and follows the changelog. The order ends with `undo`, and when the edge's process ends. The answer is an " +
			"order, which later has an outcome. It is in the audit log.",
		scopes: admin, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *drainInput) (*body[api.EdgeOrder], error) {
		what := fleet.OrderDrain
		if in.Body.Undo {
			what = fleet.OrderUndrain
		}
		return answered(a.orders.Give(ctx, actorFrom(ctx), api.EdgeOrder{Node: in.Node, What: what}))
	})
	handle(rt, operation{
		id: "get-edge-order", method: http.MethodGet, path: api.PathEdges + "/{node}/orders/{id}", summary: "Get an order to an edge, and its outcome",
		scopes: admin, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *findOrderInput) (*body[api.EdgeOrder], error) {
		return answered(a.orders.Find(ctx, actorFrom(ctx), in.Node, in.ID))
	})
}

func (a *fleetAPI) edges(ctx context.Context, _ *struct{}) (*body[api.EdgeList], error) {
	// The fleet belongs to the installation, not to a tenant.
	if actorFrom(ctx).Workspace != waypost.DefaultWorkspace {
		return nil, waypost.Errorf(waypost.EForbidden, "only keys of the default workspace may list the fleet")
	}
	all := a.fleet.Edges()
	controls := a.fleet.ControlPlanes()
	out := bodyOf(api.EdgeList{Edges: make([]api.Edge, len(all)), ControlPlanes: make([]api.ControlPlane, len(controls))})
	revoked := a.revoked(ctx)
	digest, known := a.knownBlocks(ctx)
	for i := range all {
		e := &all[i]
		if revoked[e.Node] {
			e.Credential = new(fleet.CredentialRevoked)
		}
		e.Conditions = conditionsOfEdge(&e.Edge, controls)
		if e.Blocks != nil && known {
			e.HasBlocks = new(*e.Blocks == digest)
		}
		if o, ok := a.orders.Verified(e.Node); ok {
			e.Verified = &api.Verified{At: *o.DoneAt, Damage: o.Outcome.Damage, Error: o.Outcome.Error}
		}
		out.Body.Edges[i] = e.Edge
	}
	for i := range controls {
		out.Body.ControlPlanes[i] = controlOf(&controls[i], all)
	}
	return out, nil
}

// knownBlocks returns the digest that edges with all blocks have; false if this control
// plane may lack some, or cannot see that it has all.
func (a *fleetAPI) knownBlocks(ctx context.Context) (digest uint64, known bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	digest, known, err := a.blocks.Known(ctx)
	if err != nil {
		a.log.WarnContext(ctx, "cannot see whether all blocks of codes are known here", "error", err)
	}
	return digest, known
}

// revoked returns the edges with revoked credentials, as far as is known: the fleet can
// be listed also while the database is away.
func (a *fleetAPI) revoked(ctx context.Context) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	all, err := a.nodes.Credentials(ctx, actorFrom(ctx))
	if err != nil {
		a.log.WarnContext(ctx, "cannot read which edges are revoked", "error", err)
	}
	revoked := make(map[string]bool, len(all))
	for i := range all {
		revoked[all[i].Node] = all[i].RevokedAt != nil
	}
	return revoked
}

// conditionsOfEdge returns the conditions that an edge reports while it is alive, and the
// conditions of the edge that this control plane sees.
func conditionsOfEdge(e *api.Edge, controls []fleet.ControlStatus) []api.NodeCondition {
	shown := []api.NodeCondition{}
	switch {
	case e.State == fleet.EdgeAlive && e.Via == fleet.ViaReport:
		shown = append(shown, e.Conditions...)
	case e.State != fleet.EdgeAlive && !e.Left && (e.MayServe || e.Credential == nil || *e.Credential != fleet.CredentialRevoked):
		down := condition.Statement{Why: "it is " + e.State, Since: e.Since}
		shown = append(shown, api.NodeCondition(condition.Find("EdgeDown").Of(e.Node, down)))
	}
	for i := range controls {
		for _, c := range controls[i].Conditions {
			if controls[i].Answers && c.Of == e.Node {
				shown = append(shown, api.NodeCondition(c))
			}
		}
	}
	return shown
}

// controlOf leaves out conditions of edges, which the edges are shown with, and what this
// control plane sees like the others.
func controlOf(p *fleet.ControlStatus, edges []fleet.EdgeStatus) api.ControlPlane {
	shown := api.ControlPlane{
		Node: p.Node, Region: string(p.Region), Version: p.Version, Addr: p.Addr, AdminAddr: p.AdminAddr,
		State: string(p.State), Answers: p.Answers,
		StartedAt: p.StartedAt.UTC(), LastSeen: p.LastSeen.UTC(), Conditions: []api.NodeCondition{},
	}
	if p.State == fleet.ControlSilent {
		shown.Conditions = append(shown.Conditions, api.NodeCondition(condition.Find("ControlPlaneDown").Of(p.Node,
			condition.Statement{Why: "it did not stop in order, and PostgreSQL hears nothing of it", Since: p.LastSeen.UTC()})))
	}
	for _, c := range p.Conditions {
		ofEdge := slices.ContainsFunc(edges, func(e fleet.EdgeStatus) bool { return c.Of == e.Node })
		k := condition.Find(c.Name)
		seen := !p.Answers && k != nil && k.Cluster
		if p.State == fleet.ControlAlive && !ofEdge && !seen {
			shown.Conditions = append(shown.Conditions, api.NodeCondition(c))
		}
	}
	return shown
}

func (a *fleetAPI) enrol(ctx context.Context, in *body[api.NewEnrolment]) (*body[api.Enrolment], error) {
	e, err := a.nodes.NewEnrolment(ctx, actorFrom(ctx), in.Body)
	e.ControlURL = a.url
	return answered(e, err)
}

func (a *fleetAPI) credentials(ctx context.Context, _ *struct{}) (*body[api.EdgeCredentialList], error) {
	all, err := a.nodes.Credentials(ctx, actorFrom(ctx))
	return answered(api.EdgeCredentialList{Credentials: all}, err)
}
