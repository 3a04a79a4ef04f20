package followers_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/edge/sources"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

var quiet = slog.New(slog.DiscardHandler)

func random(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// pace sets how often things happen without a step.
type pace struct {
	sync, heartbeat, silence time.Duration
	patience                 time.Duration // without news until another source is followed; 0: there is one source
	logBytes                 int64
}

// serving is a source behind HTTP.
type serving struct {
	web    *httptest.Server
	server *replication.Server
	cancel context.CancelFunc
	done   chan struct{}
}

func serve(t *testing.T, source replication.Source, via func() []string, l *life, p pace) *serving {
	server, err := replication.NewServer(replication.ServerConfig{
		Source: source, Logger: quiet, Via: via, ServerLimits: replication.ServerLimits{
			Heartbeat: p.heartbeat, RingBytes: 1 << 20, RingFrames: 2, MaxPoll: 20 * time.Millisecond,
		},
		Points: l.points(),
	})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc(replication.PathStream, server.Stream)
	mux.HandleFunc(replication.PathSnapshot, server.Snapshot)
	mux.HandleFunc(replication.PathSums, server.Sums)
	s := &serving{server: server, done: make(chan struct{})}
	s.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.dead.Load() {
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	}))
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	go func() { defer close(s.done); _ = server.Run(ctx) }() // it ends with ctx
	return s
}

func (s *serving) stop() error {
	s.cancel()
	<-s.done
	s.web.CloseClientConnections()
	s.web.Close()
	drained, end := context.WithTimeout(context.Background(), 60*time.Second)
	defer end()
	return s.server.Drain(drained)
}

func (s *serving) addr() string { return strings.TrimPrefix(s.web.URL, "http://") }

// node is an edge, or a relay.
type node struct {
	mortal
	t     *testing.T
	pace  pace
	home  *replicationtest.Wire
	above *node                   // whose wire home is; nil: the control plane's
	more  []*replicationtest.Wire // sources after home
	addr  atomic.Pointer[string]

	fs      *vfs.MemFS
	db      *replica.DB
	serving *serving
	loop    *loop
	stop    func()

	last waypost.Position // that was seen and that no crash has taken back
}

func (n *node) address() string { return *n.addr.Load() }

// start starts it, as often as it dies while its replica is opened.
func (n *node) start() {
	for !n.open() {
	}
	l := n.life
	n.loop = &loop{renews: make(chan chan struct{})}
	following := n.loop
	n.serving = serve(n.t, narrow{n.db}, func() []string { return append([]string{n.name}, following.Status().Via...) }, l, n.pace)
	addr := n.serving.addr()
	urls := []string{n.home.URL()}
	for _, w := range n.more {
		urls = append(urls, w.URL())
	}
	n.loop.chooser = sources.New(sources.Config{
		Follow: replication.FollowConfig{
			Node: n.name, Sink: n.db, Logger: quiet, Silence: n.pace.silence,
			BackoffMin: 5 * time.Millisecond, BackoffMax: 50 * time.Millisecond, SnapshotBackoffMin: time.Millisecond,
			SnapshotBackoffMax: 50 * time.Millisecond,
		},
		URLs: urls, Patience: n.pace.patience, Health: 2 * n.pace.patience, Logger: quiet,
	})
	first, err := replication.NewFollower(n.loop.chooser.Follow(replication.Status{}))
	require.NoError(n.t, err)
	n.loop.now.Store(first)
	n.addr.Store(&addr) // it can be reached from now on
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { n.loop.run(ctx, n.t) })
	work.Go(func() { n.loop.chooser.Run(ctx, n.loop) })
	n.stop = func() { cancel(); work.Wait() }
}

// open begins a life, and is false when that was a short one.
func (n *node) open() bool {
	l := n.begin(n.fs, n.last)
	type opened struct {
		db  *replica.DB
		err error
	}
	done := make(chan opened, 1)
	go func() {
		db, err := replica.Open(replica.Config{
			Dir: "/replica", FS: errorfs.Wrap(n.fs, l), CacheBytes: 1 << 20, LookupBytes: 2 << 20, LogBytes: n.pace.logBytes,
			SyncInterval: n.pace.sync, VerifyInterval: -1, Logger: quiet, Points: l.points(),
		})
		done <- opened{db, err}
	}()
	var o opened
	select {
	case o = <-done:
	case <-l.sprung:
		l.finish()
		o = <-done
	}
	if l.dead.Load() {
		l.finish()
		if o.err == nil {
			o.err = o.db.Close()
		}
		require.NoError(n.t, o.err)
		n.fs, n.last = l.image, l.survives
		return false
	}
	require.NoError(n.t, o.err, n.name)
	n.db = o.db
	l.db.Store(o.db)
	return true
}

// end stops everything in order, or what is left of it when it is dead, or dies of that:
// then what it did after its death is lost.
func (n *node) end() {
	l, done := n.life, make(chan error, 1)
	go func() {
		n.stop()
		done <- errors.Join(n.serving.stop(), n.db.Close())
	}()
	if n.lockstep { // Close waits for what is in the background
		for !n.ended(done) {
			l.letGo()
		}
	}
	var err error
	select {
	case err = <-done:
	case <-l.sprung:
		l.finish()
		err = <-done
	}
	l.finish()
	require.NoError(n.t, err, n.name)
	if l.dead.Load() {
		n.fs, n.last = l.image, l.survives
	}
}

// ended waits a moment for an end that leaves its outcome in done, or for death.
func (n *node) ended(done chan error) bool {
	select {
	case err := <-done:
		done <- err
		return true
	case <-n.life.sprung:
		return true
	case <-time.After(time.Millisecond):
		return false
	}
}

// sync makes all that is applied durable, unless it dies of that.
func (n *node) sync() {
	done := make(chan error, 1)
	go func() { done <- n.db.Sync() }()
	select {
	case err := <-done:
		require.NoError(n.t, err, n.name)
	case <-n.life.sprung:
	}
}

// spoil has the file that names the live store make no sense.
func (n *node) spoil() {
	f, err := n.fs.Create("/replica/CURRENT", vfs.WriteCategoryUnspecified)
	require.NoError(n.t, err)
	_, err = f.Write([]byte("what nobody wrote\n"))
	require.NoError(n.t, errors.Join(err, f.Sync(), f.Close()))
	dir, err := n.fs.OpenDir("/replica")
	require.NoError(n.t, err)
	require.NoError(n.t, errors.Join(dir.Sync(), dir.Close()))
}

// tidy says that there is one store at the most, and nothing of a snapshot.
func (n *node) tidy() bool {
	names, err := n.fs.List("/replica")
	require.NoError(n.t, err)
	stores := 0
	for _, name := range names {
		if strings.HasPrefix(name, "store-") {
			stores++
		}
	}
	return stores <= 1 && !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "restore-") })
}

// loop follows what its chooser says.
type loop struct {
	chooser *sources.Chooser
	now     atomic.Pointer[replication.Follower]
	renews  chan chan struct{}
}

func (l *loop) Status() (none replication.Status) {
	if f := l.now.Load(); f != nil {
		return f.Status()
	}
	return none
}

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
