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
	"waypost/edge/audience"
	"waypost/edge/gossip"
	"waypost/edge/handover"
	"waypost/edge/lookup"
	"waypost/edge/report"
	"waypost/edge/server"
	"waypost/internal/config"
	"waypost/internal/memlimit"
	"waypost/internal/node"
	"waypost/internal/systemd"
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
  waypost edge restart --config /etc/waypost/edge.yaml
  waypost edge --config /etc/waypost/relay.yaml --relay --peer-addr 10.0.0.2:8090
  waypost edge --region eu-west-1 --control-url https://control.example.com \
    --data-dir /var/lib/waypost/edge --token-file /run/secrets/edge-token
  WAYPOST_ENROL_TOKEN=wp_enrl_… waypost edge --region eu-west-1 --node eu-1 \
    --control-url https://control.example.com --data-dir /var/lib/waypost/edge`,
	}
	p.bind(c, "edge", "tls", "gossip", "log")
	takeover := c.Flags().Bool("takeover", false, "take the place of the edge that runs in the data directory, without losing a request; without one, start as always")
	c.AddCommand(p.edgeRestartCommand())
	check := func(cfg config.Config) error {
		return errors.Join(cfg.Log.Check(), cfg.Edge.Check(), cfg.TLS.Check(), cfg.Gossip.Check())
	}
	look := func(cfg config.Config) error {
		_, err := openIdentity(cfg.Edge, slog.New(slog.DiscardHandler))
		return errors.Join(err, checkPeerTLS(cfg.Edge), checkFiles(cfg))
	}
	return p.node(c, check, look, func(ctx context.Context, cfg config.Config) error {
		log, err := p.logger(cfg.Log)
		if err != nil {
			return err
		}
		return runEdge(ctx, cfg.Edge, cfg.TLS, cfg.Gossip, *takeover, log)
	})
}

// checkFiles sees that the files can be used that an edge does not make itself.
func checkFiles(cfg config.Config) error {
	if err := checkCertificate(cfg); err != nil {
		return err
	}
	if cfg.Edge.GeoIP != "" {
		if err := audience.CheckPlaces(cfg.Edge.GeoIP); err != nil {
			return fmt.Errorf("edge.geoip: %w", err)
		}
	}
	return nil
}

// runEdge holds an edge until ctx ends, or until a successor serves.
func runEdge(ctx context.Context, cfg config.Edge, tls config.TLS, gossip config.Gossip, takeover bool, log *slog.Logger) (err error) {
	table, err := config.ParseLookupMemory(cfg.LookupMemory)
	if err != nil {
		return fmt.Errorf("edge.lookup_memory: %w", err)
	}
	id, err := openIdentity(cfg, log)
	if err != nil {
		return err
	}
	cfg.Node = id.node()
	if table == 0 {
		table = lookup.Available() / 4
	}
	memlimit.Apply(outsideHeap+max(table, 0), log)
	var succession *handover.Succession
	if takeover {
		if succession, err = claimEdge(ctx, cfg, log); err != nil {
			return err
		}
	}
	if succession != nil {
		defer func() { err = errors.Join(err, succession.Close()) }()
	}
	listen := listenerOf(succession)
	ln, adminLn, closeListeners, err := listenBoth(ctx, cfg.Addr, cfg.AdminAddr, listen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeListeners()) }()
	more, err := listenMore(ctx, cfg, tls, listen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, more.Close()) }()

	registry := newRegistry()
	recorder := newEdgeClicks(cfg, id.through, log, registry)
	store, err := openEdgeStore(cfg, table, log, registry, recorder, succession)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if id.due {
		if err := store.ensure(); err != nil { // the credential goes there
			return err
		}
	}
	if err := more.openCertificates(cfg, tls, store.knows, log, registry); err != nil {
		return err
	}
	e := &edgeNode{
		cfg: cfg, identity: id, more: more, log: log.With("node", store.node), store: store, clicks: recorder, gossip: gossip, boot: newBoot(), registry: registry,
		listeners: more.named(cfg, tls, ln, adminLn), succession: succession,
	}
	now, before := time.Now(), store.recallHead()
	e.freshness.begin(now, before)
	secure, err := openPeerTLS(cfg, e.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, secure.Close()) }()
	e.peers = newEdgePeers(e, secure, replication.FollowConfig{
		URL: cfg.ControlURL, Client: id.follower(), Node: store.node, Region: waypost.Region(cfg.Region),
		Sink: store, Trust: store.trust, Logger: e.log, Fatal: e.isFatal, Asked: e.reportNow,
	})
	e.following, err = newFollowing(succession != nil, before.heard(now), func(before replication.Status) (*replication.Follower, error) {
		return replication.NewFollower(e.peers.chooser.Follow(before))
	})
	if err != nil {
		return err
	}
	e.orders = newEdgeOrders(e.log, e.following.now.Load)
	return e.serve(ctx, ln, adminLn)
}

// edgeNode is a running edge.
type edgeNode struct {
	cfg       config.Edge
	identity  *edgeIdentity
	log       *slog.Logger
	store     *edgeStore
	clicks    *edgeClicks
	gossip    config.Gossip
	boot      waypost.BootID
	following *following
	peers     *edgePeers
	registry  *prometheus.Registry
	freshness freshness
	more      *moreListeners
	stopping  atomic.Bool // /readyz says so

	listeners  []namedListener
	succession *handover.Succession               // nil: this edge has taken no other's place
	departure  atomic.Pointer[handover.Departure] // nil: none has taken this one's

	reporter atomic.Pointer[report.Reporter] // nil: before it serves
	orders   *edgeOrders
}

// reportNow is called when the control plane wants to know where the replica stands.
func (e *edgeNode) reportNow() {
	if r := e.reporter.Load(); r != nil {
		r.Ask()
	}
	e.peers.ask(e.store.Position())
}

// outsideHeap is what an edge needs of memory outside of Go's heap, in bytes, beside its
// lookup table: the block cache and the memtables of its replica.
const outsideHeap = 256 << 20

func (e *edgeNode) serve(ctx context.Context, ln, adminLn net.Listener) error {
	proxies, err := config.ParseNetworks(e.cfg.TrustedProxies)
	if err != nil {
		return fmt.Errorf("edge.trusted_proxies: %w", err)
	}
	e.registerMetrics()
	peers := &edgeGossip{cfg: e.gossip, registry: e.registry, log: e.log, self: self{
		node: e.store.node, region: waypost.Region(e.cfg.Region), role: gossip.RoleEdge, boot: e.boot,
		addr: ln.Addr().String(), peer: e.peers.addr(), position: e.store.Synced,
	}}
	e.peers.gossip = peers
	if err := e.peers.prepare(); err != nil {
		return err
	}
	defer peers.leave(ctx)
	reporter, err := report.New(report.Config{
		URL: e.cfg.ControlURL, Through: e.identity.through, Node: e.store.node, Region: waypost.Region(e.cfg.Region), Role: e.role(),
		Boot: e.boot, Addr: ln.Addr().String(), AdminAddr: adminLn.Addr().String(), Version: productVersion(),
		Position: e.store.reported, Synced: e.store.Synced, Clicks: e.clicks.progress, Logger: e.log, Metrics: e.registry,
		Replica: e.replicaState, Order: e.orders.take,
		Sync: func() {
			if err := e.store.Sync(); err != nil {
				e.log.Debug("what was applied cannot be made durable", "error", err)
			}
		},
	})
	if err != nil {
		return err
	}
	e.reporter.Store(reporter)
	e.orders.answer = reporter.Answer
	srv := server.New(server.Config{
		Links: e.store, Clicks: e.clicks, Sealer: audience.NewSealer(e.store), StrictHosts: e.cfg.StrictHosts, TrustedProxies: proxies, ProxyProtocol: e.cfg.ProxyProtocol,
		MaxConnections: e.cfg.MaxConnections, MaxConnectionsPerAddress: e.cfg.MaxConnectionsPerAddress,
		ReadTimeout: e.cfg.ReadTimeout, WriteTimeout: e.cfg.WriteTimeout, IdleTimeout: e.cfg.IdleTimeout,
		Version: productVersion(), Region: waypost.Region(e.cfg.Region), Node: e.store.node,
		MaxStaleness: e.cfg.MaxStaleness, Staleness: e.freshness.age,
		Logger: e.log, Metrics: e.registry,
	})
	admin := node.Admin{Ready: e.ready, Metrics: e.registry, Members: peers, Logger: e.log}
	if e.succession != nil {
		if err := e.succession.Ready(ctx); err != nil {
			return err
		}
	}

	// The admin listener stays open while requests under way end.
	adminCtx, closeAdmin := context.WithCancel(context.WithoutCancel(ctx))
	defer closeAdmin()
	// Clicks are shipped until the last redirect's is.
	shipCtx, endShip := context.WithCancel(context.WithoutCancel(ctx))
	defer endShip()
	shipped := make(chan struct{})
	// An edge whose place is taken has not left before the other is known.
	reportCtx, endReports := context.WithCancel(context.WithoutCancel(ctx))
	defer endReports()
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { defer close(shipped); return e.clicks.ship(shipCtx) })
	reported := make(chan struct{})
	group.Go(func() error { defer close(reported); reporter.Run(reportCtx); return nil })
	group.Go(func() error { e.clicks.watchPlaces(ctx); return nil })
	group.Go(func() error { return admin.Serve(adminCtx, adminLn) })
	group.Go(func() error { return e.identity.run(ctx, e.store.node, e.clicks.names, e.serves) })
	group.Go(func() error { return e.explain(unlessEnded(ctx, e.following.run(ctx))) })
	group.Go(func() error { e.orders.run(ctx, e.orders.verifications, e.orders.verify); return nil })
	group.Go(func() error { e.orders.run(ctx, e.orders.acceptances, e.orders.accept); return nil })
	e.peers.serve(ctx, group)
	group.Go(func() error { e.peers.chooser.Run(ctx, e.following); return nil })
	group.Go(func() error { e.freshness.watch(ctx, e.following.Status); return nil })
	group.Go(func() error { e.freshness.run(ctx, func() { e.freshness.save(e.store, e.log) }); return nil })
	group.Go(func() error { return srv.Serve(ln) })
	e.more.serve(group, srv)
	group.Go(func() error {
		e.succeed(ctx, peers)
		e.giveWay(ctx, leave)
		return nil
	})
	group.Go(func() error {
		defer closeAdmin()
		defer endReports()
		<-ctx.Done()
		err := e.end(ctx, srv, closeAdmin, endReports)
		err = errors.Join(err, e.clicks.finish(shipped, endShip))
		if endReports(); e.departure.Load() == nil {
			e.freshness.save(e.store, e.log)
			err = errors.Join(err, e.store.trust.Save())
			<-reported
			reporter.Farewell(context.WithoutCancel(ctx))
		}
		return err
	})
	err = node.WriteStatus(e.cfg.StatusFile, node.Status{
		PID: os.Getpid(), Role: "edge", Node: e.store.node, Region: e.cfg.Region,
		Addr: ln.Addr().String(), AdminAddr: adminLn.Addr().String(), Listen: addressesOf(e.more.plain), TLS: addressesOf(e.more.tls), Peer: e.peers.addr(),
	})
	if err != nil {
		group.Go(func() error { return err })
	} else {
		if err := systemd.Ready(ctx); err != nil {
			e.log.Error("the service manager does not know that this edge serves", "error", err)
		}
		e.log.Info("edge is listening", "addr", ln.Addr().String(), "admin_addr", adminLn.Addr().String(), "version", productVersion())
	}
	return group.Wait()
}

// end ends the answering. A successor, if there is one, answers already.
func (e *edgeNode) end(ctx context.Context, srv *server.Server, closeAdmin, endReports func()) error {
	departure := e.departure.Load()
	if departure == nil {
		endReports()
		if err := systemd.Stopping(context.WithoutCancel(ctx)); err != nil {
			e.log.Warn("the service manager does not know that this edge stops", "error", err)
		}
		return e.drain(ctx, srv)
	}
	closeAdmin()
	err := errors.Join(srv.StopListening(), e.drain(ctx, srv))
	if tellErr := departure.Drained(); tellErr != nil {
		e.log.Debug("the successor is gone", "error", tellErr)
	}
	return errors.Join(err, departure.Close())
}

// drain lets load balancers turn away first, and then gives requests under way some
// time. Clients that hold connections open for longer must not make a stop fail.
func (e *edgeNode) drain(ctx context.Context, srv *server.Server) error {
	e.stopping.Store(true)
	if e.cfg.DrainDelay > 0 && e.departure.Load() == nil {
		e.log.Info("not ready any more, and stopping soon", "in", e.cfg.DrainDelay)
		<-time.After(e.cfg.DrainDelay)
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.ShutdownTimeout)
	defer cancel()
	if err := e.more.giveUpOrders(); err != nil {
		e.log.Warn("certificates are not given up", "error", err)
	}
	err := srv.Shutdown(limit)
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
		return e.following.Status().HeardAt.IsZero()
	case errors.Is(err, replication.ErrUnauthorized), errors.Is(err, replication.ErrProtocol):
		serves := e.serves()
		if serves {
			e.log.Error("the control plane refuses this edge, which goes on serving what it has", "error", err)
		}
		return !serves
	}
	return false
}

// serves reports whether there is a replica.
func (e *edgeNode) serves() bool {
	_, serves := e.store.Cluster()
	return serves
}

// explain says what to do about what ended the follower.
func (e *edgeNode) explain(err error) error {
	switch {
	case errors.Is(err, replication.ErrUnauthorized) && e.identity.own():
		return fmt.Errorf("the control plane at %s refused the credential of this edge: %w", e.cfg.ControlURL, err)
	case errors.Is(err, replication.ErrUnauthorized):
		return fmt.Errorf("the control plane at %s refused the token: set WAYPOST_EDGE_TOKEN or --token-file to its edge token: %w", e.cfg.ControlURL, err)
	case errors.Is(err, replication.ErrOtherCluster):
		return fmt.Errorf("the data directory %s is of another cluster than %s: choose another --data-dir, or remove this one if it is not needed: %w", e.cfg.DataDir, e.cfg.ControlURL, err)
	case errors.Is(err, replication.ErrProtocol):
		return fmt.Errorf("the control plane at %s is of another version: run the same version of waypost on both: %w", e.cfg.ControlURL, err)
	}
	return err
}
