package node

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"golang.org/x/net/netutil"

	"waypost"
	"waypost/edge/gossip"
	"waypost/edge/peers"
	"waypost/internal/listener"
	"waypost/internal/services"
	"waypost/replication"
)

// peering connects an edge with other edges: it may follow them, and they may follow it.
type peering struct {
	edge    *edge
	token   string // shared by edges; "": they share none
	secure  *peerTLS
	chooser *peers.Chooser
	server  *replication.Server // nil: no edge follows this one
	handler http.Handler        // of the followers
}

func newPeering(e *edge, secure *peerTLS, home replication.FollowConfig) *peering {
	p := &peering{edge: e, secure: secure, token: peerToken(&e.cfg)}
	after := e.cfg.Peers.After
	if after == 0 || p.token == "" { // without a shared secret, edges cannot recognise one another
		after = -1
	}
	p.chooser = peers.New(peers.Config{
		Home: home, Homes: e.cfg.Control.URLs, List: p.list, Token: p.token, Client: secure.client(),
		After: after, First: e.cfg.Peers.Bootstrap, Logger: e.log,
	})
	return p
}

// peerToken returns the token that edges show each other: the configured one, or one that
// is derived from the edge token. Only the control plane sees the edge token itself,
// because the address of a peer is a hint, and may belong to anyone.
func peerToken(cfg *Config) string {
	if cfg.Peers.Token != "" || cfg.Control.Token == "" {
		return cfg.Peers.Token
	}
	m := hmac.New(sha256.New, []byte(cfg.Control.Token))
	m.Write([]byte("waypost peer v1"))
	return hex.EncodeToString(m.Sum(nil))
}

// list returns the URLs of peers that may be there: the configured ones, and those of the
// region that gossip knows, with the most advanced first.
func (p *peering) list() []string {
	return withMembers(slices.Clone(p.edge.cfg.Peers.URLs), p.edge.gossip.members(), p.edge.cfg.Region, p.secure.scheme())
}

// withMembers appends the URLs of a region's members that can be followed.
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

// source returns the base URL that is followed.
func (p *peering) source() string {
	if peer := p.chooser.Peer(); peer != "" {
		return peer
	}
	return p.chooser.Home()
}

// ask asks the followers of this edge to report once they have come to a position.
func (p *peering) ask(at waypost.Position) {
	if p.server != nil {
		p.server.Ask(at)
	}
}

// Limits of what followers may ask of an edge. An edge serves visitors first; a relay
// serves followers.
const (
	edgeFollowers, relayFollowers = 16, 1000
	edgeSnapshots, relaySnapshots = 1, 4
	peerConnections               = 2000
)

// prepare makes the server for followers, if this edge may be followed.
func (p *peering) prepare() error {
	e := p.edge
	if e.listeners.peer == nil {
		return nil
	}
	cfg := replication.ServerConfig{
		Source: relaySource{e.store}, Trust: e.store.trust, Blocks: &e.blocks.BlockSet, Logger: e.log, Registerer: e.registry,
		MaxFollowers: edgeFollowers, MaxSnapshots: edgeSnapshots, RingBytes: 8 << 20,
		Via: func() []string { return append([]string{e.store.node}, e.following.Status().Via...) },
	}
	if e.cfg.Peers.Relay {
		cfg.MaxFollowers, cfg.MaxSnapshots, cfg.RingBytes = relayFollowers, relaySnapshots, 0
	}
	var err error
	if p.server, err = replication.NewServer(cfg); err != nil {
		return err
	}
	p.handler = p.routes(p.server)
	return nil
}

// services returns the services that let others follow this edge.
func (p *peering) services() services.Stage {
	if p.server == nil {
		return nil
	}
	e := p.edge
	web := &http.Server{
		Handler: p.handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(e.log.Handler(), slog.LevelDebug),
	}
	return services.Stage{
		{Name: "stream for peers", Run: p.server.Run},
		{Name: "peers", Run: func(ctx context.Context) error {
			ln := p.secure.listen(netutil.LimitListener(e.listeners.peer, peerConnections))
			return listener.Serve(ctx, web, ln, e.cfg.ShutdownTimeout, e.log)
		}},
	}
}
