package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"waypost/api"
)

// Edges manages the edges, their credentials and their orders.
type Edges struct{ c *Client }

// List lists all edges that the control plane knows, by region and node.
func (e Edges) List(ctx context.Context) ([]Edge, error) {
	all, err := e.Fleet(ctx)
	return all.Edges, err
}

// Fleet lists the edges and the control planes, by region and node.
func (e Edges) Fleet(ctx context.Context) (Fleet, error) {
	return ask[Fleet](ctx, e.c, http.MethodGet, api.PathEdges, nil)
}

// Verify orders an edge to add up its records, and to compare the sum with the digest.
func (e Edges) Verify(ctx context.Context, node string) (EdgeOrder, error) {
	return ask[EdgeOrder](ctx, e.c, http.MethodPost, edgePath(node)+"/verifications", nil)
}

// Accept orders an edge to take a held change; "" is any.
func (e Edges) Accept(ctx context.Context, node, what string) (EdgeOrder, error) {
	return ask[EdgeOrder](ctx, e.c, http.MethodPost, edgePath(node)+"/acceptances", api.AcceptHeld{What: what})
}

// Drain orders an edge to send new visitors elsewhere, or to end that.
func (e Edges) Drain(ctx context.Context, node string, undo bool) (EdgeOrder, error) {
	return ask[EdgeOrder](ctx, e.c, http.MethodPost, edgePath(node)+"/drains", api.DrainEdge{Undo: undo})
}

// orderPause is the time between looks at an order.
const orderPause = 250 * time.Millisecond

// Await waits until an edge has answered an order, or ctx ends.
func (e Edges) Await(ctx context.Context, o EdgeOrder) (EdgeOrder, error) {
	for o.Outcome == nil {
		select {
		case <-ctx.Done():
			return o, ctx.Err()
		case <-time.After(orderPause):
		}
		if err := e.c.do(ctx, http.MethodGet, edgePath(o.Node)+"/orders/"+decimal(o.ID), nil, &o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// GiveUp declares an edge as lost for good.
func (e Edges) GiveUp(ctx context.Context, node string) error {
	return e.c.do(ctx, http.MethodDelete, edgePath(node), nil, nil)
}

// Digest returns whether PostgreSQL's rows add up to the digest that edges are held
// against, as the control plane has seen it last.
func (e Edges) Digest(ctx context.Context) (Digest, error) {
	return ask[Digest](ctx, e.c, http.MethodGet, api.PathDigest, nil)
}

// CheckDigest compares PostgreSQL's rows with the digest, until ctx ends. With recompute,
// a wrong digest is replaced. The control plane that took the request answers; another
// control plane behind the same address knows an older state.
func (e Edges) CheckDigest(ctx context.Context, recompute bool) (d Digest, err error) {
	err = e.c.do(ctx, http.MethodPost, api.PathDigest, api.CheckDigest{Recompute: recompute}, &d)
	for err == nil && d.Running {
		select {
		case <-ctx.Done():
			return d, ctx.Err()
		case <-time.After(orderPause):
		}
		var now Digest
		if now, err = e.Digest(ctx); now.ControlPlane == d.ControlPlane {
			d = now
		}
	}
	return d, err
}

// Enrol creates a token with which an edge enrols.
func (e Edges) Enrol(ctx context.Context, n NewEnrolment) (Enrolment, error) {
	return ask[Enrolment](ctx, e.c, http.MethodPost, api.PathEdgeEnrolments, n)
}

// Credentials lists the credentials of edges, by name.
func (e Edges) Credentials(ctx context.Context) ([]NodeCredential, error) {
	answer, err := ask[api.EdgeCredentialList](ctx, e.c, http.MethodGet, api.PathEdgeCredentials, nil)
	return answer.Credentials, err
}

// Revoke revokes the credential of an edge.
func (e Edges) Revoke(ctx context.Context, node string) error {
	return e.c.do(ctx, http.MethodDelete, api.PathEdgeCredentials+"/"+url.PathEscape(node), nil, nil)
}

func edgePath(node string) string { return api.PathEdges + "/" + url.PathEscape(node) }
