package replication

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"waypost"
)

// Server carries a source's changelog to followers. One goroutine, [Server.Run],
// reads the live tail and makes each frame once; the followers' HTTP requests
// take the frames from a shared ring, or read the source themselves while they
// are behind it. It does not ask who follows: the caller wraps its handlers.
type Server struct {
	cfg     ServerConfig
	speaks  []uint16 // versions of the protocol, in order
	encoder *encoder
	metrics *serverMetrics

	snapshots *limiter
	aheads    int // readings that snapshots have under way beside their first; guarded by mu
	sums      *limiter
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
	metrics, err := newServerMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	return &Server{
		cfg:       cfg,
		speaks:    spoken,
		encoder:   newEncoder(),
		metrics:   metrics,
		snapshots: newLimiter(cfg.MaxSnapshots, metrics.limiter("snapshots")),
		sums:      newLimiter(cfg.MaxSnapshots, metrics.limiter("sums")),
		catchUps:  make(chan struct{}, 8),
		ring:      ring{maxFrames: cfg.RingFrames, maxBytes: cfg.RingBytes},
		wake:      make(chan struct{}),
	}, nil
}

// announced is what is told of the key with which is signed, nil for nothing.
func (s *Server) announced() []byte {
	if s.cfg.Signer != nil {
		return s.cfg.Signer.announced
	}
	return s.cfg.Trust.announced()
}

// broadcast wakes all who wait. s.mu is held.
func (s *Server) broadcast() {
	close(s.wake)
	s.wake = make(chan struct{})
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
	head, err := s.fit()
	if err == nil {
		s.requests.Add(1)
	}
	return head, err
}

// fit gives the head, or says why there is none to follow. s.mu is held.
func (s *Server) fit() (Head, error) {
	switch {
	case s.draining:
		return Head{}, errors.New("draining")
	case s.unfit:
		return Head{}, ErrNoSource
	case !s.known:
		return Head{}, errors.New("the changelog has not been read yet")
	}
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
