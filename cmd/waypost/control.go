package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/limit"
	"waypost/controlplane/postgres"
	"waypost/edge/gossip"
	"waypost/internal/config"
	"waypost/internal/datadir"
	"waypost/internal/failpoint"
	"waypost/internal/memlimit"
	"waypost/internal/node"
	"waypost/keyrange"
	"waypost/replication"
)

func (p *program) controlCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "control",
		Short: "Run a control plane",
		Long: `Run a control plane: the API, and the stream of changes that edges follow. It needs
a PostgreSQL database that ` + "`waypost migrate`" + ` has prepared, also after an upgrade; it does not
migrate by itself.`,
		Example: `  waypost control --config /etc/waypost/control.yaml
  waypost control --config /etc/waypost/control.yaml --check-config
  WAYPOST_CONTROL_DATABASE_URL=postgres://waypost@db/waypost waypost control --region us-east-1 \
    --base-url https://go.example.com --cluster-secret-file cluster.key --edge-token-file edge.token`,
	}
	p.bind(c, "control", "gossip", "rate_limits", "cleanup", "log")
	check := func(cfg config.Config) error {
		return errors.Join(cfg.Log.Check(), cfg.Control.Check(), cfg.Gossip.Check(), cfg.Limits.Check(), cfg.Cleanup.Check())
	}
	return p.node(c, check, checkControlTLS, func(ctx context.Context, cfg config.Config) error {
		log, err := p.logger(cfg.Log)
		if err != nil {
			return err
		}
		return runControl(ctx, cfg, log)
	})
}

// runControl holds a control plane until ctx ends. Listeners come first, so that a
// busy address is told before anything is touched.
func runControl(ctx context.Context, all config.Config, log *slog.Logger) (err error) {
	cfg := all.Control
	ln, adminLn, closeListeners, err := listenBoth(ctx, cfg.Addr, cfg.AdminAddr, node.Listen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeListeners()) }()

	dir, err := datadir.Open(cfg.DataDir, datadir.Control, 0o700)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	memlimit.CollectLess(collectAt)

	db, err := postgres.Open(ctx, postgres.Config{
		URL: cfg.DatabaseURL.Reveal(), Memory: keyMemory{dir}, PeakRate: float64(cfg.PeakKeyRate), SaltRetention: cfg.SaltRetention, Logger: log,
		EventSample: cfg.EventsSample, EventMonths: cfg.EventsKeepMonths, ExportEvents: cfg.EventsExportDir, KeepAnswers: cfg.IdempotencyWindow,
	})
	if err != nil {
		return whatToDo(fmt.Errorf("control.database_url: %w", err))
	}
	defer db.Close()
	c := &control{cfg: cfg, gossip: all.Gossip, limits: all.Limits, cleanup: all.Cleanup, log: log, db: db, registry: newRegistry()}
	c.boot = c.name() + "/" + randomName()
	if c.secure, err = openControlTLS(cfg, c.log, c.registry); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.secure.Close()) }()
	if err := c.joinCluster(ctx); err != nil {
		return err
	}
	if unclaimed, err := db.Unclaimed(ctx); err != nil {
		return err
	} else if unclaimed && !cfg.AnonymousWorkspace {
		log.Warn("nobody can use the API yet: make an administrator with `waypost admin create`")
	}
	source := &changelog{DB: db}
	if cfg.Replica {
		own, err := openControlReplica(dir, c.name(), waypost.Region(cfg.Region), log, c.registry)
		if err != nil {
			log.Error("this control plane goes on without a replica of its own", "error", err)
		} else {
			source.own.Store(own)
		}
	}
	return c.serve(ctx, source, ln, adminLn)
}

// collectAt is by how many percent the heap grows before garbage is collected: a control
// plane holds little and makes much garbage.
const collectAt = 200

// maxConnections bounds what the API and the stream hold open at once.
const maxConnections = 10_000

// control is a running control plane.
type control struct {
	cfg      config.Control
	gossip   config.Gossip
	limits   config.Limits
	cleanup  config.Cleanup
	log      *slog.Logger
	db       *postgres.DB
	registry *prometheus.Registry
	boot     string // names this process among all that ever were
	coder    *keyrange.Coder
	cluster  replication.Cluster
	signer   *replication.Signer
	secure   *controlTLS // nil: the API speaks no TLS
}

// joinCluster agrees with the database about what is fixed per cluster, and gives
// the configured regions their ranges.
func (c *control) joinCluster(ctx context.Context) error {
	space, err := keyrange.NewSpace(c.cfg.CodeLength, c.cfg.PrefixLength)
	if err != nil {
		return err
	}
	var secret [32]byte
	if n, err := hex.Decode(secret[:], []byte(c.cfg.ClusterSecret.Reveal())); err != nil || n != len(secret) {
		return errors.New("control.cluster_secret: not 32 bytes in hex")
	}
	c.coder = keyrange.NewCoder(space, secret)
	c.cluster, err = c.db.EnsureCluster(ctx, postgres.ClusterConfig{
		CodeLength: c.cfg.CodeLength, PrefixLength: c.cfg.PrefixLength, Secret: secret, DefaultHost: c.ownHost(),
	})
	if err != nil {
		return err
	}
	if c.signer, err = replication.NewSigner(secret, c.cluster, uint32(c.cfg.SigningGeneration)); err != nil {
		return err
	}
	regions := []waypost.Region{waypost.Region(c.cfg.Region)}
	for _, r := range c.cfg.Regions {
		regions = append(regions, waypost.Region(r))
	}
	if err := c.db.EnsureRanges(ctx, regions); err != nil {
		return err
	}
	// A lease hangs on its holder being seen.
	return c.db.Beat(ctx, c.boot, waypost.Region(c.cfg.Region), nil)
}

func (c *control) serve(ctx context.Context, source *changelog, ln, adminLn net.Listener) error {
	proxies, err := config.ParseNetworks(c.cfg.TrustedProxies)
	if err != nil {
		return fmt.Errorf("control.trusted_proxies: %w", err)
	}
	patience := failpoint.Limit("a write takes at most", 0)
	minter := controlplane.NewMinter(controlplane.MinterConfig{
		Store: c.db, Coder: c.coder, Region: waypost.Region(c.cfg.Region),
		Node: c.boot, Size: int64(c.cfg.LeaseSize), Patience: patience, Logger: c.log, Metrics: c.registry,
	})
	ownHost := c.ownHost()
	services := controlplane.New(controlplane.Config{
		Stores: c.db.Stores(), Region: waypost.Region(c.cfg.Region), Minter: minter,
		AllowPrivateTargets: c.cfg.AllowPrivateTargets,
		StrictHosts:         c.cfg.StrictHosts,
		OwnHosts:            func(host string) bool { return strings.EqualFold(host, ownHost) },
		Patience:            patience,
		Logger:              c.log,
	})
	c.registry.MustRegister(keyPool{c.db})
	peers, err := startGossip(c.gossip, self{
		node: c.name(), region: waypost.Region(c.cfg.Region), role: gossip.RoleControl, boot: newBoot(), addr: ln.Addr().String(),
	}, c.registry, c.log)
	if err != nil {
		return errors.Join(err, c.closeServices(ctx, services))
	}
	defer peers.leave(ctx, c.log)
	stream, err := replication.NewServer(replication.ServerConfig{
		Source: source, Signer: c.signer, Witness: c.hear, Logger: c.log, Registerer: c.registry,
	})
	if err != nil {
		return errors.Join(err, c.closeServices(ctx, services))
	}
	fleet := controlplane.NewFleet(controlplane.FleetConfig{
		Head: c.db, Hints: peers.hints, Ask: stream.Ask, Region: waypost.Region(c.cfg.Region), Logger: c.log,
	})
	nodes := controlplane.NewNodes(controlplane.NodesConfig{Store: c.db, Logger: c.log})
	orders := controlplane.NewOrders(c.db, fleet.Knows, stream.AskAll, c.log)
	server := &http.Server{
		Handler:           c.routes(services.All(), stream, fleet, nodes, orders, proxies),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second, // of a whole request; also what nobody reads before an answer
		WriteTimeout:      30 * time.Second, // of a whole answer; the stream sets its own
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(c.log.Handler(), slog.LevelDebug),
	}
	admin := node.Admin{Ready: c.ready, Metrics: c.registry, Members: peers.handler(), Logger: c.log}

	// The admin listener stays open while requests under way end.
	adminCtx, closeAdmin := context.WithCancel(context.WithoutCancel(ctx))
	defer closeAdmin()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return admin.Serve(adminCtx, adminLn) })
	group.Go(func() error { return unlessEnded(ctx, stream.Run(ctx)) })
	if own := source.own.Load(); own != nil {
		group.Go(func() error { own.run(ctx, stream); return nil })
	}
	group.Go(func() error { c.db.Maintain(ctx); return nil })
	roller := c.db.NewRoller(postgres.RollerConfig{Metrics: c.registry})
	group.Go(func() error { roller.Run(ctx); return nil })
	group.Go(func() error { c.db.KeepEvents(ctx); return nil })
	group.Go(func() error { c.db.Watch(ctx); return nil })
	group.Go(func() error { c.db.Herald(ctx); return nil })
	group.Go(func() error {
		c.db.Attend(ctx, postgres.Presence{Node: c.boot, Region: waypost.Region(c.cfg.Region), Issued: minter.TakeIssued})
		return nil
	})
	group.Go(func() error { fleet.Run(ctx); return nil })
	group.Go(func() error { nodes.Run(ctx); return nil })
	group.Go(func() error { orders.Run(ctx); return nil })
	group.Go(func() error { fleet.KeepProgress(ctx, c.db, 0); return nil })
	if c.cleanup.Enabled {
		group.Go(func() error { c.reaper().Run(ctx); return nil })
	}
	group.Go(func() error { services.Run(ctx); return nil })
	group.Go(func() error {
		defer closeAdmin()
		return serveHTTP(ctx, server, c.secure.listen(netutil.LimitListener(ln, maxConnections)), c.cfg.ShutdownTimeout, c.log)
	})
	err = node.WriteStatus(c.cfg.StatusFile, node.Status{
		PID: os.Getpid(), Role: "control", Node: c.name(), Region: c.cfg.Region,
		Addr: ln.Addr().String(), AdminAddr: adminLn.Addr().String(),
	})
	if err != nil {
		group.Go(func() error { return err })
	} else {
		c.log.Info("control plane is listening", "addr", ln.Addr().String(), "admin_addr", adminLn.Addr().String(), "version", productVersion())
	}
	return errors.Join(group.Wait(), c.closeServices(ctx, services))
}

// closeServices returns leased keys, also when ctx has ended.
func (c *control) closeServices(ctx context.Context, services *controlplane.Services) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.ShutdownTimeout)
	defer cancel()
	if err := services.Close(ctx); err != nil {
		return fmt.Errorf("give back leased keys: %w", err)
	}
	return nil
}

// routes puts the stream, which only edges may follow, beside the API.
func (c *control) routes(service *controlplane.Service, stream *replication.Server, fleet *controlplane.Fleet, nodes *controlplane.Nodes, orders *controlplane.Orders, proxies []netip.Prefix) http.Handler {
	api := httpapi.Config{
		Links: service, Fleet: fleet, Nodes: nodes, Orders: orders, Waiter: fleet, Domains: service, Statistics: service, Cleanup: c.db, Keys: service, Access: service, BaseURL: c.cfg.BaseURL, Version: productVersion(), Logger: c.log, Metrics: c.registry,
		RequestTimeout: failpoint.Limit("a request takes at most", 0),
	}
	guesses, client := limit.NewGuesses(c.limits.Failures, nil), clientOf(proxies)
	api.Limits = httpapi.Limits{Requests: limit.NewRequests(c.limits.Requests, c.limits.Burst, nil), Guesses: guesses, Client: client}
	gate := httpapi.NewEdgeGate(httpapi.EdgeGateConfig{
		Nodes: nodes, SharedToken: c.cfg.EdgeToken.Reveal(), Certificates: c.cfg.ClientCAFile != "", Guesses: guesses, Client: client, Logger: c.log,
	})
	edgesOnly := func(next http.HandlerFunc) http.Handler { return gate.Only(next) }
	if c.cfg.AnonymousWorkspace {
		api.Anonymous = &controlplane.Actor{Workspace: waypost.DefaultWorkspace, Slug: waypost.DefaultSlug, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}
	}
	links := forwardedHost(proxies, httpapi.New(api))
	edges := map[string]http.Handler{
		replication.PathStream:   edgesOnly(endless(stream.Stream)),
		replication.PathSnapshot: edgesOnly(endless(stream.Snapshot)),
		replication.PathSums:     edgesOnly(endless(stream.Sums)),
		replication.PathEnrol:    http.HandlerFunc(gate.Enrol),
		httpapi.PathClickBatches: edgesOnly(c.ownClicks(httpapi.Ingest(c.db, c.log, c.registry))),
		httpapi.PathEdgeReports:  edgesOnly(httpapi.EdgeReports(fleet, orders, c.log).ServeHTTP),
		httpapi.PathEdgeOutcomes: edgesOnly(httpapi.EdgeOutcomes(orders, c.log).ServeHTTP),
	}
	// Not a ServeMux, which would redirect paths that are not clean: the API judges
	// those itself.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h, ok := edges[r.URL.Path]; ok {
			h.ServeHTTP(w, r)
			return
		}
		links.ServeHTTP(w, r)
	})
}

// ownClicks turns clicks of another cluster's links away: they would be counted as
// clicks of unknown links, and be gone. The edge keeps them.
func (c *control) ownClicks(next http.Handler) http.HandlerFunc {
	own := hex.EncodeToString(c.cluster[:])
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerCluster) != own {
			w.Header().Set("Retry-After", "10")
			http.Error(w, "these are clicks of another cluster's links; the edge keeps them", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	}
}

// endless is for requests that are answered for as long as the other side listens,
// which its writes notice.
func endless(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
			http.Error(w, "the connection cannot carry a stream", http.StatusInternalServerError)
			return
		}
		next(w, r)
	}
}

func (c *control) reaper() *controlplane.Reaper {
	return controlplane.NewReaper(controlplane.ReaperConfig{
		Store: c.db, Interval: c.cleanup.Interval, BatchSize: c.cleanup.BatchSize, MaxDuration: c.cleanup.MaxDuration,
		Buffer: c.cleanup.Buffer, PurgeAfter: c.cleanup.PurgeAfter, KeysAfter: c.cleanup.KeysAfter,
		Logger: c.log, Metrics: c.registry,
	})
}

// ready says whether PostgreSQL answers, and where its changelog stands.
func (c *control) ready(ctx context.Context) (any, bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	detail := map[string]any{"status": "ready", "node": c.name(), "region": c.cfg.Region, "version": productVersion()}
	head, err := c.db.Head(ctx)
	if err != nil {
		detail["status"], detail["error"] = "unready", waypost.MessageOf(err)
		return detail, false
	}
	detail["position"], detail["sequence"] = head.Position.String(), head.Position.Seq
	detail["digest"] = fmt.Sprintf("%016x", head.Digest)
	return detail, true
}

func (c *control) name() string {
	if c.cfg.Node != "" {
		return c.cfg.Node
	}
	return "control-" + c.cfg.Region
}

// ownHost is the host of short URLs, without a port: links must not point there.
func (c *control) ownHost() string {
	u, err := url.Parse(c.cfg.BaseURL)
	if err != nil {
		return "" // the configuration was checked
	}
	return strings.ToLower(u.Hostname())
}

// hear takes in what an edge has seen of a history that PostgreSQL may have forgotten.
func (c *control) hear(ctx context.Context, said replication.Testimony) {
	if err := c.db.Hear(ctx, said); err != nil && ctx.Err() == nil {
		c.log.Warn("what an edge has seen cannot be held against PostgreSQL", "error", err)
	}
}
