package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"waypost"
	"waypost/internal/failpoint"
)

// ServerConfig configures a [Server]. Source and Logger are required.
type ServerConfig struct {
	Source  Source
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil: metrics are kept but not registered

	// Blocks holds the blocks of codes, which every follower gets. Nil: no blocks are
	// sent.
	Blocks *BlockSet

	// The origin of a changelog has these. Signer signs batches and heads; nil: nothing is
	// signed here.
	Signer *Signer
	// Hear is called before a follower of the stream is let in, with its name and its
	// testimony, which Signer has signed; nil when it presents none. With an error the
	// follower is refused. A nil Hear means that testimonies are ignored.
	Hear func(ctx context.Context, node string, testimony *Testimony) error
	// Sound is called before a repair or a whole snapshot of the source begins, and before
	// the whole source is compared, with the path of the request. With an error no replica
	// could be brought to the source's digest, and a repair or a snapshot is refused. It
	// returns within some seconds. Nil: the source is sound.
	Sound func(ctx context.Context, path string) error

	// A node that passes on batches signed elsewhere has these. It announces the key that
	// Trust has pinned. Via returns the nodes between the origin and a follower of this
	// server, this node first.
	Trust *Trust
	Via   func() []string

	ServerLimits
	Points *failpoint.Points // nil: nothing is done at its places
}

// ServerLimits bound the work of a [Server]. Zero fields mean the default, which nodes
// use, except that relays have fewer followers and snapshots.
type ServerLimits struct {
	MinPoll   time.Duration // between looks at a moving source; 10 ms
	MaxPoll   time.Duration // between looks at a quiet source; 100 ms
	Heartbeat time.Duration // 1 s

	MaxFollowers int           // on the stream at once; 1000
	MaxSnapshots int           // at once, and as many readings of sums; 4
	Turn         time.Duration // that a snapshot may take while others are refused; 30 min
	HeldBytes    int           // of records that a snapshot holds before it sends them; 64 MiB
	RingBytes    int           // of frames kept for sharing; 32 MiB
	RingFrames   int           // kept for sharing; 4096
	// CatchUpBytes bounds the frames that followers behind the ring have read and not sent,
	// except one of the usual size for each follower; 64 MiB.
	CatchUpBytes int
	// ReadRecords bounds the records that the source is asked for at once. A cut
	// transaction is read twice, and 1,000 links are often committed together; 1024.
	ReadRecords  int
	WriteTimeout time.Duration // for a follower to take 256 KiB; 10 s
	// ReadTimeout bounds one reading of the changelog. A range of slots is read without a
	// bound, and halved if the reading fails after that time; 30 s.
	ReadTimeout time.Duration
}

func (c ServerLimits) withDefaults() ServerLimits {
	c.MinPoll = cmp.Or(c.MinPoll, 10*time.Millisecond)
	c.MaxPoll = cmp.Or(c.MaxPoll, 100*time.Millisecond)
	c.Heartbeat = cmp.Or(c.Heartbeat, time.Second)
	c.MaxFollowers = cmp.Or(c.MaxFollowers, 1000)
	c.MaxSnapshots = cmp.Or(c.MaxSnapshots, 4)
	c.Turn = cmp.Or(c.Turn, 30*time.Minute)
	c.HeldBytes = cmp.Or(c.HeldBytes, 64<<20)
	c.RingBytes = cmp.Or(c.RingBytes, 32<<20)
	c.RingFrames = cmp.Or(c.RingFrames, 4096)
	c.CatchUpBytes = cmp.Or(c.CatchUpBytes, 64<<20)
	c.ReadRecords = cmp.Or(c.ReadRecords, 1024)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 10*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 30*time.Second)
	return c
}

// Server carries a source's changelog to followers. One goroutine, [Server.Run], reads
// the live tail and makes each frame once. The followers' HTTP requests take the frames
// from a shared ring, or read the source themselves while they are behind the ring. It
// does not check who follows: the caller wraps its handlers.
type Server struct {
	cfg     ServerConfig
	metrics *serverMetrics
	encoder *encoder

	board     *board
	slots     *slotReader
	snapshots *limiter
	sums      *limiter
	followers chan struct{}       // one token for each on the stream
	catchUps  chan struct{}       // one token for each reading by a follower
	unsent    *semaphore.Weighted // bytes of frames from such readings
}

// NewServer makes a Server that serves once Run runs.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.Source == nil || cfg.Logger == nil {
		return nil, errors.New("replication server: a source and a logger are required")
	}
	cfg.ServerLimits = cfg.ServerLimits.withDefaults()
	metrics, err := newServerMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, metrics: metrics, encoder: newEncoder(),
		snapshots: newLimiter(cfg.MaxSnapshots, metrics.limiter("snapshots")),
		sums:      newLimiter(cfg.MaxSnapshots, metrics.limiter("sums")),
		followers: make(chan struct{}, cfg.MaxFollowers),
		catchUps:  make(chan struct{}, 8),
		unsent:    semaphore.NewWeighted(int64(cfg.CatchUpBytes)),
	}
	s.board = newBoard(cfg.RingFrames, cfg.RingBytes)
	if cfg.Blocks != nil {
		cfg.Blocks.OnChange(s.board.rouse)
	}
	s.slots = &slotReader{source: cfg.Source, encoder: s.encoder, metrics: metrics, timeout: cfg.ReadTimeout, heldBytes: cfg.HeldBytes}
	return s, nil
}

// Ask requests that the followers report their positions once they have p on their
// disks. How they report is not the stream's business. Of several positions the newest
// counts. It does not block.
func (s *Server) Ask(p waypost.Position) { s.board.ask(p) }

// AskAll requests a report of the followers that are at the head, or reach it.
func (s *Server) AskAll() { s.board.ask(s.board.position()) }

// Drain refuses new followers, says bye to the connected ones, and waits until they have
// left or ctx ends. It cannot be undone.
func (s *Server) Drain(ctx context.Context) error {
	for {
		requests, wake := s.board.drain()
		if requests == 0 {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return fmt.Errorf("wait for followers to leave: %w", ctx.Err())
		}
	}
}

// announced returns the announcement of the signing key, nil for none.
func (s *Server) announced() []byte {
	if s.cfg.Signer != nil {
		return s.cfg.Signer.announced
	}
	return s.cfg.Trust.announced()
}

// proven puts the proof of a head before its frame: its signature, or a testimony.
func (s *Server) proven(h *Head, frame []byte) []byte {
	if h.Signature.IsZero() && s.cfg.Signer == nil {
		if testimony := s.cfg.Trust.testimonyFor(h.Position); testimony != nil {
			return append(plainFrame(frameTestimony, 0, testimony), frame...)
		}
	}
	return signed(&h.Signature, frame)
}

// hear takes in the testimony of a follower. A testimony that this cluster's key has not
// signed is ignored. The error is the reason to refuse the follower.
func (s *Server) hear(r *http.Request) error {
	if s.cfg.Signer == nil || s.cfg.Hear == nil {
		return nil
	}
	node := bounded(r.Header.Get(HeaderNode))
	var presented *Testimony
	if text := r.Header.Get(HeaderTestimony); text != "" {
		testimony, err := s.cfg.Signer.VerifyTestimony(text)
		if err != nil {
			s.cfg.Logger.Warn("ignoring the testimony of a follower", "node", node, "error", err)
		} else {
			presented = &testimony
		}
	}
	return s.cfg.Hear(r.Context(), node, presented)
}

// board holds the head and the changes that Run has read from the source, for all
// connections to see.
type board struct {
	mu        sync.Mutex // guards the rest
	requests  int        // that were let in and have not ended
	known     bool       // head and ring are of the source
	unfit     bool       // the source is none at present: see ErrNoSource
	draining  bool
	head      Head
	heartbeat []byte // head as a frame
	ring      ring
	asked     reportRequest
	wake      chan struct{} // closed, and replaced, when anything here changes
}

// reportRequest asks followers to report once they are at a position.
type reportRequest struct {
	at    waypost.Position
	times uint64 // counts requests for positions that were asked for before
}

func newBoard(frames, bytes int) *board {
	return &board{ring: ring{maxFrames: frames, maxBytes: bytes}, wake: make(chan struct{})}
}

// broadcast wakes all connections that wait. b.mu is held.
func (b *board) broadcast() {
	close(b.wake)
	b.wake = make(chan struct{})
}

// rouse wakes all connections that wait.
func (b *board) rouse() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broadcast()
}

// view is the part of the board that a follower at a position needs, copied under the
// lock.
type view struct {
	draining  bool
	unfit     bool
	entries   []ringEntry
	onRing    bool
	heartbeat []byte
	wake      <-chan struct{}
	asked     reportRequest
}

func (b *board) view(p waypost.Position) view {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := view{draining: b.draining, unfit: b.unfit, heartbeat: b.heartbeat, wake: b.wake, asked: b.asked}
	v.entries, v.onRing = b.ring.since(p, 16)
	return v
}

// admit lets a request in, or returns why not. The caller calls leave at its end.
func (b *board) admit() (Head, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.draining:
		return Head{}, errors.New("draining")
	case b.unfit:
		return Head{}, ErrNoSource
	case !b.known:
		return Head{}, errors.New("the changelog has not been read yet")
	}
	b.requests++
	return b.head, nil
}

// leave ends a request that admit has let in.
func (b *board) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.requests--; b.requests == 0 {
		b.broadcast()
	}
}

// drain lets no request in from now on. It returns the number of requests under way, and
// a channel that is closed when that number may have changed.
func (b *board) drain() (requests int, wake <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.draining {
		b.draining = true
		b.broadcast()
	}
	return b.requests, b.wake
}

func (b *board) ask(p waypost.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.Epoch == b.asked.at.Epoch && p.Seq <= b.asked.at.Seq {
		b.asked.times++ // followers that have reported may have done so too early
	} else {
		b.asked.at = p
	}
	b.broadcast()
}

func (b *board) position() waypost.Position {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.head.Position
}

// tail returns the newest position on the ring, and whether the source is known to have
// it.
func (b *board) tail() (at waypost.Position, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ring.tail(), b.known
}

// restart empties the ring at a head.
func (b *board) restart(head Head, heartbeat []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known, b.unfit = true, false
	b.ring.restart(head.Position)
	b.head, b.heartbeat = head, heartbeat
	b.broadcast()
}

// suspend turns followers away until restart is called, and reports whether it let them
// in before.
func (b *board) suspend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unfit {
		return false
	}
	b.known, b.unfit = false, true
	b.broadcast()
	return true
}

func (b *board) setHead(head Head, heartbeat []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.head, b.heartbeat = head, heartbeat
}

func (b *board) addEntries(es []ringEntry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ring.addEntries(es)
	b.broadcast()
}

// boundary returns the first sequence within [from, to] at which the ring can take over.
func (b *board) boundary(from, to uint64) (uint64, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ring.boundary(from, to)
}
