package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"waypost"
	"waypost/controlplane/httpapi"
	"waypost/edge/gossip"
	"waypost/edge/peers"
	"waypost/edge/replica"
	"waypost/internal/config"
	"waypost/replication"
)

// edgePeers is what an edge has to do with others: it may be followed, and may follow them.
type edgePeers struct {
	edge    *edgeNode
	token   string // which edges show one another; "": they have none in common
	secure  *peerTLS
	chooser *peers.Chooser
	gossip  *edgeGossip         // set before anything runs; nil: none
	server  *replication.Server // nil: nobody follows this edge
	handler http.Handler        // of those who do
}

func newEdgePeers(e *edgeNode, secure *peerTLS, home replication.FollowConfig) *edgePeers {
	p := &edgePeers{edge: e, secure: secure}
	after := e.cfg.PeerAfter
	if after == 0 {
		after = -1
	}
	if p.token = peerToken(e.cfg); p.token == "" {
		after = -1 // without a secret of their own, edges cannot tell one another from others
	}
	p.chooser = peers.New(peers.Config{
		Home: home, List: p.list, Token: p.token, Client: secure.client(), After: after, First: e.cfg.PeerBootstrap, Logger: e.log,
	})
	return p
}

// peerToken is what edges show each other: edge.peer_token, or else one that is made of the edge token,
// which only the control plane gets to see: an address of a peer is a hint, and may be anybody's.
// It is "" for an edge that has neither.
func peerToken(cfg config.Edge) string {
	if cfg.PeerToken != "" || cfg.Token == "" {
		return cfg.PeerToken.Reveal()
	}
	m := hmac.New(sha256.New, []byte(cfg.Token.Reveal()))
	m.Write([]byte("waypost peer v1"))
	return hex.EncodeToString(m.Sum(nil))
}

// role is how the fleet view shows this edge.
func (e *edgeNode) role() string {
	if e.cfg.Relay {
		return "relay"
	}
	return "edge"
}

// list gives the peers that may be there: those of the settings, and those of the region that
// gossip tells of, the ones that seem to be ahead first.
func (p *edgePeers) list() []string {
	urls := slices.Clone(p.edge.cfg.Peers)
	var now *gossiper
	if p.gossip != nil {
		now = p.gossip.now.Load()
	}
	if now == nil {
		return urls
	}
	return withMembers(urls, now.Members(), waypost.Region(p.edge.cfg.Region), p.secure.scheme())
}

// withMembers puts behind some URLs those of members of a region that can be followed.
func withMembers(urls []string, members []gossip.Member, region waypost.Region, scheme string) []string {
	slices.SortStableFunc(members, func(a, b gossip.Member) int {
		p, q := a.Position, b.Position
		return cmp.Or(
			cmp.Compare(q.Epoch.Ordinal, p.Epoch.Ordinal), bytes.Compare(q.Epoch.ID[:], p.Epoch.ID[:]),
			cmp.Compare(q.Seq, p.Seq), b.LastHeard.Compare(a.LastHeard),
		)
	})
	for _, m := range members {
		if m.Peer != "" && !m.Self && m.State == gossip.StateAlive && m.Region == region {
			if u := scheme + m.Peer; !slices.Contains(urls, u) {
				urls = append(urls, u)
			}
		}
	}
	return urls
}

// source is the base URL of what is followed.
func (p *edgePeers) source() string {
	if peer := p.chooser.Peer(); peer != "" {
		return peer
	}
	return p.edge.cfg.ControlURL
}

// addr is where others may follow this edge; "": nowhere.
func (p *edgePeers) addr() string {
	if ln := p.edge.more.peer; ln != nil {
		return ln.Addr().String()
	}
	return ""
}

// ask passes on that somebody waits for what came so far.
func (p *edgePeers) ask(at waypost.Position) {
	if p.server != nil {
		p.server.Ask(at)
	}
}

// Bounds of what others may ask of an edge. It is there for its visitors; a relay is there for others.
const (
	edgeFollowers, relayFollowers = 16, 1000
	edgeSnapshots, relaySnapshots = 1, 4
	peerConnections               = 2000
	passedOn                      = 64 // requests at a time
)

// prepare makes what others follow, if this edge is to be followed. It comes before serve.
func (p *edgePeers) prepare() error {
	e := p.edge
	if e.more.peer == nil {
		return nil
	}
	cfg := replication.ServerConfig{
		Source: relaySource{e.store}, Trust: e.store.trust, Logger: e.log, Registerer: e.registry,
		MaxFollowers: edgeFollowers, MaxSnapshots: edgeSnapshots, RingBytes: 8 << 20,
		Via: func() []string { return append([]string{e.store.node}, e.following.Status().Via...) },
	}
	if e.cfg.Relay {
		cfg.MaxFollowers, cfg.MaxSnapshots, cfg.RingBytes = relayFollowers, relaySnapshots, 0
	}
	server, err := replication.NewServer(cfg)
	if err != nil {
		return err
	}
	p.server = server
	p.handler, err = p.routes(server)
	return err
}

// serve lets others follow this edge.
func (p *edgePeers) serve(ctx context.Context, group *errgroup.Group) {
	if p.server == nil {
		return
	}
	e := p.edge
	web := &http.Server{
		Handler: p.handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(e.log.Handler(), slog.LevelDebug),
	}
	group.Go(func() error { return unlessEnded(ctx, p.server.Run(ctx)) })
	group.Go(func() error {
		return serveHTTP(ctx, web, p.secure.listen(netutil.LimitListener(e.more.peer, peerConnections)), e.cfg.ShutdownTimeout, e.log)
	})
}

func (p *edgePeers) routes(server *replication.Server) (http.Handler, error) {
	routes := map[string]http.Handler{
		replication.PathStream:   endless(server.Stream),
		replication.PathSnapshot: endless(server.Snapshot),
		replication.PathSums:     endless(server.Sums),
	}
	if p.edge.cfg.Relay {
		control, err := url.Parse(p.edge.cfg.ControlURL)
		if err != nil {
			return nil, err
		}
		pass := passOn(control, p.edge.identity.securely(http.DefaultTransport.(*http.Transport).Clone())) //nolint:forcetypeassert // nobody changes it
		for _, path := range []string{httpapi.PathClickBatches, httpapi.PathEdgeReports, httpapi.PathEdgeOutcomes, replication.PathEnrol} {
			routes[path] = pass
		}
	}
	return p.peersOnly(routes), nil
}

// passOn hands requests of edges below a relay to what the relay itself follows, as they are:
// whose they are is judged there. Those that are too many come again.
func passOn(to *url.URL, by *http.Transport) http.Handler {
	by.MaxIdleConnsPerHost = passedOn
	proxy := &httputil.ReverseProxy{
		Transport: by,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to); r.SetXForwarded() },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "what this relay follows does not answer", http.StatusBadGateway)
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

// headerPeer carries the token of peers beside a credential that is for the control plane.
const headerPeer = "Waypost-Peer"

// peersOnly lets in who shows the token of peers, or, on a relay, the edge token that goes on to
// the control plane. What a relay passes on is judged there.
func (p *edgePeers) peersOnly(routes map[string]http.Handler) http.Handler {
	hash := func(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }
	known := [][sha256.Size]byte{hash("Bearer " + p.token)}
	if own := p.edge.cfg.Token.Reveal(); p.edge.cfg.Relay && own != "" {
		known = append(known, hash("Bearer "+own))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		right := 0
		for _, got := range [][sha256.Size]byte{hash(r.Header.Get("Authorization")), hash("Bearer " + r.Header.Get(headerPeer))} {
			for i := range known {
				right |= subtle.ConstantTimeCompare(got[:], known[i][:])
			}
		}
		h, found := routes[r.URL.Path]
		switch {
		case right != 1:
			w.Header().Set("WWW-Authenticate", `Bearer realm="waypost replication"`)
			http.Error(w, "a valid token is required", http.StatusUnauthorized)
		case !found:
			http.NotFound(w, r)
		default:
			r.Header.Del(headerPeer)
			h.ServeHTTP(w, r)
		}
	})
}

// relaySource is the replica of an edge as others follow it, while there is one that takes changes.
type relaySource struct{ store *edgeStore }

var errNobody = errors.Join(replication.ErrNoSource, errNoReplica)

func (s relaySource) db() (*replica.DB, error) {
	if db := s.store.db.Load(); db != nil {
		return db, nil
	}
	return nil, errNobody
}

// Head implements [replication.Source].
func (s relaySource) Head(ctx context.Context) (h replication.Head, err error) {
	db, err := s.db()
	if err != nil {
		return h, err
	}
	return db.Head(ctx)
}

// Origin implements [replication.Relay].
func (s relaySource) Origin() (h replication.Head) {
	db, err := s.db()
	if err != nil {
		return h
	}
	return db.Origin()
}

// Read implements [replication.Source].
func (s relaySource) Read(ctx context.Context, after waypost.Position, maxRecords int) (b replication.Batch, err error) {
	db, err := s.db()
	if err != nil {
		return b, err
	}
	b, err = db.Read(ctx, after, maxRecords)
	if err == nil && b.Frame != nil && b.Signature.Generation != s.store.trust.Generation() {
		return replication.Batch{}, replication.ErrTrimmed // signed with a key that is not trusted any more
	}
	return b, err
}

// Snapshot implements [replication.Source].
func (s relaySource) Snapshot(ctx context.Context, first, last uint16, visit func([]byte) error) (h replication.Head, err error) {
	db, err := s.db()
	if err != nil {
		return h, err
	}
	return db.Snapshot(ctx, first, last, visit)
}

// Sums implements [replication.Source].
func (s relaySource) Sums(ctx context.Context, first, last uint16) ([]replication.Sum, replication.Head, error) {
	db, err := s.db()
	if err != nil {
		return nil, replication.Head{}, err
	}
	return db.Sums(ctx, first, last)
}

// SnapshotWidth implements [replication.Source].
func (s relaySource) SnapshotWidth(ctx context.Context) (int, error) {
	db, err := s.db()
	if err != nil {
		return 0, err
	}
	return db.SnapshotWidth(ctx)
}

// Count implements [replication.Counter].
func (s relaySource) Count(ctx context.Context) (uint64, error) {
	db, err := s.db()
	if err != nil {
		return 0, err
	}
	return db.Count(ctx)
}

// Changed implements [replication.Source].
func (s relaySource) Changed() <-chan struct{} {
	db, err := s.db()
	if err != nil {
		return make(chan struct{}) // the poll finds out
	}
	return db.Changed()
}
