package node

import (
	"encoding/hex"
	"net"
	"net/http"

	"waypost"
	"waypost/api"
	"waypost/api/clickbatch"
	"waypost/api/requestid"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/limit"
	"waypost/internal/failpoint"
	"waypost/internal/listener"
	"waypost/replication"
	"waypost/web"
)

// routes returns the handlers of the API, and of the paths that only edges may use, which
// one handler answers if edges have no listener of their own (nil).
func (c *control) routes(stopping <-chan struct{}) (public, fleet http.Handler, err error) {
	console, err := web.New()
	if err != nil {
		return nil, nil, err
	}
	proxies, core := c.cfg.TrustedProxies, c.core
	guesses, client := limit.NewGuesses(maxFailures, nil), clientOf(proxies)
	cfg := httpapi.Config{
		Services: httpapi.Services{
			Links: core.Links, Domains: core.Domains, Keys: c.ranges, Clicks: core.Clicks, Budgets: core.Budgets,
			Blocks: c.blocks, Access: core.Access, Workspaces: core.Workspaces, Fleet: c.fleet, Nodes: c.nodes,
			Orders: c.orders, Cleanup: c.db, Digests: c.digests, Certificates: c.certificates,
			Imports: c.imports,
		},
		Node: c.cfg.Node, FleetURL: c.fleetURL(),
		BaseURL: c.cfg.BaseURL, Contact: c.cfg.Contact, Version: c.cfg.Version, Now: c.db.Now, Logger: c.log, Metrics: c.registry,
		Origins: c.cfg.CORSOrigins, Console: console, Stopping: stopping,
		RequestTimeout: failpoint.Limit("a request takes at most", 0),
		Limits: httpapi.Limits{
			Requests:   limit.NewRequests(c.cfg.RateLimit, burstSeconds*c.cfg.RateLimit, nil),
			Workspaces: limit.NewRequests(workspaceKeys*c.cfg.RateLimit, workspaceKeys*burstSeconds*c.cfg.RateLimit, nil),
			Guesses:    guesses, Client: client,
		},
	}
	gate := httpapi.NewEdgeGate(httpapi.EdgeGateConfig{
		Nodes: c.nodes, SharedToken: c.cfg.EdgeToken, Certificates: c.cfg.TLS.ClientCAFile != "", Guesses: guesses, Client: client, Logger: c.log,
	})
	edgesOnly := func(next http.HandlerFunc) http.Handler { return gate.Only(proven(next)) }
	if c.cfg.Anonymous {
		cfg.Anonymous = &controlplane.Actor{
			Workspace: waypost.DefaultWorkspace, Slug: waypost.DefaultSlug, Scopes: []controlplane.Scope{controlplane.ScopeAdmin},
		}
	}
	links := forwardedHost(proxies, httpapi.New(cfg))
	edges := map[string]http.Handler{
		replication.PathStream:   edgesOnly(listener.Endless(c.stream.Stream)),
		replication.PathSnapshot: edgesOnly(listener.Endless(c.stream.Snapshot)),
		replication.PathSums:     edgesOnly(listener.Endless(c.stream.Sums)),
		replication.PathEnrol:    http.HandlerFunc(gate.Enrol),
		clickbatch.Path:          edgesOnly(c.ownClicks(httpapi.Ingest(c.db, c.log, c.registry))),
		api.PathEdgeReports:      edgesOnly(httpapi.EdgeReports(c.fleet, c.orders, c.blocks, c.log).ServeHTTP),
		api.PathEdgeOutcomes:     edgesOnly(httpapi.EdgeOutcomes(c.orders, c.log).ServeHTTP),
		api.PathEdgeBudgets:      edgesOnly(httpapi.EdgeBudgets(c.db, c.log, c.registry).ServeHTTP),
		api.PathEdgeBlocks:       edgesOnly(httpapi.EdgeBlocks(c.blocks, c.log).ServeHTTP),
		api.PathEdgeUnknown:      edgesOnly(httpapi.EdgeUnknown(c.db, c.log).ServeHTTP),
		api.PathEdgeCertificates: edgesOnly(httpapi.EdgeCertificates(c.certificates, c.log).ServeHTTP),
	}
	if c.fleetLn == nil {
		return dispatch(edges, links), nil, nil
	}
	elsewhere := misdirected("edges reach this control plane at port " + portOf(c.fleetLn) + ", its control.fleet_listen: name that in edge.control_urls")
	public = dispatch(nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if edges[r.URL.Path] != nil {
			elsewhere(w, r)
			return
		}
		links.ServeHTTP(w, r)
	}))
	return public, dispatch(edges, misdirected("this port is for edges; the API is at port "+portOf(c.ln)+", its control.addr")), nil
}

// dispatch returns a handler that answers the paths of edges, and refuses others on
// connections on trial. A ServeMux would redirect paths that are not clean, but the API
// judges such paths itself.
func dispatch(edges map[string]http.Handler, others http.Handler) http.Handler {
	return requestid.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, edge := edges[r.URL.Path]
		if listener.ConnOf(r.Context()).OnTrial() {
			w.Header().Set("Connection", "close")
			if !edge {
				httpapi.TooManyConnections(w)
				return
			}
		}
		if !edge {
			h = others
		}
		h.ServeHTTP(w, r)
	}))
}

func misdirected(detail string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { httpapi.Misdirected(w, detail) }
}

// fleetURL returns the URL at which edges reach this control plane; "" if it is the
// API's, or if the listener is at all addresses of the machine.
func (c *control) fleetURL() string {
	if c.fleetLn == nil {
		return ""
	}
	if at, ok := c.fleetLn.Addr().(*net.TCPAddr); !ok || at.IP.IsUnspecified() {
		return ""
	}
	if c.secure != nil {
		return "https://" + c.fleetLn.Addr().String()
	}
	return "http://" + c.fleetLn.Addr().String()
}

func portOf(ln net.Listener) string {
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		return "unknown"
	}
	return port
}

// ownClicks refuses the clicks of another cluster's links, which would be counted as
// clicks of unknown links, and clicks that a newer primary has to count. The edge keeps
// the refused clicks, and asks another control plane.
func (c *control) ownClicks(next http.Handler) http.HandlerFunc {
	own := hex.EncodeToString(c.cluster[:])
	return func(w http.ResponseWriter, r *http.Request) {
		var err error
		if r.Header.Get(clickbatch.HeaderCluster) != own {
			err = waypost.Errorf(waypost.EUnavailable, "these are clicks of another cluster's links; the edge keeps them")
		} else if at, invalid := waypost.ParsePosition(r.Header.Get(clickbatch.HeaderPosition)); invalid != nil {
			err = invalid
		} else {
			err = c.db.Outdated(r.Context(), at.Epoch)
		}
		if err != nil {
			c.log.WarnContext(r.Context(), "refused clicks of another history", "edge", r.Header.Get(replication.HeaderNode), "error", err)
			w.Header().Set("Retry-After", "10")
			http.Error(w, waypost.MessageOf(err), http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	}
}
