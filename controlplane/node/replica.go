package node

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/controlplane/postgres"
	"waypost/edge/replica"
	"waypost/internal/atomicfile"
	"waypost/internal/datadir"
	"waypost/internal/listener"
	"waypost/replication"
)

// ownReplica is a control plane's own copy of the links, which follows the changelog as
// an edge does. It testifies on another disk what PostgreSQL held, and serves snapshots
// to edges at no cost to PostgreSQL. The control plane continues without it if it
// fails.
type ownReplica struct {
	db       *replica.DB
	trust    *replication.Trust
	follower *replication.Follower
	wire     *wire
	log      *slog.Logger
	ranges   prometheus.Counter
}

// openOwnReplica opens the copy in dir, or begins one.
func openOwnReplica(
	dir *datadir.Dir, name string, region waypost.Region, log *slog.Logger, registry *prometheus.Registry,
) (*ownReplica, error) {
	r := &ownReplica{wire: newWire(), log: log.With("replica", "own"), ranges: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "waypost_replica_snapshot_ranges_total", Help: "Ranges of snapshots for edges that came from this control plane's own replica.",
	})}
	registry.MustRegister(r.ranges)
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

// close closes the copy. Nothing may use it any more.
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
		r.log.Error("own replica has stopped following", "error", err)
		<-ctx.Done()
	}
	_ = server.Close()
	serving.Wait()
}

// Limits within which edges may begin with the copy. The stream sends them the rest.
const (
	snapshotBehind  = 10_000 // transactions
	snapshotSilence = 5 * time.Second
)

// current reports whether a snapshot may come from the copy.
func (r *ownReplica) current() bool {
	st := r.follower.Status()
	at := r.db.Position()
	return st.Connected && !st.Restoring && !st.Repairing && st.Held == nil && time.Since(st.HeardAt) < snapshotSilence &&
		!at.IsZero() && at.Epoch == st.Head.Position.Epoch && st.Head.Position.Seq-min(at.Seq, st.Head.Position.Seq) <= snapshotBehind
}

// changelog is the source of the stream: PostgreSQL, and the own replica for snapshots
// while that is current.
type changelog struct {
	*postgres.DB
	own *ownReplica // nil: there is none
}

// Snapshot implements [replication.Source].
func (c *changelog) Snapshot(ctx context.Context, first, last uint16, visit func(record []byte) error) (replication.Head, error) {
	r := c.own
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
		r.ranges.Inc()
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
