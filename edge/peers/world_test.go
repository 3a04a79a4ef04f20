package peers_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/peers"
	"waypost/edge/replica"
	"waypost/internal/leaktest"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const token = "a token of peers"

var quiet = slog.New(slog.DiscardHandler)

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, 60*time.Second, time.Millisecond, what)
}

// serve serves a source to followers with a token; "": to all.
func serve(t *testing.T, cfg replication.ServerConfig, token string) (url string) {
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
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
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
	o.url = serve(t, replication.ServerConfig{Source: o.Source, Signer: o.signer}, "")
}

func (o *origin) put(n int) (at waypost.Position) {
	for range n {
		at = o.Commit(replicationtest.Link("code", "https://example.com/"))
	}
	return at
}

// node is an edge, whose home can be cut off, and which others may follow.
type node struct {
	name  string
	db    *replica.DB
	trust *replication.Trust
	home  *replicationtest.Wire
	url   string // where others follow it
	loop  *loop
}

// newNode makes an edge of an origin that follows no source yet.
func newNode(t *testing.T, o *origin, name, token string) *node {
	t.Helper()
	db, err := replica.Open(replica.Config{
		Dir: "/replica", FS: vfs.NewMem(), CacheBytes: 1 << 20, LogBytes: 1 << 20, VerifyInterval: -1, Logger: quiet,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	trust, err := replication.NewTrust(nil, func([]byte) error { return nil })
	require.NoError(t, err)
	n := &node{name: name, db: db, trust: trust, loop: &loop{renews: make(chan chan struct{})}}
	n.home = replicationtest.NewWire(t, func() string { return strings.TrimPrefix(o.url, "http://") })
	n.url = serve(t, replication.ServerConfig{
		Source: db, Trust: trust, Via: func() []string { return append([]string{name}, n.loop.Status().Via...) },
	}, token)
	return n
}

// config is that of a chooser which looks often.
func (n *node) config(list ...string) peers.Config {
	return peers.Config{
		Home: replication.FollowConfig{
			URL: n.home.URL(), Node: n.name, Sink: n.db, Trust: n.trust, Logger: quiet, Silence: time.Hour,
			BackoffMin: time.Millisecond, BackoffMax: 10 * time.Millisecond, SnapshotBackoffMin: time.Millisecond,
		},
		List: func() []string { return list }, Token: token, Logger: quiet,
		After: 200 * time.Millisecond, Probe: 10 * time.Millisecond, Limit: time.Minute,
	}
}

// run follows what a chooser says until the test ends.
func (n *node) run(t *testing.T, cfg peers.Config) *peers.Chooser {
	t.Helper()
	return n.start(t, cfg, func(l *loop) peers.Following { return patient{l} })
}

// runs is run with a chooser that sees the follower as it is.
func (n *node) runs(t *testing.T, cfg peers.Config) *peers.Chooser {
	t.Helper()
	return n.start(t, cfg, func(l *loop) peers.Following { return seen{l} })
}

func (n *node) start(t *testing.T, cfg peers.Config, as func(*loop) peers.Following) *peers.Chooser {
	t.Helper()
	chooser := peers.New(cfg)
	first, err := replication.NewFollower(chooser.Follow(replication.Status{}))
	require.NoError(t, err)
	n.loop.chooser = chooser
	n.loop.now.Store(first)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { n.loop.run(ctx, t) })
	work.Go(func() { chooser.Run(ctx, as(n.loop)) })
	t.Cleanup(func() { cancel(); work.Wait() })
	return chooser
}

// at waits until a node's replica is at a position.
func (n *node) at(t *testing.T, p waypost.Position) {
	t.Helper()
	require.Eventually(t, func() bool { return n.db.Position() == p }, 60*time.Second, time.Millisecond, "%s is not at %v", n.name, p)
}

// reports waits until a source reports a position to followers: a replica is there a
// moment before its server knows.
func reports(t *testing.T, url, token string, sink replication.Sink, p waypost.Position) {
	t.Helper()
	until(t, "others are told so", func() bool {
		said, err := replication.Look(t.Context(), replication.FollowConfig{URL: url, Token: token, Sink: sink, Logger: quiet})
		return err == nil && said.Head.Position == p
	})
}

// loop follows what its chooser says.
type loop struct {
	chooser *peers.Chooser
	now     atomic.Pointer[replication.Follower]
	renews  chan chan struct{}
	turns   atomic.Int64
	well    atomic.Bool // the chooser has no reason to look for peers
	waits   atomic.Bool // it has none but that it waits for its turn
	looks   atomic.Int64
}

// seen is a loop whose looks are counted.
type seen struct{ *loop }

func (l seen) Status() replication.Status {
	l.looks.Add(1)
	return l.loop.Status()
}

// patient is a loop as its chooser sees it: while all is well, and from each turn on, it
// has just been heard, however long the machine has stood still.
type patient struct{ *loop }

func (l patient) Status() replication.Status {
	st := l.loop.Status()
	l.looks.Add(1)
	switch soon := time.Now().Add(time.Hour); {
	case l.waits.Load() && st.Wait.Waits():
		st.HeardAt, st.AdvancedAt, st.Wait.HeardAt = time.Time{}, time.Time{}, soon
	case l.waits.Load() || l.well.Load():
		st.HeardAt, st.AdvancedAt = soon, soon
	}
	return st
}

func (l patient) Renew(ctx context.Context) error {
	l.well.Store(true)
	return l.loop.Renew(ctx)
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
