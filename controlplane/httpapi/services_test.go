package httpapi_test

import (
	"context"
	"log/slog"
	"time"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
)

// services returns a configuration whose services are all in memory.
func services(f *links) httpapi.Config {
	return httpapi.Config{
		Links: f, Domains: &domains{}, Certificates: certificates{}, Keys: supply{&keys{}, f}, Clicks: &statistics{links: f, now: time.Now()},
		Access: access{links: f}, Workspaces: workspaces{keys: &keys{}}, Fleet: fleet{}, Nodes: &edgeNodes{}, Orders: noOrders{},
		Cleanup: cleanup{}, Digests: digests{}, BaseURL: "https://wp.example",
	}
}

// supply adds the health of links to keys.
type supply struct {
	*keys
	links *links
}

func (s supply) Health(context.Context) controlplane.Health { return s.links.health }

// access knows the API keys of links, and nothing else.
type access struct {
	httpapi.Access
	links *links
}

func (a access) Authenticate(ctx context.Context, key string) (controlplane.Actor, error) {
	return a.links.Authenticate(ctx, key)
}

// workspaces knows the audit log of keys, and nothing else.
type workspaces struct {
	noWorkspaces
	keys *keys
}

type noWorkspaces interface{ httpapi.Workspaces }

func (w workspaces) Audit(ctx context.Context, actor controlplane.Actor, all bool, limit int,
	cursor string,
) ([]controlplane.AuditEntry, string, error) {
	return w.keys.Audit(ctx, actor, all, limit, cursor)
}

// noOrders has no orders.
type noOrders struct{}

func (noOrders) Give(context.Context, controlplane.Actor, controlplane.EdgeOrder) (controlplane.EdgeOrder, error) {
	return controlplane.EdgeOrder{}, waypost.Errorf(waypost.ENotFound, "there is no such edge")
}

func (noOrders) Find(context.Context, controlplane.Actor, string, int64) (controlplane.EdgeOrder, error) {
	return controlplane.EdgeOrder{}, waypost.Errorf(waypost.ENotFound, "there is no such order")
}

func (noOrders) Ask(context.Context, controlplane.Actor, controlplane.EdgeOrder) (controlplane.EdgeOutcome, error) {
	return controlplane.EdgeOutcome{}, waypost.Errorf(waypost.ENotFound, "there is no such edge")
}

func (noOrders) Verified(string) (controlplane.EdgeOrder, bool) {
	return controlplane.EdgeOrder{}, false
}

func (noOrders) For(string) []controlplane.EdgeOrder { return nil }

func (f fleet) WaitApplied(ctx context.Context, at waypost.Position, everywhere bool, most time.Duration) controlplane.Applied {
	return waiter{}.WaitApplied(ctx, at, everywhere, most)
}

func (f *statistics) Stats(ctx context.Context, actor controlplane.Actor, code string) (waypost.Link, error) {
	return f.links.Stats(ctx, actor, code)
}

var discard = slog.New(slog.DiscardHandler)
