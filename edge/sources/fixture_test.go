package sources_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/edge/sources"
	"waypost/internal/leaktest"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var quiet = slog.New(slog.DiscardHandler)

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, 60*time.Second, time.Millisecond, what)
}

// serve serves a source to followers.
func serve(t *testing.T, cfg replication.ServerConfig) (url string) {
	t.Helper()
	cfg.Logger, cfg.Heartbeat = quiet, 20*time.Millisecond
	server, err := replication.NewServer(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- server.Run(ctx) }()
	mux := http.NewServeMux()
	mux.HandleFunc(replication.PathStream, server.Stream)
	mux.HandleFunc(replication.PathSnapshot, server.Snapshot)
	mux.HandleFunc(replication.PathSums, server.Sums)
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ran, context.Canceled)
		web.CloseClientConnections()
		web.Close()
		require.NoError(t, server.Drain(context.WithoutCancel(t.Context())))
	})
	return web.URL
}

// origin is a changelog that is served by a control plane, which signs.
type origin struct {
	*replicationtest.Source
	url    string
	signer *replication.Signer
}

func newOrigin(t *testing.T) *origin {
	t.Helper()
	o := &origin{Source: replicationtest.NewSource()}
	o.serve(t)
	return o
}

func (o *origin) serve(t *testing.T) {
	t.Helper()
	head, err := o.Head(t.Context())
	require.NoError(t, err)
	o.signer, err = replication.NewSigner([32]byte{1: 7}, head.Cluster, 1)
	require.NoError(t, err)
	o.url = serve(t, replication.ServerConfig{Source: o.Source, Signer: o.signer})
}

func (o *origin) put() waypost.Position {
	return o.Commit(replicationtest.Link("code", "https://example.com/"))
}

// node is an edge that others may follow.
type node struct {
	name  string
	db    *replica.DB
	trust *replication.Trust
	url   string // where others follow it
	loop  *loop
}

// newNode makes an edge that follows no source yet.
func newNode(t *testing.T, name string) *node {
	t.Helper()
	db, err := replica.Open(replica.Config{
		Dir: "/replica", FS: vfs.NewMem(), CacheBytes: 1 << 20, LogBytes: 1 << 20, VerifyInterval: -1, Logger: quiet,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	trust, err := replication.NewTrust(nil, func([]byte) error { return nil })
	require.NoError(t, err)
	n := &node{name: name, db: db, trust: trust, loop: &loop{renews: make(chan chan struct{})}}
	n.url = serve(t, replication.ServerConfig{
		Source: db, Trust: trust, Via: func() []string { return append([]string{name}, n.loop.Status().Via...) },
	})
	return n
}

// config is the configuration of a chooser that looks often.
func (n *node) config(urls ...string) sources.Config {
	return sources.Config{
		Follow: replication.FollowConfig{
			Node: n.name, Sink: n.db, Trust: n.trust, Logger: quiet, Silence: time.Hour,
			BackoffMin: time.Millisecond, BackoffMax: 10 * time.Millisecond, SnapshotBackoffMin: time.Millisecond,
		},
		URLs: urls, Patience: 400 * time.Millisecond, Health: 600 * time.Millisecond, Logger: quiet,
	}
}

// run follows what a chooser says until the test ends.
func (n *node) run(t *testing.T, cfg sources.Config) *sources.Chooser {
	t.Helper()
	chooser := sources.New(cfg)
	first, err := replication.NewFollower(chooser.Follow(replication.Status{}))
	require.NoError(t, err)
	n.loop.chooser = chooser
	n.loop.now.Store(first)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { n.loop.run(ctx, t) })
	work.Go(func() { chooser.Run(ctx, seen{n.loop}) })
	t.Cleanup(func() { cancel(); work.Wait() })
	return chooser
}

// at waits until a node's replica is at a position.
func (n *node) at(t *testing.T, p waypost.Position) {
	t.Helper()
	require.Eventually(t, func() bool { return n.db.Position() == p }, 60*time.Second, time.Millisecond, "%s is not at %v", n.name, p)
}

// loop follows what its chooser says.
type loop struct {
	chooser *sources.Chooser
	now     atomic.Pointer[replication.Follower]
	renews  chan chan struct{}
	turns   atomic.Int64
	looks   atomic.Int64
	busy    atomic.Pointer[time.Time] // when a busy source was heard; nil: it is not busy
}

// seen is a loop as its chooser sees it. Its looks are counted.
type seen struct{ *loop }

func (l seen) Status() replication.Status {
	l.looks.Add(1)
	st := l.loop.Status()
	if at := l.busy.Load(); at != nil {
		st.Wait = replication.Wait{Since: *at, HeardAt: *at}
	}
	return st
}

func (l *loop) Status() (none replication.Status) {
	if f := l.now.Load(); f != nil {
		return f.Status()
	}
	return none
}

func (l *loop) Renew(ctx context.Context) error {
	l.turns.Add(1)
	renewed := make(chan struct{})
	select {
	case l.renews <- renewed:
		<-renewed
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *loop) run(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		following, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() { defer close(done); _ = l.now.Load().Run(following) }() // nothing is fatal
		var renewed chan struct{}
		select {
		case renewed = <-l.renews:
		case <-ctx.Done():
		}
		stop()
		<-done
		if renewed == nil {
			return
		}
		next, err := replication.NewFollower(l.chooser.Follow(l.Status()))
		if err != nil {
			t.Error(err)
			return
		}
		l.now.Store(next)
		close(renewed)
	}
}
