package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/edge/replica"
	"waypost/internal/atomicfile"
	"waypost/internal/datadir"
	"waypost/internal/listener"
	"waypost/replication"
)

// ownReplica is a control plane's own copy of the links, which follows the changelog as
// an edge does. It is evidence, on another disk, of the changes that PostgreSQL held, and
// serves snapshots to edges at hardly any cost to PostgreSQL. If it fails, the control
// plane continues without it.
type ownReplica struct {
	db       *replica.DB
	trust    *replication.Trust
	follower *replication.Follower
	wire     *wire
	log      *slog.Logger
	ranges   prometheus.Counter
}

// openOwnReplica opens the copy in dir, or creates it.
func openOwnReplica(
	dir *datadir.Dir, name string, region waypost.Region, log *slog.Logger, registry *prometheus.Registry,
) (*ownReplica, error) {
	r := &ownReplica{wire: newWire(), log: log.With("replica", "own"), ranges: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "waypost_replica_snapshot_ranges_total", Help: "Ranges of snapshots for edges that came from this control plane's own replica.",
	})}
	registry.MustRegister(r.ranges)
	keyFile := dir.Path("replica.key")
	var err error
	keep := func(document []byte) error { return atomicfile.Write(keyFile, document, 0o600) }
	if r.trust, err = replication.OpenTrust(keyFile, keep, r.log); err != nil {
		return nil, err
	}
	if r.db, err = replica.Open(replica.Config{Dir: dir.Path("replica"), LookupBytes: -1, Logger: r.log, Metrics: registry}); err != nil {
		return nil, err
	}
	r.follower, err = replication.NewFollower(replication.FollowConfig{
		URL: "http://" + wireHost, Client: &http.Client{Transport: &http.Transport{DialContext: r.wire.dial}},
		Node: name, Region: region, Sink: r.db, Trust: r.trust, Logger: r.log,
	})
	if err != nil {
		return nil, errors.Join(err, r.db.Close())
	}
	return r, nil
}

// close closes the copy, which must not be used afterwards.
func (r *ownReplica) close() error { return errors.Join(r.trust.Save(), r.db.Close()) }

// run follows stream until ctx ends.
func (r *ownReplica) run(ctx context.Context, stream *replication.Server) {
	routes := http.NewServeMux()
	routes.HandleFunc(replication.PathStream, listener.Endless(stream.Stream))
	routes.HandleFunc(replication.PathSnapshot, listener.Endless(stream.Snapshot))
	routes.HandleFunc(replication.PathSums, listener.Endless(stream.Sums))
	server := &http.Server{Handler: routes, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(r.wire) }) // until it is closed
	if err := r.follower.Run(ctx); ctx.Err() == nil {
		r.log.Error("stopped following PostgreSQL with the own replica", "error", err)
		<-ctx.Done()
	}
	_ = server.Close()
	serving.Wait()
}

const (
	snapshotSilence = 5 * time.Second        // of the copy's source, until edges do not begin with the copy
	snapshotWait    = 100 * time.Millisecond // for the copy to reach PostgreSQL's head
	headTimeout     = 2 * time.Second        // for PostgreSQL's head
)

// current reports whether the copy follows PostgreSQL.
func (r *ownReplica) current() bool {
	st := r.follower.Status()
	return st.Connected && !st.Restoring && !st.Repairing && st.Held == nil && time.Since(st.HeardAt) < snapshotSilence
}

// reaches reports whether the copy is at a position of its history or past it, or gets
// there before ctx ends.
func (r *ownReplica) reaches(ctx context.Context, at waypost.Position) bool {
	for {
		changed, own := r.db.Changed(), r.db.Position()
		switch {
		case own.IsZero() || own.Epoch != at.Epoch:
			return false
		case own.Seq >= at.Seq:
			return own.Seq > at.Seq || own == at
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// origin is the changelog in PostgreSQL.
type origin interface {
	replication.Source
	replication.Counter
}

// changelog is the source of the stream: PostgreSQL, and for snapshots the own replica
// while it is at PostgreSQL's position.
type changelog struct {
	origin
	own  *ownReplica   // nil: there is none
	wait time.Duration // until own has reached PostgreSQL's head
}

// ownServes reports whether slots may come from the own replica. It waits until the
// replica has every change that PostgreSQL had committed before the call, because a
// follower refuses slots that are older than a head that it was sent.
func (c *changelog) ownServes(ctx context.Context) bool {
	if c.own == nil || !c.own.current() {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	head, err := c.Head(asking)
	if err != nil { // PostgreSQL is away: the follower was sent no newer head, or one of the last second
		head = c.own.follower.Status().Head
	}
	waiting, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	return c.own.reaches(waiting, head.Position)
}

// Snapshot implements [replication.Source].
func (c *changelog) Snapshot(ctx context.Context, first, last uint16, visit func(record []byte) error) (replication.Head, error) {
	if !c.ownServes(ctx) {
		return c.origin.Snapshot(ctx, first, last, visit)
	}
	visited := false
	head, err := c.own.db.Snapshot(ctx, first, last, func(record []byte) error {
		visited = true
		return visit(record)
	})
	if err != nil && !visited && ctx.Err() == nil {
		return c.origin.Snapshot(ctx, first, last, visit)
	}
	if err == nil {
		c.own.ranges.Inc()
	}
	return head, err
}

// wire is a listener that only this process reaches.
type wire struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

const wireHost = "changelog.internal"

func newWire() *wire { return &wire{conns: make(chan net.Conn), over: make(chan struct{})} }

func (w *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case w.conns <- far:
		return near, nil
	case <-w.over:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.over:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (w *wire) Close() error {
	w.once.Do(func() { close(w.over) })
	return nil
}

// Addr implements [net.Listener].
func (w *wire) Addr() net.Addr { return wireAddr{} }

type wireAddr struct{}

func (wireAddr) Network() string { return "pipe" }
func (wireAddr) String() string  { return wireHost }
