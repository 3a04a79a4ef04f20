package client

import (
	"context"
	"net/http"
	"time"

	"waypost/api"
)

// Edges lists the edges, waits for their orders, and checks the digest that they compare
// with.
type Edges struct{ c *Client }

// List lists all edges that the control plane knows, by region and node.
func (e Edges) List(ctx context.Context) ([]Edge, error) {
	all, err := e.Fleet(ctx)
	return all.Edges, err
}

// Fleet lists the edges and the control planes, by region and node.
func (e Edges) Fleet(ctx context.Context) (api.EdgeList, error) {
	return Get[api.EdgeList](ctx, e.c, api.PathEdges)
}

// orderPause is the time between looks at an order.
const orderPause = 250 * time.Millisecond

// Await waits until an edge has answered an order, or ctx ends.
func (e Edges) Await(ctx context.Context, o api.EdgeOrder) (api.EdgeOrder, error) {
	for o.Outcome == nil {
		select {
		case <-ctx.Done():
			return o, ctx.Err()
		case <-time.After(orderPause):
		}
		if err := e.c.do(ctx, http.MethodGet, Path(api.PathEdges, o.Node, "orders", o.ID), nil, &o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// Digest returns whether PostgreSQL's rows add up to the digest that edges are held
// against, as the control plane has seen it last.
func (e Edges) Digest(ctx context.Context) (api.Digest, error) {
	return Get[api.Digest](ctx, e.c, api.PathDigest)
}

// CheckDigest compares PostgreSQL's rows with the digest, until ctx ends. With recompute,
// a wrong digest is replaced. The control plane that took the request answers; another
// control plane behind the same address knows an older state.
func (e Edges) CheckDigest(ctx context.Context, recompute bool) (d api.Digest, err error) {
	err = e.c.do(ctx, http.MethodPost, api.PathDigest, api.CheckDigest{Recompute: recompute}, &d)
	for err == nil && d.Running {
		select {
		case <-ctx.Done():
			return d, ctx.Err()
		case <-time.After(orderPause):
		}
		var now api.Digest
		if now, err = e.Digest(ctx); now.ControlPlane == d.ControlPlane {
			d = now
		}
	}
	return d, err
}
