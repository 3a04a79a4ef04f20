package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"waypost"
	"waypost/api"
	"waypost/api/clickbatch"
	"waypost/internal/listener"
	"waypost/internal/services"
	"waypost/replication"
)

// relay lets other edges follow this one.
type relay struct {
	edge    *edge
	server  *replication.Server
	handler http.Handler
	copies  sync.WaitGroup // reports on their way to control planes
}

// Limits of the followers of a relay.
const (
	relayFollowers   = 1000
	relaySnapshots   = 4
	relayConnections = 2000
)

// newRelay makes the relay of an edge that may be followed; nil: it may not.
func newRelay(e *edge) (r *relay, err error) {
	if e.listeners.relay == nil {
		return nil, nil //nolint:nilnil // most edges are no relay
	}
	r = &relay{edge: e}
	r.server, err = replication.NewServer(replication.ServerConfig{
		Source: relaySource{e.store}, Trust: e.store.trust, Blocks: &e.blocks.BlockSet, Logger: e.log, Metrics: e.registry,
		ServerLimits: replication.ServerLimits{MaxFollowers: relayFollowers, MaxSnapshots: relaySnapshots},
		Via:          func() []string { return append([]string{e.store.node}, e.following.Status().Via...) },
	})
	if err != nil {
		return nil, err
	}
	r.handler = r.routes(r.server)
	return r, nil
}

// ask asks the followers to report once they have reached a position.
func (r *relay) ask(at waypost.Position) {
	if r != nil {
		r.server.Ask(at)
	}
}

// services returns the services that let others follow this edge.
func (r *relay) services() services.Stage {
	if r == nil {
		return nil
	}
	e := r.edge
	web := &http.Server{
		Handler: r.handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(e.log.Handler(), slog.LevelDebug),
	}
	return services.Stage{
		{Name: "stream for followers", Run: r.server.Run},
		{Name: "relay", Run: func(ctx context.Context) error {
			defer r.copies.Wait()
			ln := e.identity.nodes.listen(netutil.LimitListener(e.listeners.relay, relayConnections))
			return listener.Serve(ctx, web, ln, e.cfg.ShutdownTimeout, e.log)
		}},
	}
}

// passedOn bounds the requests that a relay passes on at a time.
const passedOn = 64

// routes returns the handler for followers.
func (r *relay) routes(server *replication.Server) http.Handler {
	routes := map[string]http.Handler{
		replication.PathStream:   listener.Endless(server.Stream),
		replication.PathSnapshot: listener.Endless(server.Snapshot),
		replication.PathSums:     listener.Endless(server.Sums),
	}
	//nolint:forcetypeassert // no package replaces the default transport
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = passedOn
	// Without this relay's certificate, because the requests are not its own.
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: r.edge.identity.nodes.roots}
	pass := passOn(r.edge.controls, t)
	routes[api.PathEdgeReports] = r.passToAll(r.edge.controls, t, pass)
	for _, path := range []string{
		clickbatch.Path, api.PathEdgeOutcomes, api.PathEdgeCertificates, api.PathEdgeBudgets, api.PathEdgeBlocks, api.PathEdgeUnknown,
		replication.PathEnrol,
	} {
		routes[path] = pass
	}
	return r.followersOnly(routes)
}

// passOn forwards requests of the edges below a relay unchanged, because the control
// plane authenticates them. Excess requests are refused, and come again.
func passOn(to *controls, by http.RoundTripper) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: to.through(by),
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to.urls[0]); r.SetXForwarded() },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "the source of this relay does not answer", http.StatusBadGateway)
		},
	}
	tokens := make(chan struct{}, passedOn)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case tokens <- struct{}{}:
			defer func() { <-tokens }()
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

const (
	maxReport     = 64 << 10 // bytes of a report, as the control plane bounds it
	reportTimeout = 1500 * time.Millisecond
)

// passToAll forwards reports to every control plane, because each learns from them which
// edges exist and what they hold. The relay returns the answer of the control plane that
// pass asks. A copy that does not get through is dropped, because the next report says
// more.
func (r *relay) passToAll(to *controls, by http.RoundTripper, pass http.Handler) http.Handler {
	copies := make([]http.Handler, len(to.urls))
	for i, u := range to.urls {
		copies[i] = passOn(&controls{urls: []*url.URL{u}}, by)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxReport))
		if err != nil {
			http.Error(w, "the report cannot be read", http.StatusBadRequest)
			return
		}
		answering := int(to.at.Load())
		for i, c := range copies {
			if i == answering {
				continue
			}
			// Not the request's context: with a server's context, the proxy panics when
			// an answer breaks off.
			ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
			again := req.Clone(ctx)
			again.Body = io.NopCloser(bytes.NewReader(body))
			r.copies.Go(func() {
				defer cancel()
				c.ServeHTTP(unread{http.Header{}}, again)
			})
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		pass.ServeHTTP(w, req)
	})
}

// unread is an answer that is thrown away.
type unread struct{ header http.Header }

func (u unread) Header() http.Header          { return u.header }
func (unread) Write(text []byte) (int, error) { return len(text), nil }
func (unread) WriteHeader(int)                {}

// headerRelay carries the token of relays next to a credential for the control plane.
const headerRelay = "Waypost-Relay"

// followersOnly admits requests with the relay token, or with the edge token that goes on
// to the control plane. The control plane authenticates the requests that are passed on.
func (r *relay) followersOnly(routes map[string]http.Handler) http.Handler {
	hash := func(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }
	shows := func(text, prefix, token string) bool {
		got, want := hash(text), hash(prefix+token)
		return token != "" && subtle.ConstantTimeCompare(got[:], want[:]) == 1
	}
	cfg := &r.edge.cfg
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, found := routes[r.URL.Path]
		switch {
		case !shows(r.Header.Get(headerRelay), "", cfg.RelayToken) && !shows(r.Header.Get("Authorization"), "Bearer ", cfg.Control.Token):
			w.Header().Set("WWW-Authenticate", `Bearer realm="waypost replication"`)
			http.Error(w, "a valid token is required", http.StatusUnauthorized)
		case !found:
			http.NotFound(w, r)
		default:
			r.Header.Del(headerRelay)
			h.ServeHTTP(w, r)
		}
	})
}

// relaySource is the source for followers of this edge: its replica.
type relaySource struct{ *store }

// Read implements [replication.Source]. A batch that was signed with a key that is not
// trusted any more is not passed on.
func (s relaySource) Read(ctx context.Context, after waypost.Position, maxRecords int) (b replication.Batch, err error) {
	b, err = s.store.Read(ctx, after, maxRecords)
	if err == nil && b.Frame != nil && b.Signature.Generation != s.trust.Generation() {
		return replication.Batch{}, replication.ErrTrimmed
	}
	return b, err
}
