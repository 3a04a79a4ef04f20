package replication_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// network connects real HTTP clients to real HTTP servers over pipes, so that
// time can be the test's own.
type network struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	down bool
	live []*pipe
}

// pipe is the client's end of a connection.
type pipe struct {
	net.Conn
	mu      sync.Mutex
	muted   bool
	silence chan struct{} // closed with the connection
	once    sync.Once
}

func newNetwork() *network { return &network{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error   { n.once.Do(func() { close(n.closed) }); return nil }
func (n *network) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return nil, errors.New("no route")
	}
	client, server := net.Pipe()
	select {
	case n.conns <- server:
	case <-n.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p := &pipe{Conn: client, silence: make(chan struct{})}
	n.live = append(n.live, p)
	return p, nil
}

// Read reads nothing at all once muted, as behind a one-way cut.
func (p *pipe) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	p.mu.Lock()
	muted := p.muted
	p.mu.Unlock()
	if muted {
		<-p.silence
		return 0, net.ErrClosed
	}
	return n, err
}

func (p *pipe) Close() error {
	p.once.Do(func() { close(p.silence) })
	return p.Conn.Close()
}

// mute lets nothing more through to the clients, without ending connections.
func (n *network) mute() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.live {
		p.mu.Lock()
		p.muted = true
		p.mu.Unlock()
	}
}

// cut ends all connections; while down, none can be made.
func (n *network) cut(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
	for _, p := range n.live {
		_ = p.Close()
	}
	n.live = nil
}

func (n *network) client(t *testing.T) *http.Client {
	tr := &http.Transport{DialContext: n.dial, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// serve runs an HTTP server until the test ends.
func (n *network) serve(t *testing.T, h http.Handler) {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(n) }()
	t.Cleanup(func() {
		n.cut(true)
		_ = srv.Close()
		<-done
	})
}

// world is a source that is served over a network.
type world struct {
	*network
	t       *testing.T
	source  *replicationtest.Source
	server  *replication.Server
	metrics *prometheus.Registry
	stop    context.CancelFunc
}

func newWorld(t *testing.T, change func(*replication.ServerConfig)) *world {
	w := &world{network: newNetwork(), t: t, source: replicationtest.NewSource(), metrics: prometheus.NewRegistry()}
	cfg := replication.ServerConfig{Source: w.source, Logger: slog.New(slog.DiscardHandler), Metrics: w.metrics}
	if change != nil {
		change(&cfg)
	}
	var err error
	w.server, err = replication.NewServer(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	w.stop = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.server.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	}()
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+replication.PathStream, w.server.Stream)
	mux.HandleFunc("GET "+replication.PathSnapshot, w.server.Snapshot)
	mux.HandleFunc("GET "+replication.PathSums, w.server.Sums)
	t.Cleanup(func() { cancel(); <-done })
	w.serve(t, mux)
	return w
}

// metric sums a metric over its labels.
func (w *world) metric(name string) float64 {
	families, err := w.metrics.Gather()
	require.NoError(w.t, err)
	sum := 0.0
	for _, f := range families {
		if f.GetName() == "waypost_replication_"+name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// edge is a follower with its sink.
type edge struct {
	*replication.Follower
	sink *replicationtest.Sink
	done chan error
	stop context.CancelFunc
}

func follow(t *testing.T, n *network, change func(*replication.FollowConfig)) *edge {
	e := &edge{sink: replicationtest.NewSink(), done: make(chan error, 1)}
	cfg := replication.FollowConfig{
		URL: "http://source", Node: "edge-1", Region: "test-1", Sink: e.sink, Client: n.client(t),
		Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	e.Follower, err = replication.NewFollower(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); e.done <- e.Run(ctx) }()
	e.stop = func() { cancel(); <-ended }
	t.Cleanup(e.stop)
	return e
}

// await waits until the sink is at p, or fails after a minute of the test's time.
func (e *edge) await(t *testing.T, p waypost.Position) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		moved := e.sink.Moved()
		if e.sink.Position() == p {
			return
		}
		select {
		case <-moved:
		case <-deadline:
			t.Fatalf("the sink is at %v and not at %v: %v", e.sink.Position(), p, e.Status().Err)
		}
	}
}

// requireEqual waits until the sink is at the source's head and the follower at
// rest, on the stream again when it had to leave it.
func (e *edge) requireEqual(t *testing.T, s *replicationtest.Source) {
	t.Helper()
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	e.await(t, head.Position)
	synctest.Wait()
	replicationtest.RequireEqual(t, s, e.sink)
}

// bubble runs a test in time of its own, in which waiting costs nothing.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
