package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/blocks"
	"waypost/controlplane/fleet"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/imports"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
	"waypost/edge/replica"
	"waypost/internal/admin"
	"waypost/internal/condition"
	"waypost/internal/datadir"
	"waypost/internal/failpoint"
	"waypost/internal/listener"
	"waypost/internal/memlimit"
	"waypost/internal/resolver"
	"waypost/internal/services"
	"waypost/keyrange"
	"waypost/replication"
)

const (
	// collectAt is the growth of the heap, in percent, at which garbage is collected: a
	// control plane keeps little and makes much garbage.
	collectAt = 200

	// outsideHeap is the memory that a control plane needs outside of Go's heap, in bytes,
	// most of it for the blocks of its replica.
	outsideHeap = 128 << 20
)

// Run runs a control plane until ctx ends. Listeners are opened first, so that a busy
// address is reported before anything changes.
func Run(ctx context.Context, cfg Config, log *slog.Logger) (err error) {
	if cfg.Node == "" {
		cfg.Node = "control-" + string(cfg.Region)
	}
	c := &control{cfg: cfg.withDefaults(), log: log, registry: admin.NewRegistry(cfg.Version, func() (free, total int64, err error) {
		return replica.DiskSpace(cfg.DataDir)
	})}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.open(ctx); err != nil {
		return err
	}
	return services.Run(ctx, log, c.services()...)
}

// Check judges the files of the API's TLS, which may change while a control plane runs.
func Check(cfg Config) error {
	t, err := openTLS(cfg.TLS, slog.New(slog.DiscardHandler), nil)
	return errors.Join(err, t.Close())
}

// control is a running control plane. Its fields are set by open; each part guards its
// own state.
type control struct {
	cfg      Config
	log      *slog.Logger
	registry *prometheus.Registry
	closers  []func() error

	ln, adminLn net.Listener
	fleetLn     net.Listener // of edges alone; nil: they use ln
	secure      *apiTLS      // nil: neither listener speaks TLS

	boot         string // this start of the process
	db           *postgres.DB
	coder        *keyrange.Coder
	cluster      replication.Cluster
	signer       *replication.Signer
	blocked      replication.BlockSet
	blockRefused time.Time // when hearBlock last logged that; it owns this
	minter       *keys.Minter
	imports      *imports.Imports
	ranges       *keys.Ranges
	core         *controlplane.Services
	blocks       *blocks.Blocks
	source       *changelog
	stream       *replication.Server
	gossip       *gossiper
	fleet        *fleet.Fleet
	certificates *controlplane.Certificates // of edges
	edges        *edgeWait
	nodes        *fleet.Nodes
	orders       *fleet.Orders
	digests      *controlplane.DigestCheck
	conditions   *condition.Watch
}

// open opens and connects all parts. Nothing runs yet.
func (c *control) open(ctx context.Context) (err error) {
	if c.ln, err = listener.Open(ctx, c.cfg.Addr, "--addr"); err != nil {
		return err
	}
	c.closers = append(c.closers, func() error { return listener.Close(c.ln) })
	if c.cfg.FleetAddr != "" {
		if c.fleetLn, err = listener.Open(ctx, c.cfg.FleetAddr, "--fleet-listen"); err != nil {
			return err
		}
		c.closers = append(c.closers, func() error { return listener.Close(c.fleetLn) })
	}
	if c.adminLn, err = listener.Open(ctx, c.cfg.AdminAddr, "--admin-addr"); err != nil {
		return err
	}
	c.closers = append(c.closers, func() error { return listener.Close(c.adminLn) })
	dir, err := datadir.Open(c.cfg.DataDir, datadir.Control, 0o700)
	if err != nil {
		return err
	}
	c.closers = append(c.closers, dir.Close)
	memlimit.CollectLess(collectAt)
	memlimit.Apply(outsideHeap, c.log)

	database := c.cfg.Database
	database.Memory, database.Secret, database.Logger = keys.Memory{Dir: dir}, &c.cfg.ClusterSecret, c.log
	if c.db, err = postgres.Open(ctx, database); err != nil {
		return fmt.Errorf("control.database_url: %w", err)
	}
	c.closers = append(c.closers, func() error { c.db.Close(); return nil })
	c.boot = c.cfg.Node + "/" + strings.ToLower(rand.Text()[:6])
	if c.secure, err = openTLS(c.cfg.TLS, c.log, c.registry); err != nil {
		return err
	}
	c.closers = append(c.closers, c.secure.Close)
	if err := c.joinCluster(ctx); err != nil {
		return err
	}
	if unclaimed, err := c.db.Unclaimed(ctx); err != nil {
		return err
	} else if unclaimed && !c.cfg.Anonymous {
		c.log.Warn("found no user of the API: make an administrator with `waypost admin create`")
	}
	c.source = &changelog{origin: c.db, wait: snapshotWait}
	if c.cfg.Replica {
		if c.source.own, err = openOwnReplica(dir, c.cfg.Node, c.cfg.Region, c.log, c.registry); err != nil {
			c.log.Error("cannot open this control plane's own replica; continuing without", "error", err)
		} else {
			c.closers = append(c.closers, c.source.own.close)
		}
	}
	return c.connect(ctx)
}

// joinCluster agrees with the database on the settings that are fixed per cluster, and
// makes the ranges of the configured regions.
func (c *control) joinCluster(ctx context.Context) error {
	space, err := keyrange.NewSpace(c.cfg.CodeLength, prefixLength)
	if err != nil {
		return err
	}
	c.coder = keyrange.NewCoder(space, c.cfg.ClusterSecret)
	c.cluster, err = c.db.EnsureCluster(ctx, postgres.ClusterConfig{
		CodeLength: c.cfg.CodeLength, PrefixLength: prefixLength, Secret: c.cfg.ClusterSecret, DefaultHost: c.ownHost(),
	})
	if err != nil {
		return err
	}
	if c.signer, err = replication.NewSigner(c.cfg.ClusterSecret, c.cluster, c.cfg.SigningGeneration); err != nil {
		return err
	}
	if err := c.db.EnsureRanges(ctx, append([]waypost.Region{c.cfg.Region}, c.cfg.Regions...)); err != nil {
		return err
	}
	c.closers = append(c.closers, c.leave)
	// A lease lapses unless its holder is seen.
	return c.db.Beat(ctx, c.boot, c.cfg.Region, nil)
}

// connect builds the parts that use one another.
func (c *control) connect(ctx context.Context) (err error) {
	if c.gossip, err = c.startGossip(); err != nil {
		return err
	}
	c.closers = append(c.closers, c.gossip.leave)
	c.digests = controlplane.NewDigestCheck(c.db, c.log, c.registry)
	c.stream, err = replication.NewServer(replication.ServerConfig{
		Source: c.source, Signer: c.signer, Blocks: &c.blocked, Hear: c.hear, Sound: c.sound, Logger: c.log, Metrics: c.registry,
	})
	if err != nil {
		return err
	}
	c.certificates = controlplane.NewCertificates(nil)
	c.fleet = fleet.New(fleet.Config{
		Head: c.db, Boots: c.db, Hints: c.gossip.hints, Ask: c.stream.Ask, Region: c.cfg.Region, Own: c.own, Logger: c.log,
	})
	known, err := c.db.Progress(ctx)
	if err != nil {
		return err
	}
	c.edges = newEdgeWait(known)
	patience := failpoint.Limit("a write takes at most", 0)
	c.minter = keys.NewMinter(keys.MinterConfig{
		Store: c.db, Coder: c.coder, Region: c.cfg.Region,
		Node: c.boot, Size: c.cfg.LeaseSize, Patience: patience, After: c.edges.enough, Logger: c.log, Metrics: c.registry,
	})
	c.ranges = keys.NewRanges(keys.Config{
		Store: c.db, Minter: c.minter, Patience: patience, Now: c.db.Now, Logger: c.log,
	})
	own := map[string]bool{c.ownHost(): true}
	for _, host := range c.cfg.OwnHosts {
		own[waypost.HostName(host)] = true
	}
	c.core = controlplane.New(controlplane.Config{
		Store: c.db, Minter: c.minter, ClusterSecret: c.cfg.ClusterSecret,
		Blocks:              &c.blocked,
		AllowPrivateTargets: c.cfg.AllowPrivateTargets,
		StrictHosts:         c.cfg.StrictHosts,
		FreeSharedCodes:     c.cfg.FreeSharedCodes,
		OwnHosts:            func(host string) bool { return own[host] },
		APIHosts:            c.secure.shows,
		Locates:             c.fleet.Locates,
		Resolver:            resolver.New(c.cfg.DNSResolvers),
		Patience:            patience,
		Now:                 c.db.Now,
		Logger:              c.log,
	})
	c.closers = append(c.closers, c.returnKeys)
	c.imports = imports.New(imports.Config{
		Store: c.db, Links: c.core.Links, Link: httpapi.NewLinkOf(c.db.Now), Node: c.boot, Logger: c.log,
	})
	c.blocks = blocks.New(blocks.Config{
		Store: c.db, Set: &c.blocked, Signer: c.signer, Domains: c.core.Domains, Logger: c.log,
	})
	if err := c.blocks.Load(ctx); err != nil { // before the first edge
		return err
	}
	c.registry.MustRegister(keys.Pool{Store: c.db}, frozenBudgets{c.db}, blockCount(&c.blocked), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waypost_postgresql_up", Help: "Whether PostgreSQL answers: 1, or 0.",
	}, c.postgreSQLUp), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waypost_keys_unremembered", Help: "1 while the disk of this control plane does not take which keys were issued, or 0.",
	}, func() float64 {
		if c.db.Unremembered() != nil {
			return 1
		}
		return 0
	}))
	c.nodes = fleet.NewNodes(fleet.NodesConfig{Store: c.db, Now: c.db.Now, Logger: c.log})
	c.orders = fleet.NewOrders(c.db, c.fleet.Knows, c.stream.AskAll, c.log)
	c.conditions = c.newConditions()
	c.registry.MustRegister(c.conditions)
	return nil
}

// close closes everything that is open, the newest first.
func (c *control) close() error {
	var errs []error
	for _, f := range slices.Backward(c.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// returnKeys returns leased keys to the database.
func (c *control) returnKeys() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.ShutdownTimeout)
	defer cancel()
	if err := c.core.Close(ctx); err != nil {
		return fmt.Errorf("give back leased keys: %w", err)
	}
	return nil
}

// services lists everything that runs. A stage stops when all stages below it have ended.
func (c *control) services() []services.Stage {
	job := func(name string, f func(context.Context)) services.Service {
		return services.Service{Name: name, Run: func(ctx context.Context) error { f(ctx); return nil }}
	}
	main := services.Stage{
		{Name: "API", Run: c.serveAPI},
		{Name: "stream", Run: c.stream.Run},
		job("database maintenance", c.db.Maintain),
		job("first statistics of tables", c.db.AnalyzeNew),
		job("click aggregation", c.db.NewRoller(c.registry).Run),
		job("click events", c.db.KeepEvents),
		job("database watch", c.db.Watch),
		job("changelog notifications", c.db.Notify),
		job("heartbeat", func(ctx context.Context) {
			c.db.SendHeartbeats(ctx, postgres.Heartbeat{
				Node: c.boot, Region: c.cfg.Region, Issued: c.minter.TakeIssued,
				Report: func() fleet.ControlReport { return c.own().ControlReport }, Heard: c.fleet.HearControls,
			})
		}),
		job("conditions", c.conditions.Run),
		job("fleet", c.fleet.Run),
		job("edge wait", func(ctx context.Context) { c.edges.run(ctx, c.log) }),
		job("fleet progress", func(ctx context.Context) { c.fleet.KeepProgress(ctx, c.db, 0) }),
		job("edge credentials", c.nodes.Run),
		job("orders", c.orders.Run),
		job("digest", c.digests.Run),
		job("core", c.core.Run),
		job("blocks", c.blocks.Run),
		job("imports", c.imports.Run),
		job("blocks to edges", c.spreadBlocks),
	}
	if c.cfg.Cleanup {
		main = append(main, job("cleanup", c.reaper().Run))
	}
	if own := c.source.own; own != nil {
		main = append(main, job("own replica", func(ctx context.Context) { own.run(ctx, c.stream) }))
	}
	return []services.Stage{
		{{Name: "admin listener", Run: func(ctx context.Context) error { // open while requests under way end
			operators := admin.Listener{Addr: c.cfg.AdminAddr, Ready: c.ready, Metrics: c.registry, Members: c.gossip.handler(), Logger: c.log}
			return operators.Serve(ctx, c.adminLn)
		}}},
		main,
		{{Name: "announcement", Run: c.announce}},
	}
}

// serveAPI answers the API, and edges, which may have a listener of their own.
func (c *control) serveAPI(ctx context.Context) error {
	public, fleet, err := c.routes(ctx.Done())
	if err != nil {
		return err
	}
	connections, ofEdges := c.boundConnections()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.serve(ctx, connections, public) })
	if fleet != nil {
		group.Go(func() error { return c.serve(ctx, ofEdges, fleet) })
	}
	return group.Wait()
}

// serve answers on one listener until ctx ends.
func (c *control) serve(ctx context.Context, ln net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second, // of a whole request
		WriteTimeout:      30 * time.Second, // of a whole answer; the stream sets its own
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnContext:       listener.WithConn,
		ErrorLog:          slog.NewLogLogger(c.log.Handler(), slog.LevelDebug),
	}
	return listener.Serve(ctx, server, c.secure.listen(ln), c.cfg.ShutdownTimeout, c.log)
}

// announce writes down, for the starter of this process, that the control plane serves.
func (c *control) announce(context.Context) error {
	addr, adminAddr, fleet := c.ln.Addr().String(), c.adminLn.Addr().String(), ""
	if c.fleetLn != nil {
		fleet = c.fleetLn.Addr().String()
	}
	err := admin.WriteStatus(c.cfg.DataDir, admin.Status{
		PID: os.Getpid(), Role: "control", Node: c.cfg.Node, Region: string(c.cfg.Region), Addr: addr, AdminAddr: adminAddr, Fleet: fleet,
	})
	if err != nil { // such as on a full disk
		c.log.Error("cannot write the status", "error", err)
	}
	c.log.Info("control plane is listening", "addr", addr, "fleet_addr", fleet, "admin_addr", adminAddr, "version", c.cfg.Version)
	return nil
}

func (c *control) reaper() *controlplane.Reaper {
	r := c.cfg.Reaper
	r.Store, r.KeysAfter, r.Logger, r.Metrics = c.db, keysKeptFor, c.log, c.registry
	return controlplane.NewReaper(r)
}

// ready reports whether PostgreSQL answers, and the head of its changelog.
func (c *control) ready(ctx context.Context) (any, bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	detail := map[string]any{
		"status": "ready", "node": c.cfg.Node, "region": c.cfg.Region, "version": c.cfg.Version, "conditions": c.own().Conditions,
	}
	head, err := c.db.Head(ctx)
	if err != nil {
		detail["status"], detail["error"] = "unready", waypost.MessageOf(err)
		return detail, false
	}
	detail["position"], detail["sequence"] = head.Position.String(), head.Position.Seq
	detail["digest"] = fmt.Sprintf("%016x", head.Digest)
	if d := c.digests.Last(); d.Differs() { // redirects and writes work
		detail["error"], detail["rows_digest"] = waypost.MessageOf(controlplane.ErrDigest), controlplane.DigestText(d.Rows)
	}
	if err := c.db.Superseded(head.Position); err != nil {
		detail["status"], detail["error"] = "superseded", err.Error()
		return detail, false
	}
	return detail, true
}

// postgreSQLUp asks PostgreSQL for the head of the changelog, at every scrape.
func (c *control) postgreSQLUp() float64 {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if _, err := c.db.Head(ctx); err != nil {
		return 0
	}
	return 1
}

// ownHost returns the host of short URLs, without a port. Links must not point to it.
func (c *control) ownHost() string {
	u, err := url.Parse(c.cfg.BaseURL)
	if err != nil {
		return "" // the configuration was checked
	}
	return strings.ToLower(u.Hostname())
}

// hear compares an edge's testimony about the changelog with PostgreSQL, which may have
// lost a part of the changelog. It refuses an edge that has seen a newer epoch.
func (c *control) hear(ctx context.Context, node string, testimony *replication.Testimony) error {
	if testimony == nil {
		c.edges.heard(node, false)
		return nil
	}
	err := c.db.Hear(ctx, *testimony)
	if superseded, ok := errors.AsType[*postgres.SupersededError](err); ok {
		return superseded
	}
	if err != nil {
		if ctx.Err() == nil {
			c.log.Warn("cannot compare the testimony of an edge with PostgreSQL", "error", err)
		}
		return nil // the edge comes again, or the time ends
	}
	c.edges.heard(node, true)
	return nil
}
