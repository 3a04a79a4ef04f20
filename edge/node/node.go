package node

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/api"
	"waypost/edge/audience"
	"waypost/edge/blocks"
	"waypost/edge/certs"
	"waypost/edge/replica"
	"waypost/edge/report"
	"waypost/edge/server"
	"waypost/edge/sources"
	"waypost/edge/unknown"
	"waypost/internal/admin"
	"waypost/internal/condition"
	"waypost/internal/datadir"
	"waypost/internal/memlimit"
	"waypost/internal/restart"
	"waypost/internal/services"
	"waypost/internal/systemd"
	"waypost/replication"
)

// outsideHeap is the memory that an edge needs outside of Go's heap, in bytes, besides
// its lookup table: for the block cache and the memtables of its replica.
const outsideHeap = 256 << 20

// Run runs an edge until ctx ends. A request to restart ends this program as well: then
// Run returns only if the next program cannot be started.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	e := &edge{cfg: cfg.withDefaults(), log: log, leaving: make(chan struct{})}
	err := e.run(ctx)
	err = errors.Join(err, e.close())
	if !e.restarting.Load() || ctx.Err() != nil {
		if err != nil {
			err = errors.Join(err, dropSockets(context.WithoutCancel(ctx)))
		}
		return errors.Join(err, e.held.Close())
	}
	if err != nil { // the next program finds the data as after a crash
		e.log.Error("cannot end in order before the restart", "error", err)
	}
	return e.held.Exec()
}

func (e *edge) run(ctx context.Context) error {
	if err := e.open(ctx); err != nil {
		return err
	}
	// It serves its replica from now on. After a restart it was never away.
	if !e.cfg.Sockets.OfRestart() && !e.identity.due {
		e.announceStart(ctx)
	}
	return services.Run(ctx, e.log, e.services()...)
}

const (
	// mostConnections is a quarter of the files that the unit allows. Over TLS they need
	// 1.5 GiB.
	mostConnections, fewestConnections = 32 << 10, 1 << 10
	// A connection over TLS that waits for its next request holds connectionBytes, and the
	// rest of an edge needs besideConnections of Go's memory.
	connectionBytes, besideConnections = 48 << 10, 256 << 20
)

// maxConnections returns how many connections fit into the memory that Go may use.
func maxConnections(goMemory int64) int {
	return int(max(fewestConnections, min(mostConnections, (goMemory-besideConnections)/connectionBytes)))
}

// Check judges files that may change while an edge runs: its credential and certificates,
// the GeoIP database, and the formats of its data. It returns [ErrNoCredential] if
// nothing else is wrong.
func Check(cfg Config) error {
	_, err := openIdentity(&cfg, slog.New(slog.DiscardHandler))
	noCredential := errors.Is(err, ErrNoCredential)
	if noCredential {
		err = nil
	}
	err = errors.Join(err, checkFormats(cfg.DataDir))
	if cfg.Certificates.CertFile != "" {
		if fileErr := certs.CheckFiles(cfg.Certificates.CertFile, cfg.Certificates.KeyFile); fileErr != nil {
			err = errors.Join(err, fmt.Errorf("tls: %w", fileErr))
		}
	}
	if cfg.GeoIP != "" {
		if fileErr := audience.CheckGeoDB(cfg.GeoIP); fileErr != nil {
			err = errors.Join(err, fmt.Errorf("edge.geoip: %w", fileErr))
		}
	}
	if err == nil && noCredential {
		return ErrNoCredential
	}
	return err
}

// edge is a running edge. Its fields are set by open; each part guards its own state.
type edge struct {
	cfg      Config
	log      *slog.Logger
	boot     waypost.BootID // this start of the edge
	registry *prometheus.Registry
	closers  []func() error

	identity  *identity
	listeners *listeners
	store     *store
	clicks    *recorder
	budgets   *spender
	unknown   *unknown.Recorder
	blocks    *blocks.Blocks
	server    *server.Server
	freshness freshness
	following *following
	sources   *sources.Chooser
	relay     *relay // nil: no edge follows this one
	gossip    *gossiper
	controls  *controls
	reporters []*report.Reporter // to each control plane
	orders    *orders
	requests  rate // of the server

	conditions *condition.Watch // set by connect
	catchUp    catchingUp

	leaving    chan struct{} // closed when this edge stops for good
	stopping   atomic.Bool   // not ready any more
	restarting atomic.Bool   // another program continues in this process
	held       restart.Held  // sockets for that program
}

// open opens and connects all parts. Nothing runs yet.
func (e *edge) open(ctx context.Context) (err error) {
	cfg := &e.cfg
	_, _ = rand.Read(e.boot[:]) // never fails, and ends the process where there is no randomness
	e.held.Note = hex.EncodeToString(e.boot[:])
	if e.identity, err = openIdentity(cfg, e.log); err != nil {
		return err
	}
	cfg.Node = e.identity.node()
	memlimit.Apply(outsideHeap+max(cfg.Replica.LookupBytes, 0), e.log)
	if cfg.Server.MaxConnections == 0 {
		cfg.Server.MaxConnections = maxConnections(debug.SetMemoryLimit(-1))
	}
	// A second start names the first one, instead of its address.
	if _, err := datadir.Inspect(cfg.DataDir, datadir.Edge); err != nil {
		return err
	}
	if e.listeners, err = openListeners(ctx, &cfg.Listen, cfg.Sockets); err != nil {
		return err
	}
	e.closers = append(e.closers, e.listeners.close)
	if err := cfg.Sockets.Close(e.log); err != nil {
		return err
	}
	e.registry = admin.NewRegistry(cfg.Version, func() (free, total int64, err error) { return replica.DiskSpace(cfg.DataDir) })
	e.identity.nodes.watch(e.registry)
	if e.controls, err = newControls(cfg.Control.URLs); err != nil {
		return err
	}
	e.clicks = newRecorder(cfg, func(t *http.Transport) http.RoundTripper {
		return e.controls.through(e.identity.through(t))
	}, e.log, e.registry)
	e.budgets = newSpender(cfg, e.boot, e.clicks, e.log, e.registry)
	e.blocks = e.newBlocks()
	if e.store, err = openStore(cfg, e.log, e.registry, e.clicks, e.budgets, e.blocks); err != nil {
		return err
	}
	e.closers = append(e.closers, e.store.close, e.clicks.close)
	e.log = e.log.With("node", e.store.node)
	if err := e.listeners.openCertificates(cfg, e.store.Owner, e.log, e.registry); err != nil {
		return err
	}
	return e.connect()
}

// connect builds the parts that use one another.
func (e *edge) connect() error {
	cfg, now, before := &e.cfg, time.Now(), e.store.recallHead()
	e.unknown = e.clicks.newUnknown(e.store, e.boot, e.registry)
	e.freshness.startAt(now, before)
	e.gossip = newGossiper(e.gossipConfig(), e.restarting.Load, e.log)
	e.sources = sources.New(sources.Config{
		URLs: cfg.Control.URLs, Logger: e.log,
		Follow: replication.FollowConfig{
			Client: e.identity.follower(), Node: e.store.node, Region: cfg.Region,
			Sink: e.store, Trust: e.store.trust, Blocks: &e.blocks.BlockSet, Logger: e.log, Fatal: e.isFatal, Asked: e.reportNow,
		},
	})
	var err error
	if e.relay, err = newRelay(e); err != nil {
		return err
	}
	e.following, err = newFollowing(before.heard(now), func(before replication.Status) (*replication.Follower, error) {
		return replication.NewFollower(e.sources.Follow(before))
	})
	if err != nil {
		return err
	}
	e.orders = newOrders(e.log, e.following.now.Load, e.store.Verify)
	e.registerMetrics()
	e.conditions = e.newConditions()
	e.registry.MustRegister(e.conditions)
	for _, url := range cfg.Control.URLs {
		reporter, err := report.New(e.reportConfig(url))
		if err != nil {
			return err
		}
		e.reporters = append(e.reporters, reporter)
	}
	e.orders.answer = e.answer
	e.server = server.New(e.serverConfig())
	e.requests.start(e.server.Answers, now)
	return nil
}

// close closes everything that is open, the newest first.
func (e *edge) close() error {
	var errs []error
	for _, c := range slices.Backward(e.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// services lists everything that runs. A stage stops when all stages below it have ended.
func (e *edge) services() []services.Stage {
	job := func(name string, f func(context.Context)) services.Service {
		return services.Service{Name: name, Run: func(ctx context.Context) error { f(ctx); return nil }}
	}
	return []services.Stage{
		{
			{Name: "admin listener", Run: e.serveAdmin}, // open while requests under way end
			job("gossip", e.gossip.run),
			job("reports", e.report), // until this edge leaves
			job("conditions", e.conditions.Run),
		},
		{
			{Name: "click shipping", Run: e.clicks.ship, Stop: e.sealClicks}, // until the last redirect's click
			job("click budgets", e.budgets.run),
			job("unknown addresses", func(ctx context.Context) { e.unknown.Run(ctx, e.store.node) }),
			job("blocks", e.blocks.Run),
			job("freshness", e.keepFreshness),
			// Until the last redirect, because callers wait for an edge that serves.
			{Name: "following", Run: func(ctx context.Context) error { return e.explain(e.following.run(ctx)) }},
			job("age of the replica", func(ctx context.Context) { e.freshness.watch(ctx, e.followed) }),
			job("catching up", e.catchUpOnDisk),
		},
		slices.Concat(e.listeners.services(e.server, e.awaitCatchUp, e.stopServing), e.relay.services(), services.Stage{
			{Name: "enrolment", Run: func(ctx context.Context) error {
				return e.identity.run(ctx, e.store.node, e.clicks.names, e.serves)
			}},
			job("choice of a source", func(ctx context.Context) { e.sources.Run(ctx, e.following) }),
			job("verifications", func(ctx context.Context) { e.orders.run(ctx, e.orders.verifications, e.orders.verify) }),
			job("acceptances", func(ctx context.Context) { e.orders.run(ctx, e.orders.acceptances, e.orders.accept) }),
			job("explanations", func(ctx context.Context) { e.orders.run(ctx, e.orders.explanations, e.answerVisitor) }),
			job("drains", func(ctx context.Context) { e.orders.run(ctx, e.orders.drains, e.orders.drain) }),
			job("geoip", e.clicks.watchGeoDB),
			{Name: "restart", Run: e.awaitRestart},
		}),
		{{Name: "announcement", Run: e.announce}},
	}
}

// serveAdmin answers operators.
func (e *edge) serveAdmin(ctx context.Context) error {
	operators := admin.Listener{Addr: e.cfg.Listen.Admin, Ready: e.ready, Metrics: e.registry, Members: e.gossip, Logger: e.log}
	return operators.Serve(ctx, e.listeners.admin)
}

// report reports to every control plane, because each answers callers that wait for
// edges from its own view of the fleet. An edge that stops says that it leaves once it
// has stopped answering, and once more at the end, to count the clicks shipped in
// between. An edge that restarts stays, so it says nothing.
func (e *edge) report(ctx context.Context) {
	reporting, end := context.WithCancel(ctx)
	defer end()
	go func() {
		select {
		case <-e.leaving:
			end()
		case <-reporting.Done():
		}
	}()
	e.everyReporter(func(r *report.Reporter) { r.Run(reporting) })
	for range 2 {
		if !e.restarting.Load() {
			e.everyReporter(func(r *report.Reporter) { r.Farewell(context.WithoutCancel(ctx)) })
		}
		<-ctx.Done()
	}
}

// everyReporter calls f for all reporters at once.
func (e *edge) everyReporter(f func(*report.Reporter)) {
	var all sync.WaitGroup
	for _, r := range e.reporters {
		all.Go(func() { f(r) })
	}
	all.Wait()
}

// answer sends the outcome of an order to the first control plane that takes it.
func (e *edge) answer(ctx context.Context, order int64, outcome api.EdgeOutcome) (final bool, err error) {
	for _, r := range e.reporters {
		if final, err = r.Answer(ctx, order, outcome); err == nil {
			break
		}
	}
	return final, err
}

// sealClicks leaves the clicks to the next program, or ships them.
func (e *edge) sealClicks(context.Context) error {
	e.clicks.seal(!e.restarting.Load())
	return nil
}

// keepFreshness keeps the age of the replica for the next process.
func (e *edge) keepFreshness(ctx context.Context) {
	e.freshness.run(ctx, func() { e.freshness.save(e.store, e.log) })
	e.freshness.save(e.store, e.log)
	if err := e.store.trust.Save(); err != nil {
		e.log.Error("cannot save the newest signed position", "error", err)
	}
}

// announce notifies the starter of this process that it serves.
func (e *edge) announce(ctx context.Context) error {
	if !e.awaitCatchUp(ctx) {
		return nil
	}
	addr, adminAddr := e.listeners.plain[0].Addr().String(), e.listeners.admin.Addr().String()
	err := admin.WriteStatus(e.cfg.DataDir, admin.Status{
		PID: os.Getpid(), Role: "edge", Node: e.store.node, Region: string(e.cfg.Region), Addr: addr, AdminAddr: adminAddr,
		Boot:   hex.EncodeToString(e.boot[:]),
		Listen: addressesOf(e.listeners.plain[1:]), TLS: addressesOf(e.listeners.tls), Relay: e.listeners.relayAddr(),
	})
	if err != nil { // such as on a full disk
		e.log.Error("cannot write the status", "error", err)
	}
	e.keepSockets(ctx)
	if err := systemd.Ready(ctx); err != nil {
		e.log.Error("cannot notify the service manager of readiness", "error", err)
	}
	e.keepOutcome(serving)
	e.log.Info("edge is listening", "addr", addr, "admin_addr", adminAddr, "version", e.cfg.Version)
	return nil
}

func (e *edge) reportConfig(url string) report.Config {
	var continues waypost.BootID
	if n, err := hex.Decode(continues[:], []byte(e.cfg.Sockets.Note())); err != nil || n != len(continues) {
		continues = waypost.BootID{}
	}
	return report.Config{
		URL: url, Through: e.identity.through, Node: e.store.node, Region: e.cfg.Region, Role: e.role(), Boot: e.boot, Continues: continues,
		Addr: e.listeners.plain[0].Addr().String(), AdminAddr: e.listeners.admin.Addr().String(), Version: e.cfg.Version,
		Position: e.store.reported, Synced: e.store.Synced, Age: e.freshness.age,
		Clicks: e.clicks.progress, Blocks: e.blocks, State: e.state, Certificates: e.listeners.hosts, Order: e.orders.queueOrder,
		Sync: func() {
			if err := e.store.Sync(); err != nil {
				e.log.Debug("cannot sync the replica", "error", err)
			}
		},
		Logger: e.log, Metrics: e.registry,
	}
}

func (e *edge) serverConfig() server.Config {
	c := e.cfg.Server
	c.Links, c.Clicks, c.Sealer, c.Budgets = e.store, e.clicks, audience.NewSealer(e.store), e.budgets
	if e.clicks.geoDB != nil {
		c.Locator = e.clicks.geoDB
	}
	c.Blocks, c.Unknown, c.DrainTime = e.blocks, e.unknown, drainTime
	c.Version, c.Region, c.Node = e.cfg.Version, e.cfg.Region, e.store.node
	c.Staleness, c.Logger, c.Metrics = e.staleness, e.log, e.registry
	return c
}

// role returns the edge's role in the fleet view.
func (e *edge) role() string {
	if e.listeners.relay != nil {
		return "relay"
	}
	return "edge"
}

// reportNow is called when the control plane asks for the position of the replica.
func (e *edge) reportNow() {
	for _, r := range e.reporters {
		r.Ask()
	}
	e.relay.ask(e.store.Position())
}

// stopServing stops the redirects. Before a restart the sockets stay open, so that new
// connections wait for the next program.
func (e *edge) stopServing(ctx context.Context) error {
	if e.restarting.Load() {
		e.holdSockets()
		return e.drain(ctx, drainTime+restartPatience)
	}
	if err := systemd.Stopping(ctx); err != nil {
		e.log.Warn("cannot notify the service manager of the stop", "error", err)
	}
	defer close(e.leaving)
	e.stopping.Store(true)
	if e.cfg.DrainDelay > 0 { // load balancers turn away first
		e.log.Info("stopping soon, and unready from now on", "in", e.cfg.DrainDelay)
		<-time.After(e.cfg.DrainDelay)
	}
	return e.drain(ctx, e.cfg.ShutdownTimeout)
}

const (
	// drainTime is the time in which a stopping edge asks clients to close connections.
	drainTime = 2 * time.Second

	// restartPatience bounds the time for requests under way before a restart, because
	// new connections wait for as long. Requests take milliseconds.
	restartPatience = time.Second
)

// drain waits for requests under way, up to a limit. Clients that keep connections open
// for longer do not make a stop fail.
func (e *edge) drain(ctx context.Context, most time.Duration) error {
	limit, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if err := e.listeners.closeCertificates(); err != nil {
		e.log.Warn("cannot close the certificates", "error", err)
	}
	err := e.server.Shutdown(limit)
	if err != nil && limit.Err() != nil {
		e.log.Warn("stopping with connections still open", "after", most)
		return nil
	}
	return err
}

// isFatal reports an error with which an edge can never do its work: the control plane
// refuses an edge without a replica, or the data of the edge belongs to another cluster.
// An edge that serves goes on serving, whatever the control plane says later.
func (e *edge) isFatal(err error) bool {
	switch {
	case errors.Is(err, replication.ErrOtherCluster):
		return e.following.Status().HeardAt.IsZero()
	case errors.Is(err, replication.ErrUnauthorized), errors.Is(err, replication.ErrProtocol):
		serves := e.serves()
		if serves {
			e.log.Error("cannot follow the control plane, which refuses this edge; serving the links on disk", "error", err)
		}
		return !serves
	}
	return false
}

// serves reports whether there is a replica.
func (e *edge) serves() bool {
	serves := e.store.holds()
	return serves
}

// explain adds the remedy to the error that ended the follower.
func (e *edge) explain(err error) error {
	url := e.sources.URL()
	switch {
	case errors.Is(err, replication.ErrUnauthorized) && e.identity.own():
		return fmt.Errorf("the control plane at %s refused the credential of this edge: %w", url, err)
	case errors.Is(err, replication.ErrUnauthorized):
		return fmt.Errorf("the control plane at %s refused the token: set WAYPOST_EDGE_TOKEN or --token-file to its edge token: %w", url, err)
	case errors.Is(err, replication.ErrOtherCluster):
		return fmt.Errorf("the data directory %s belongs to another cluster than %s: choose another --data-dir, or remove this one if it is not needed: %w",
			e.cfg.DataDir, url, err)
	case errors.Is(err, replication.ErrProtocol):
		return fmt.Errorf("the control plane at %s speaks another version: run the same version of waypost on both: %w", url, err)
	}
	return err
}
