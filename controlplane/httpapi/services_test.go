package httpapi_test

import (
	"context"
	"log/slog"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/blocks"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/keys"
)

// services returns a configuration whose services are all in memory.
func services(f *links) httpapi.Config {
	return httpapi.Config{BaseURL: "https://wp.example", Node: "c1", Services: httpapi.Services{
		Links: f, Domains: &domains{}, Certificates: certificates{}, Keys: supply{&fakeKeys{}, f}, Clicks: &statistics{links: f, now: time.Now()},
		Blocks: &fakeBlocks{},
		Access: access{links: f}, Workspaces: workspaces{keys: &fakeKeys{}}, Fleet: fixedFleet{}, Nodes: &edgeNodes{}, Orders: noOrders{},
		Cleanup: cleanup{}, Digests: digests{}, Budgets: noBudgets{}, Imports: noImports{},
	}}
}

// noImports knows no imports.
type noImports struct{ httpapi.Imports }

// noBudgets knows no budgets.
type noBudgets struct{ httpapi.Budgets }

func (noBudgets) Of(context.Context, controlplane.Actor, *waypost.Link) (*api.Budget, error) {
	return nil, nil //nolint:nilnil // there is none
}

// fakeBlocks are blocked codes in memory.
type fakeBlocks struct{ all []waypost.Block }

func (f *fakeBlocks) Set(_ context.Context, actor controlplane.Actor, n blocks.Request) (all []waypost.Block, err error) {
	switch {
	case actor.CheckOperator() != nil:
		return nil, actor.CheckOperator()
	case n.Code == "none":
		return nil, waypost.ErrNoLink
	case !n.Blocked && f.Of(n.Domain, waypost.Code(n.Code)) == nil:
		return nil, waypost.Errorf(waypost.EConflict, "the link is not blocked")
	}
	b := waypost.Block{
		Host: n.Domain, Code: waypost.Code(n.Code), Version: uint64(len(f.all) + 1), Blocked: n.Blocked,
		Policy: n.Policy, Reason: n.Reason, At: 1_900_000_000_000,
	}
	if all = append(all, b); n.All {
		b.Host, b.Code = "own.example", "café"
		all = append(all, b)
	}
	f.all = append(all[:1:1], f.all...)
	return all, nil
}

func (f *fakeBlocks) List(actor controlplane.Actor, limit int, cursor string) ([]waypost.Block, string, error) {
	if cursor == "x" {
		return nil, "", waypost.Errorf(waypost.EMalformed, "the cursor is not one of ours")
	}
	return f.all[:min(len(f.all), limit)], "", actor.CheckOperator()
}

func (f *fakeBlocks) Of(host string, code waypost.Code) *waypost.Block {
	for i := range f.all {
		if b := &f.all[i]; b.Host == host && b.Code == code {
			if !b.Blocked {
				return nil
			}
			return b
		}
	}
	return nil
}

func (f *fakeBlocks) Known(context.Context) (uint64, bool, error) {
	return uint64(len(f.all)), true, nil
}

// supply adds the health of links to keys.
type supply struct {
	*fakeKeys
	links *links
}

func (s supply) Health(context.Context) keys.Health { return s.links.health }

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
	keys *fakeKeys
}

type noWorkspaces interface{ httpapi.Workspaces }

func (w workspaces) Audit(ctx context.Context, actor controlplane.Actor, all bool, limit int,
	cursor string,
) (api.AuditPage, error) {
	return w.keys.Audit(ctx, actor, all, limit, cursor)
}

// noOrders has no orders.
type noOrders struct{}

func (noOrders) Give(context.Context, controlplane.Actor, api.EdgeOrder) (api.EdgeOrder, error) {
	return api.EdgeOrder{}, waypost.Errorf(waypost.ENotFound, "there is no such edge")
}

func (noOrders) Find(context.Context, controlplane.Actor, string, int64) (api.EdgeOrder, error) {
	return api.EdgeOrder{}, waypost.Errorf(waypost.ENotFound, "there is no such order")
}

func (noOrders) Ask(context.Context, controlplane.Actor, api.EdgeOrder) (api.EdgeOutcome, error) {
	return api.EdgeOutcome{}, waypost.Errorf(waypost.ENotFound, "there is no such edge")
}

func (noOrders) Verified(string) (api.EdgeOrder, bool) {
	return api.EdgeOrder{}, false
}

func (noOrders) For(string) []api.EdgeOrder { return nil }

func (f fixedFleet) WaitApplied(ctx context.Context, at waypost.Position, everywhere bool, most time.Duration) api.Applied {
	return waiter{}.WaitApplied(ctx, at, everywhere, most)
}

func (f *statistics) Stats(ctx context.Context, actor controlplane.Actor, code string) (waypost.Link, error) {
	return f.links.Stats(ctx, actor, code)
}

var discard = slog.New(slog.DiscardHandler)
