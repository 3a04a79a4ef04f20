package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"waypost"
	"waypost/cmd/waypost/internal/config"
	"waypost/cmd/waypost/internal/memlimit"
	"waypost/cmd/waypost/internal/node"
	"waypost/edge"
	"waypost/edge/gossip"
	"waypost/edge/report"
	"waypost/replication"
)

func (p *program) edgeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "edge",
		Short: "Run an edge",
		Long: `Run an edge: it keeps a full replica of the links and answers redirects from it,
also when the control plane is out of reach or this edge is started again then.`,
		Example: `  waypost edge --config /etc/waypost/edge.yaml
  waypost edge --config /etc/waypost/edge.yaml --check-config
  waypost edge --region eu-west-1 --control-url https://control.example.com \
    --data-dir /var/lib/waypost/edge --token-file /run/secrets/edge-token`,
	}
	p.bind(c, "edge", "tls", "gossip", "log")
	check := func(cfg config.Config) error {
		return errors.Join(cfg.Log.Check(), cfg.Edge.Check(), cfg.TLS.Check(), cfg.Gossip.Check())
	}
	return p.node(c, check, func(ctx context.Context, cfg config.Config) error {
		log, err := p.logger(cfg.Log)
		if err != nil {
			return err
		}
		return runEdge(ctx, cfg.Edge, cfg.TLS, cfg.Gossip, log)
	})
}

// runEdge holds an edge until ctx ends.
func runEdge(ctx context.Context, cfg config.Edge, tls config.TLS, gossip config.Gossip, log *slog.Logger) (err error) {
	memlimit.Apply(outsideHeap, log)
	ln, adminLn, closeListeners, err := listenBoth(ctx, cfg.Addr, cfg.AdminAddr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeListeners()) }()
	more, err := listenMore(ctx, cfg, tls, node.Listen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, more.Close()) }()

	registry := newRegistry()
	recorder := newEdgeClicks(cfg, log, registry)
	store, err := openEdgeStore(cfg, log, registry, recorder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := more.openCertificates(cfg, tls, store.knows, log, registry); err != nil {
		return err
	}
	e := &edgeNode{cfg: cfg, more: more, log: log.With("node", store.node), store: store, clicks: recorder, gossip: gossip, boot: newBoot(), registry: registry}
	e.freshness.start = time.Now()
	e.follower, err = replication.NewFollower(replication.FollowConfig{
		URL: cfg.ControlURL, Token: cfg.Token.Reveal(), Node: store.node, Region: waypost.Region(cfg.Region),
		Sink: store, Logger: e.log, Fatal: e.isFatal,
	})
	if err != nil {
		return err
	}
	return e.serve(ctx, ln, adminLn)
}

// edgeNode is a running edge.
type edgeNode struct {
	cfg       config.Edge
	log       *slog.Logger
	store     *edgeStore
	clicks    *edgeClicks
	gossip    config.Gossip
	boot      waypost.BootID
	follower  *replication.Follower
	registry  *prometheus.Registry
	freshness freshness
	more      *moreListeners
	stopping  atomic.Bool // /readyz says so
}

// outsideHeap is what an edge needs of memory outside of Go's heap, in bytes: the
// block cache and the tables in memory of its replica.
const outsideHeap = 256 << 20

func (e *edgeNode) serve(ctx context.Context, ln, adminLn net.Listener) error {
	proxies, err := config.ParseNetworks(e.cfg.TrustedProxies)
	if err != nil {
		return fmt.Errorf("edge.trusted_proxies: %w", err)
	}
	e.registerMetrics()
	peers, err := startGossip(e.gossip, self{
		node: e.store.node, region: waypost.Region(e.cfg.Region), role: gossip.RoleEdge, boot: e.boot,
		addr: ln.Addr().String(), position: e.store.Position,
	}, e.registry, e.log)
	if err != nil {
		e.log.Error("this edge serves without gossip", "error", err)
	}
	defer peers.leave(ctx, e.log)
	reporter, err := report.New(report.Config{
		URL: e.cfg.ControlURL, Token: e.cfg.Token.Reveal(), Node: e.store.node, Region: waypost.Region(e.cfg.Region),
		Boot: e.boot, Addr: ln.Addr().String(), AdminAddr: adminLn.Addr().String(), Version: productVersion(),
		Position: e.store.Position, Logger: e.log, Metrics: e.registry,
	})
	if err != nil {
		return err
	}
	server := edge.New(edge.Config{
		Links: e.store, Clicks: e.clicks, StrictHosts: e.cfg.StrictHosts, TrustedProxies: proxies, ProxyProtocol: e.cfg.ProxyProtocol,
		MaxConnections: e.cfg.MaxConnections, MaxConnectionsPerAddress: e.cfg.MaxConnectionsPerAddress,
		ReadTimeout: e.cfg.ReadTimeout, WriteTimeout: e.cfg.WriteTimeout, IdleTimeout: e.cfg.IdleTimeout,
		Version: productVersion(), Region: waypost.Region(e.cfg.Region), Node: e.store.node,
		MaxStaleness: e.cfg.MaxStaleness, Staleness: e.freshness.age,
		Logger: e.log, Metrics: e.registry,
	})
	admin := node.Admin{Ready: e.ready, Metrics: e.registry, Members: peers.handler(), Logger: e.log}

	// The admin listener stays open while requests under way end.
	adminCtx, closeAdmin := context.WithCancel(context.WithoutCancel(ctx))
	defer closeAdmin()
	// Clicks are shipped until the last redirect's is.
	shipCtx, endShip := context.WithCancel(context.WithoutCancel(ctx))
	defer endShip()
	shipped := make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { defer close(shipped); return e.clicks.ship(shipCtx) })
	group.Go(func() error { reporter.Run(ctx); return nil })
	group.Go(func() error { return admin.Serve(adminCtx, adminLn) })
	group.Go(func() error { return e.explain(unlessEnded(ctx, e.follower.Run(ctx))) })
	group.Go(func() error { e.freshness.watch(ctx, e.follower); return nil })
	group.Go(func() error { return server.Serve(ln) })
	e.more.serve(group, server)
	group.Go(func() error {
		defer closeAdmin()
		<-ctx.Done()
		return errors.Join(e.drain(ctx, server), e.clicks.finish(shipped, endShip))
	})
	err = node.WriteStatus(e.cfg.StatusFile, node.Status{
		PID: os.Getpid(), Role: "edge", Node: e.store.node, Region: e.cfg.Region,
		Addr: ln.Addr().String(), AdminAddr: adminLn.Addr().String(), Listen: addressesOf(e.more.plain), TLS: addressesOf(e.more.tls),
	})
	if err != nil {
		group.Go(func() error { return err })
	} else {
		e.log.Info("edge is listening", "addr", ln.Addr().String(), "admin_addr", adminLn.Addr().String(), "version", productVersion())
	}
	return group.Wait()
}

// drain lets load balancers turn away first, and then gives requests under way some
// time. Clients that hold connections open for longer must not make a stop fail.
func (e *edgeNode) drain(ctx context.Context, server *edge.Server) error {
	e.stopping.Store(true)
	if e.cfg.DrainDelay > 0 {
		e.log.Info("not ready any more, and stopping soon", "in", e.cfg.DrainDelay)
		<-time.After(e.cfg.DrainDelay)
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.ShutdownTimeout)
	defer cancel()
	if err := e.more.giveUpOrders(); err != nil {
		e.log.Warn("certificates are not given up", "error", err)
	}
	err := server.Shutdown(limit)
	if err != nil && limit.Err() != nil {
		e.log.Warn("stopping with connections still open", "after", e.cfg.ShutdownTimeout)
		return nil
	}
	return err
}

// isFatal ends an edge that cannot become what its operator wants: one that has
// nothing to serve and is not let in, or whose data is of another cluster. One
// that serves goes on serving, whatever the control plane says later.
func (e *edgeNode) isFatal(err error) bool {
	switch {
	case errors.Is(err, replication.ErrOtherCluster):
		return e.follower.Status().HeardAt.IsZero()
	case errors.Is(err, replication.ErrUnauthorized), errors.Is(err, replication.ErrProtocol):
		_, serves := e.store.Cluster()
		if serves {
			e.log.Error("the control plane refuses this edge, which goes on serving what it has", "error", err)
		}
		return !serves
	}
	return false
}

// explain says what to do about what ended the follower.
func (e *edgeNode) explain(err error) error {
	switch {
	case errors.Is(err, replication.ErrUnauthorized):
		return fmt.Errorf("the control plane at %s refused the token: set WAYPOST_EDGE_TOKEN or --token-file to its edge token: %w", e.cfg.ControlURL, err)
	case errors.Is(err, replication.ErrOtherCluster):
		return fmt.Errorf("the data directory %s is of another cluster than %s: choose another --data-dir, or remove this one if it is not needed: %w", e.cfg.DataDir, e.cfg.ControlURL, err)
	case errors.Is(err, replication.ErrProtocol):
		return fmt.Errorf("the control plane at %s is of another version: run the same version of waypost on both: %w", e.cfg.ControlURL, err)
	}
	return err
}
