package treetest_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/peers"
	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

var quiet = slog.New(slog.DiscardHandler)

// serving is a source behind HTTP.
type serving struct {
	web    *httptest.Server
	server *replication.Server
	stop   func()
}

func serve(t *testing.T, source replication.Source, via func() []string) *serving {
	server, err := replication.NewServer(replication.ServerConfig{
		Source: source, Logger: quiet, Via: via, Heartbeat: 50 * time.Millisecond, RingBytes: 1 << 20, RingFrames: 8, MaxPoll: 20 * time.Millisecond,
	})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc(replication.PathStream, server.Stream)
	mux.HandleFunc(replication.PathSnapshot, server.Snapshot)
	mux.HandleFunc(replication.PathSums, server.Sums)
	s := &serving{web: httptest.NewServer(mux), server: server}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Run(ctx) }() // it ends with ctx
	s.stop = func() {
		cancel()
		<-done
		s.web.CloseClientConnections()
		s.web.Close()
		drained, end := context.WithTimeout(context.Background(), 30*time.Second)
		defer end()
		require.NoError(t, server.Drain(drained))
	}
	return s
}

func (s *serving) addr() string { return strings.TrimPrefix(s.web.URL, "http://") }

// node is an edge, or a relay.
type node struct {
	t     *testing.T
	name  string
	home  *replicationtest.Wire
	peers []*replicationtest.Wire
	addr  atomic.Pointer[string]

	fs      *vfs.MemFS
	crash   *crasher
	db      *replica.DB
	serving *serving
	loop    *loop
	stop    func()

	last waypost.Position // that was seen and that no crash has taken back
}

func (n *node) address() string { return *n.addr.Load() }

func (n *node) start() {
	n.crash = &crasher{fs: n.fs}
	db, err := replica.Open(replica.Config{
		Dir: "/replica", FS: errorfs.Wrap(n.fs, n.crash), CacheBytes: 1 << 20, LookupBytes: 2 << 20, LogBytes: 1 << 20,
		SyncInterval: 20 * time.Millisecond, VerifyInterval: -1, Logger: quiet,
	})
	require.NoError(n.t, err)
	n.db, n.crash.synced = db, db.Synced
	n.serving = serve(n.t, db, func() []string { return append([]string{n.name}, n.loop.Status().Via...) })
	addr := n.serving.addr()
	n.addr.Store(&addr)

	n.loop = &loop{renews: make(chan chan struct{})}
	n.loop.chooser = peers.New(peers.Config{
		Home: replication.FollowConfig{
			URL: n.home.URL(), Node: n.name, Sink: db, Logger: quiet, Silence: 2 * time.Second,
			BackoffMin: 5 * time.Millisecond, BackoffMax: 50 * time.Millisecond, SnapshotBackoffMin: time.Millisecond, SnapshotBackoffMax: 50 * time.Millisecond,
		},
		List: func() (urls []string) {
			for _, w := range n.peers {
				urls = append(urls, w.URL())
			}
			return urls
		},
		After: 150 * time.Millisecond, Probe: 50 * time.Millisecond, Limit: time.Second, Logger: quiet,
	})
	first, err := replication.NewFollower(n.loop.chooser.Follow(replication.Status{}))
	require.NoError(n.t, err)
	n.loop.now.Store(first)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { n.loop.run(ctx, n.t) })
	work.Go(func() { n.loop.chooser.Run(ctx, n.loop) })
	n.stop = func() { cancel(); work.Wait() }
}

// end stops everything in order.
func (n *node) end() {
	n.stop()
	n.serving.stop()
	require.NoError(n.t, n.db.Close())
}

// loop follows what its chooser says.
type loop struct {
	chooser *peers.Chooser
	now     atomic.Pointer[replication.Follower]
	renews  chan chan struct{}
}

func (l *loop) Status() replication.Status { return l.now.Load().Status() }

func (l *loop) Renew(ctx context.Context) error {
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

// crasher takes the image of a crash at one of the next writes to a file system.
type crasher struct {
	fs     *vfs.MemFS
	synced func() waypost.Position

	mu       sync.Mutex
	in       int // writes until then; 0: never
	rng      *rand.Rand
	percent  int
	image    *vfs.MemFS
	survives waypost.Position
}

func (c *crasher) String() string { return "crasher" }

// MaybeError implements errorfs.Injector. It never injects an error.
func (c *crasher) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in == 0 {
		return nil
	}
	if c.in--; c.in == 0 {
		c.take()
	}
	return nil
}

// take takes the image. c.mu is held.
func (c *crasher) take() {
	c.survives = c.synced() // before the image
	c.image = c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: c.percent, RNG: c.rng})
}

// after arms the crasher, at once when writes is 0.
func (c *crasher) after(writes, percent int, rng *rand.Rand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rng, c.percent, c.in = rng, percent, writes
	if writes == 0 {
		c.take()
	}
}

// crashed gives the image once there is one, at the latest now.
func (c *crasher) crashed(force bool) (*vfs.MemFS, waypost.Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.image == nil && force {
		c.in = 0
		c.take()
	}
	return c.image, c.survives
}
