package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/keyrange"
)

// The routes under a node's base URL.
const (
	PathStream   = "/replication/v1/stream"
	PathSnapshot = "/replication/v1/snapshot"
	PathSums     = "/replication/v1/sums"
	PathRecord   = "/replication/v1/record"
	PathEnrol    = "/replication/v1/enrol" // of the control plane alone
)

// Headers of a follower's request. They describe it for logs and the fleet view;
// who it is comes from its credential.
const (
	HeaderNode     = "Waypost-Node"
	HeaderRegion   = "Waypost-Region"
	HeaderPosition = "Waypost-Position"
	// HeaderWitness is the newest position that the follower has seen signed, as the
	// control plane has signed it.
	HeaderWitness = "Waypost-Witness"
)

// Headers of an answer.
const (
	// HeaderKeySpace tells what generated codes look like, as CODELENGTH/PREFIXLENGTH.
	// A source that does not know leaves it out.
	HeaderKeySpace = "Waypost-Key-Space"
	// HeaderRecords is about how many records a snapshot has, if the source knows.
	HeaderRecords = "Waypost-Records"
	// HeaderCluster is the cluster's id in hex, on the answer to a question for a record.
	HeaderCluster = "Waypost-Cluster"
	// HeaderVia tells through which nodes the changelog comes, the nearest first, with
	// commas between. The origin leaves it out.
	HeaderVia = "Waypost-Via"
)

// ContentType is that of the stream and of the snapshot.
const ContentType = "application/vnd.waypost.replication"

// ServerConfig configures a [Server]. Zero fields mean the default.
type ServerConfig struct {
	Source     Source // required
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: metrics are kept but not registered
	KeySpace   keyrange.Space        // of the cluster's generated codes; zero: not told

	// Signer signs what the source gives; nil: nothing is signed here. Trust is for a node
	// that passes on what was signed elsewhere: the key that it has pinned is told on.
	Signer *Signer
	Trust  *Trust
	// Witness hears a position that a follower presents, and that Signer has signed, before
	// the follower is let in. Nil: nobody wants to know.
	Witness func(context.Context, Testimony)

	// Via gives the nodes through which the changelog comes to whoever follows, this one
	// first. Nil: the source is the origin.
	Via func() []string

	MinPoll   time.Duration // between looks at a moving source; 10 ms
	MaxPoll   time.Duration // between looks at a quiet source; 100 ms
	Heartbeat time.Duration // 1 s

	MaxFollowers int           // on the stream at once; 1000
	MaxSnapshots int           // at once, and as many readings of sums; 4
	RingBytes    int           // of frames kept for sharing; 32 MiB
	RingFrames   int           // kept for sharing; 4096
	ReadRecords  int           // asked of the source at once; 1024: what is cut is read twice, and 1,000 links are often committed together
	WriteTimeout time.Duration // for a follower to take 256 KiB; 10 s
	ReadTimeout  time.Duration // for one reading of the tail; 30 s
}

func (c ServerConfig) withDefaults() ServerConfig {
	setDefault(&c.Logger, slog.Default())
	setDefault(&c.MinPoll, 10*time.Millisecond)
	setDefault(&c.MaxPoll, 100*time.Millisecond)
	setDefault(&c.Heartbeat, time.Second)
	setDefault(&c.MaxFollowers, 1000)
	setDefault(&c.MaxSnapshots, 4)
	setDefault(&c.RingBytes, 32<<20)
	setDefault(&c.RingFrames, 4096)
	setDefault(&c.ReadRecords, 1024)
	setDefault(&c.WriteTimeout, 10*time.Second)
	setDefault(&c.ReadTimeout, 30*time.Second)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Server carries a source's changelog to followers. One goroutine, [Server.Run],
// reads the live tail and makes each frame once; the followers' HTTP requests
// take the frames from a shared ring, or read the source themselves while they
// are behind it. It does not ask who follows: the caller wraps its handlers.
type Server struct {
	cfg     ServerConfig
	speaks  []uint16 // versions of the protocol, in order
	encoder *encoder
	metrics *serverMetrics

	snapshots chan struct{} // one token for each snapshot under way
	sums      chan struct{} // one token for each reading of sums under way
	catchUps  chan struct{} // one token for each reading by a follower
	requests  sync.WaitGroup

	mu        sync.Mutex
	known     bool // head and ring are of the source
	head      Head
	heartbeat []byte // head as a frame
	ring      ring
	wake      chan struct{} // closed, and replaced, when anything here changes
	followers int
	draining  bool
	unfit     bool             // the source is none at present: see ErrNoSource
	asked     waypost.Position // that somebody waits for followers to have
	again     uint64           // counts the questions for positions that were asked for before
}

// NewServer makes a Server that serves once Run runs.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.Source == nil {
		return nil, errors.New("replication server: a source is required")
	}
	cfg = cfg.withDefaults()
	enc, err := newEncoder()
	if err != nil {
		return nil, err
	}
	metrics, err := newServerMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	return &Server{
		cfg:       cfg,
		speaks:    spoken,
		encoder:   enc,
		metrics:   metrics,
		snapshots: make(chan struct{}, cfg.MaxSnapshots),
		sums:      make(chan struct{}, cfg.MaxSnapshots),
		catchUps:  make(chan struct{}, 8),
		ring:      ring{maxFrames: cfg.RingFrames, maxBytes: cfg.RingBytes},
		wake:      make(chan struct{}),
	}, nil
}

// Run reads the source until ctx ends, then tells all followers to leave, and
// returns ctx's error. A source that fails is tried again for as long as it takes:
// followers stay connected meanwhile, and see the age of the head.
func (s *Server) Run(ctx context.Context) error {
	defer s.beginDrain()
	t := tail{server: s, delay: s.cfg.MinPoll}
	for {
		changed := s.cfg.Source.Changed()
		wait := t.step(ctx)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-changed:
			timer.Stop()
			if t.failures > 0 { // a hint does not heal a source
				if err := sleep(ctx, wait); err != nil {
					return err
				}
			}
		case <-timer.C:
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// tail is the state of Run alone.
type tail struct {
	server   *Server
	delay    time.Duration // to the next look, while the source answers
	failures int           // in a row
	headAt   time.Time     // when the head was last read

	generation uint32 // of the key that what is passed on is signed with
}

// step looks at the source once and says how long to wait for the next look.
func (t *tail) step(ctx context.Context) time.Duration {
	s := t.server
	moved, err := t.read(ctx)
	switch {
	case errors.Is(err, ErrNoSource):
		s.suspend(err)
		t.delay = s.cfg.MaxPoll
		return t.delay
	case err == nil && moved:
		t.delay = s.cfg.MinPoll
		t.failures = 0
		return 0
	case err == nil:
		t.delay = min(2*t.delay, s.cfg.MaxPoll)
		t.failures = 0
		return t.delay
	case ctx.Err() != nil:
		return 0
	}
	s.metrics.failures.Inc()
	if t.failures++; t.failures == 1 {
		s.cfg.Logger.Warn("the changelog cannot be read; followers wait", "error", err)
	}
	return min(s.cfg.MaxPoll<<min(t.failures-1, 5), 2*time.Second)
}

// read takes what the source has, and its head when that is due.
func (t *tail) read(ctx context.Context) (moved bool, err error) {
	s := t.server
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ReadTimeout)
	defer cancel()

	s.mu.Lock()
	known, at := s.known, s.ring.tail()
	s.mu.Unlock()
	_, relays := s.cfg.Source.(Relay)
	if generation := s.cfg.Trust.Generation(); relays && generation != t.generation {
		t.generation, known = generation, false // what is in the ring is signed with another key
	}
	if !known || relays || time.Since(t.headAt) >= s.cfg.Heartbeat {
		head, err := s.cfg.Source.Head(ctx)
		if err != nil {
			return false, fmt.Errorf("read the head: %w", err)
		}
		t.headAt = time.Now()
		if !known || head.Position.Epoch != at.Epoch {
			s.restart(head)
			return true, nil
		}
		s.setHead(head)
	}

	b, err := s.cfg.Source.Read(ctx, at, s.cfg.ReadRecords)
	switch {
	case errors.Is(err, ErrOtherHistory), errors.Is(err, ErrTrimmed):
		// The source is not what it was. Begin again at its head; each follower is
		// judged by its own position.
		head, headErr := s.cfg.Source.Head(ctx)
		if headErr != nil {
			return false, fmt.Errorf("read the head: %w", headErr)
		}
		s.cfg.Logger.Warn("the changelog left its history; followers are judged anew", "error", err,
			"was", at, "is", head.Position)
		s.restart(head)
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read the changelog: %w", err)
	case len(b.Transactions) == 0:
		return false, nil
	}
	if b.Epoch != at.Epoch || b.Transactions[0].Seq != at.Seq+1 {
		return false, fmt.Errorf("the source gave sequence %d after %d", b.Transactions[0].Seq, at.Seq)
	}
	s.append(&b)
	return true, nil
}

// Ask makes the followers say where they stand once they have a position on their disks;
// how they say it is not the stream's business. Of several positions the newest counts. It
// does not block.
func (s *Server) Ask(p waypost.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Epoch == s.asked.Epoch && p.Seq <= s.asked.Seq {
		s.again++ // those who have told may have told too early
	} else {
		s.asked = p
	}
	s.broadcast()
}

// announced is what is told of the key with which is signed, nil for nothing.
func (s *Server) announced() []byte {
	if s.cfg.Signer != nil {
		return s.cfg.Signer.announced
	}
	return s.cfg.Trust.announced()
}

// AskAll makes the followers that are at the head, or come to it, say where they stand.
func (s *Server) AskAll() {
	s.mu.Lock()
	head := s.head.Position
	s.mu.Unlock()
	s.Ask(head)
}

// broadcast wakes all who wait. s.mu is held.
func (s *Server) broadcast() {
	close(s.wake)
	s.wake = make(chan struct{})
}

func (s *Server) restart(head Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.unfit = true, false
	s.ring.restart(head.Position)
	s.noteHead(head)
	s.broadcast()
}

// suspend turns followers away until the source is one again.
func (s *Server) suspend(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unfit {
		return
	}
	s.known, s.unfit = false, true
	s.cfg.Logger.Info("followers are turned away for now", "reason", why)
	s.broadcast()
}

func (s *Server) setHead(head Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteHead(head)
}

// noteHead makes the heartbeat that all followers share. s.mu is held.
func (s *Server) noteHead(head Head) {
	if s.cfg.Signer != nil {
		head.Signature = s.cfg.Signer.signHead(&head)
	}
	s.head = head
	if r, ok := s.cfg.Source.(Relay); ok {
		head = r.Origin()
	}
	s.heartbeat = s.vouched(&head, plainFrame(frameHeartbeat, 0, appendHead(nil, &head)))
}

func (s *Server) append(b *Batch) {
	es := s.encoder.frames(b, s.cfg.Signer) // outside the lock: it takes its time
	if b.Frame == nil {
		s.metrics.encoded.Add(float64(len(es)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring.add(es)
	s.broadcast()
}

// view is what a follower at a position sees, taken under the lock.
type view struct {
	draining  bool
	unfit     bool
	entries   []ringEntry
	onRing    bool
	heartbeat []byte
	wake      <-chan struct{}
	asked     question
}

// question is one time of asking.
type question struct {
	at    waypost.Position
	again uint64
}

func (s *Server) view(p waypost.Position) view {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := view{
		draining: s.draining, unfit: s.unfit, heartbeat: s.heartbeat, wake: s.wake, asked: question{s.asked, s.again},
	}
	v.entries, v.onRing = s.ring.since(p, 16)
	return v
}

// admit lets a request in, or says why not. Whoever is let in calls s.requests.Done.
func (s *Server) admit() (Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return Head{}, errors.New("draining")
	case s.unfit:
		return Head{}, ErrNoSource
	case !s.known:
		return Head{}, errors.New("the changelog has not been read yet")
	}
	s.requests.Add(1)
	return s.head, nil
}

func (s *Server) beginDrain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining {
		s.draining = true
		s.broadcast()
	}
}

// Drain refuses new followers, says bye to those that are connected, and waits
// until they have left or ctx ends. There is no way back.
func (s *Server) Drain(ctx context.Context) error {
	s.beginDrain()
	left := make(chan struct{})
	go func() { // ends with the last request, which the write deadline bounds
		s.requests.Wait()
		close(left)
	}()
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for followers to leave: %w", ctx.Err())
	}
}
