package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/controlplane/postgres"
	"waypost/edge/replica"
	"waypost/internal/atomicfile"
	"waypost/internal/datadir"
	"waypost/replication"
)

// controlReplica is a control plane's own copy of the links, which follows the changelog as an edge does.
// It remembers on another disk what PostgreSQL held, and edges take their snapshots from it, at no cost to PostgreSQL. Whatever
// happens to it, the control plane goes on without.
type controlReplica struct {
	db       *replica.DB
	trust    *replication.Trust
	follower *replication.Follower
	wire     *wire
	log      *slog.Logger
	given    prometheus.Counter
}

// openControlReplica opens the copy in dir, or begins one.
func openControlReplica(dir *datadir.Dir, name string, region waypost.Region, log *slog.Logger, registry *prometheus.Registry) (*controlReplica, error) {
	r := &controlReplica{wire: newWire(), log: log.With(slog.String("replica", "own")), given: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "waypost_replica_snapshot_ranges_total", Help: "Ranges of snapshots for edges that came from this control plane's own replica.",
	})}
	registry.MustRegister(r.given)
	keyFile := dir.Path("replica.key")
	kept, err := os.ReadFile(keyFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if r.trust, err = replication.NewTrust(kept, func(b []byte) error { return atomicfile.Write(keyFile, b, 0o600) }); err != nil {
		return nil, err
	}
	if r.db, err = replica.Open(replica.Config{Dir: dir.Path("replica"), LookupBytes: -1, Logger: r.log, Registerer: registry}); err != nil {
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

// run follows stream until ctx ends, and closes the copy.
func (r *controlReplica) run(ctx context.Context, stream *replication.Server) {
	routes := http.NewServeMux()
	routes.HandleFunc(replication.PathStream, endless(stream.Stream))
	routes.HandleFunc(replication.PathSnapshot, endless(stream.Snapshot))
	routes.HandleFunc(replication.PathSums, endless(stream.Sums))
	server := &http.Server{Handler: routes, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(r.wire) }) // it ends when it is closed
	if err := unlessEnded(ctx, r.follower.Run(ctx)); err != nil {
		r.log.Error("this control plane's own replica does not follow any more", "error", err)
		<-ctx.Done()
	}
	err := errors.Join(r.trust.Save(), server.Close(), r.db.Close())
	serving.Wait()
	if err != nil {
		r.log.Error("this control plane's own replica does not end in order", "error", err)
	}
}

// Bounds within which edges may begin with the copy: the changelog gives them the rest.
const (
	snapshotBehind  = 10_000 // transactions
	snapshotSilence = 5 * time.Second
)

// current reports whether a snapshot may come from the copy.
func (r *controlReplica) current() bool {
	st := r.follower.Status()
	at := r.db.Position()
	return st.Connected && !st.Restoring && !st.Repairing && st.Held == nil && time.Since(st.HeardAt) < snapshotSilence &&
		!at.IsZero() && at.Epoch == st.Head.Position.Epoch && st.Head.Position.Seq-min(at.Seq, st.Head.Position.Seq) <= snapshotBehind
}

// changelog is what is streamed: PostgreSQL's, with snapshots from the copy while that is current.
type changelog struct {
	*postgres.DB
	own atomic.Pointer[controlReplica] // nil: there is none
}

// Snapshot implements [replication.Source].
func (c *changelog) Snapshot(ctx context.Context, first, last uint16, visit func(record []byte) error) (replication.Head, error) {
	r := c.own.Load()
	if r == nil || !r.current() {
		return c.DB.Snapshot(ctx, first, last, visit)
	}
	visited := false
	head, err := r.db.Snapshot(ctx, first, last, func(record []byte) error {
		visited = true
		return visit(record)
	})
	if err != nil && !visited && ctx.Err() == nil {
		return c.DB.Snapshot(ctx, first, last, visit)
	}
	if err == nil {
		r.given.Inc()
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
