package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"

	"waypost/edge/proxy"
)

// Server answers redirects over HTTP/1.1.
//
// Any fault in a request, above all in its framing, ends the connection, and so does a
// POST: a redirect needs no body and no second chance, and a proxy in front must never
// see two requests where this server sees one.
type Server struct {
	cfg        Config
	ownClock   bool // cfg.Clock is not the system's
	noFastPath bool // for tests
	http       *fasthttp.Server
	about      []byte // the body of GET /

	blockedBodies blockedBodies

	metrics  *metrics
	registry *registry
	guesses  *guesses
	hashing  *hashing
	trusted  proxy.Trusted

	date       dateHeader
	draining   atomic.Bool
	loggedFail atomic.Int64 // Unix seconds of the last logged failure
	panics     rate.Sometimes

	mu struct {
		sync.Mutex
		listeners []net.Listener
		closed    bool
	}
}

// New returns a Server, and starts nothing.
func New(cfg Config) *Server {
	ownClock := cfg.Clock != nil
	cfg = cfg.withDefaults()
	s := &Server{
		cfg: cfg, ownClock: ownClock, about: about(cfg), blockedBodies: prepareBlocked(cfg.Contact),
		metrics: newMetrics(), trusted: proxy.Trusted(cfg.TrustedProxies),
		guesses: newGuesses(cfg.Clock), hashing: newHashing(), panics: rate.Sometimes{First: 1, Interval: time.Second},
	}
	s.registry = newRegistry(s.metrics, cfg.MaxConnections, cfg.MaxConnectionsPerAddress)
	s.metrics.open = s.registry.open.Load
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(s.metrics)
	}
	s.http = &fasthttp.Server{
		Handler:        s.handle,
		HeaderReceived: refuseBody,
		ErrorHandler:   s.refuseBroken,
		ExpectHandler:  s.refuseExpectation,
		ConnState:      s.follow,
		Logger:         quietLogger{cfg.Logger},

		ReadTimeout:  cfg.ReadTimeout,
		WriteTimeout: cfg.WriteTimeout,
		IdleTimeout:  cfg.IdleTimeout,
		Concurrency:  2 * cfg.MaxConnections, // never reached: the registry keeps the limit

		GetOnly:                      true, // and HEAD
		MaxRequestBodySize:           1,    // 0 would mean 4 MB; only forms are read, see refuseBody
		ReadBufferSize:               maxHead,
		DisablePreParseMultipartForm: true,

		LazyRequestTime:       true, // the clock is read only for clicks, and links that expire
		CloseOnShutdown:       true,
		NoDefaultServerHeader: true,
		NoDefaultContentType:  true,
		SecureErrorLogMessage: true,
	}
	return s
}

// Serve answers the connections of ln until Shutdown, and then returns nil, or until ln
// fails permanently. It closes ln. It may be called for several listeners.
func (s *Server) Serve(ln net.Listener) error { return s.serve(ln, nil) }

// ServeTLS is Serve for clients that speak TLS. ln accepts plain connections, because a
// PROXY header comes before the handshake. cfg may offer two protocols: http/1.1 and, for
// proofs to certificate authorities, acme-tls/1.
func (s *Server) ServeTLS(ln net.Listener, cfg *tls.Config) error { return s.serve(ln, cfg) }

func (s *Server) serve(ln net.Listener, cfg *tls.Config) error {
	wrapped := newListener(ln, s, cfg)
	var err error
	if s.track(wrapped) {
		err = s.http.Serve(wrapped)
	}
	if err := errors.Join(err, wrapped.Close()); err != nil {
		return fmt.Errorf("serving redirects on %s: %w", ln.Addr(), err)
	}
	return nil
}

// track keeps a listener for Shutdown. It reports false once Shutdown has begun.
func (s *Server) track(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return false
	}
	s.mu.listeners = append(s.mu.listeners, ln)
	return true
}

// Bounds of the wait for the first request of a connection that was accepted just before
// a stop. A visitor sends a plain request together with the end of the connection's own
// handshake, so that silence soon means that no request comes; TLS takes one or two more
// round trips, 300 ms each if the visitor is far away.
const (
	silenceTime   = 200 * time.Millisecond // in which no connection has ended
	handshakeTime = 900 * time.Millisecond // in all
)

// Shutdown ends the service without failing a request. For DrainTime, or until no
// connection is left, it goes on serving and asks every client to close its
// connection after the answer. Then it stops listening, and closes connections that wait
// for their next request at once, and connections that wait for their first request a
// moment later. It waits for the requests in flight. When ctx ends first, it returns
// ctx's error, and leaves the remaining connections to the end of the process.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	s.drain(ctx)

	// fasthttp does not know a listener yet if its Serve has only just begun.
	err := s.stopListening()
	empty := s.registry.endConns(phaseWaiting)
	most, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	s.awaitFirstRequests(most)
	s.registry.endConns(phaseNew)
	select {
	case <-empty:
	case <-most.Done():
	}
	s.registry.endConns(phaseHandshake)
	select {
	case <-empty:
	case <-ctx.Done():
	}
	if err := errors.Join(err, s.http.ShutdownWithContext(ctx)); err != nil {
		return fmt.Errorf("shutting the redirect server down: %w", err)
	}
	return nil
}

// stopListening closes the listeners.
func (s *Server) stopListening() error {
	s.mu.Lock()
	listeners := s.mu.listeners
	s.mu.listeners, s.mu.closed = nil, true
	s.mu.Unlock()
	var errs []error
	for _, ln := range listeners {
		errs = append(errs, ln.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing the redirect listeners: %w", err)
	}
	return nil
}

// drain waits until no connection is open, or DrainTime or ctx has ended.
func (s *Server) drain(ctx context.Context) {
	const interval = 5 * time.Millisecond
	over := time.NewTimer(s.cfg.DrainTime)
	defer over.Stop()
	look := time.NewTicker(interval)
	defer look.Stop()
	for s.registry.open.Load() > 0 {
		select {
		case <-look.C:
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// awaitFirstRequests waits until no connection is open, or none has ended for
// silenceTime, or ctx has ended.
func (s *Server) awaitFirstRequests(ctx context.Context) {
	const interval = 5 * time.Millisecond
	look := time.NewTicker(interval)
	defer look.Stop()
	open, silent := s.registry.open.Load(), time.Duration(0)
	for open > 0 && silent < silenceTime {
		select {
		case <-look.C:
			silent += interval
		case <-ctx.Done():
			return
		}
		if now := s.registry.open.Load(); now != open {
			open, silent = now, 0
		}
	}
}

// about prepares the answer of GET /.
func about(cfg Config) []byte {
	b, err := json.Marshal(struct {
		Service string `json:"service"`
		Version string `json:"version"`
		Region  string `json:"region,omitempty"`
		Node    string `json:"node,omitempty"`
	}{"waypost", cfg.Version, string(cfg.Region), cfg.Node})
	if err != nil {
		panic(err) // strings always marshal
	}
	return b
}

// quietLogger logs fasthttp's messages without their arguments, which hold the addresses
// of visitors and parts of their requests.
type quietLogger struct{ log *slog.Logger }

func (l quietLogger) Printf(format string, _ ...any) {
	l.log.Debug("fasthttp logged a line", "event", format)
}
