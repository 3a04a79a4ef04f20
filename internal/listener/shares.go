package listener

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"waypost/internal/semaphore"
)

const (
	// keptShare is the part of the connections, one in this many, that is kept for trials.
	keptShare = 10

	// maxTrials bounds the connections of one address on trial, so that a flood from sixty
	// addresses leaves trials of 10,000 connections to others.
	maxTrials = 16

	defaultPatience = 2 * time.Second
)

// SharesConfig configures Shares.
type SharesConfig struct {
	Most       int                   // connections of clients, and as many of proven ones
	PerAddress int                   // connections of one address, as [Network] has it
	Exempt     func(netip.Addr) bool // addresses without a limit of their own; nil: none
	Patience   time.Duration         // of a trial; default 2 s
}

// Shares is a listener that bounds connections. A connection above a limit is accepted on
// trial, because it may be of a client that the server knows: the server has to prove it
// at its first request, or to close it, and the trial ends after a time. A proven
// connection leaves its place to another.
type Shares struct {
	net.Listener
	exempt   func(netip.Addr) bool
	patience time.Duration

	general, trials, proven *share
	exempted                atomic.Uint64 // connections
	refused                 atomic.Uint64
}

type share = semaphore.Keyed[client]

// client is an address that has its part of a share. A connection without a limit of its
// own is a client by its number.
type client struct {
	network netip.Addr
	number  uint64
}

// NewShares bounds the connections of a listener.
func NewShares(ln net.Listener, cfg SharesConfig) *Shares {
	kept := max(1, cfg.Most/keptShare)
	return &Shares{
		Listener: ln, exempt: cfg.Exempt, patience: cmp.Or(cfg.Patience, defaultPatience),
		general: semaphore.NewKeyed[client](cfg.Most-kept, cfg.PerAddress),
		trials:  semaphore.NewKeyed[client](kept, max(1, min(maxTrials, kept/2))),
		proven:  semaphore.NewKeyed[client](cfg.Most, cfg.Most),
	}
}

// Conn is a connection that Shares has accepted. A nil Conn is in no share.
type Conn struct {
	net.Conn
	shares *Shares
	client client

	mu    sync.Mutex
	share *share      // nil: closed
	timer *time.Timer // that ends a trial; nil: there was none
}

// Accept returns the next connection that finds a place.
func (s *Shares) Accept() (net.Conn, error) {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if p := s.admit(c); p != nil {
			return p, nil
		}
	}
}

// admit finds a place for a connection, or refuses it and returns nil.
func (s *Shares) admit(c net.Conn) *Conn {
	p := &Conn{Conn: c, shares: s}
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil || s.exempt != nil && s.exempt(at.Addr()) {
		p.client.number = s.exempted.Add(1)
	} else {
		p.client.network = Network(at.Addr())
	}
	switch {
	case s.general.TryAcquire(p.client, 1):
		p.share = s.general
	case s.trials.TryAcquire(p.client, 1):
		p.mu.Lock()
		p.share, p.timer = s.trials, time.AfterFunc(s.patience, p.expire)
		p.mu.Unlock()
	default:
		s.refused.Add(1)
		Refuse(c)
		return nil
	}
	return p
}

// expire ends a trial that has taken too long.
func (p *Conn) expire() {
	p.mu.Lock()
	late := p.share == p.shares.trials
	if late {
		p.share.Release(p.client, 1)
		p.share = nil
	}
	p.mu.Unlock()
	if late {
		p.shares.refused.Add(1)
		Refuse(p.Conn) // its own Close has nothing left to do
	}
}

// Close closes the connection, and leaves its place to another.
func (p *Conn) Close() error {
	p.moveTo(nil)
	return p.Conn.Close()
}

// moveTo exchanges the place of the connection for one in another share, which was
// acquired; nil: for none.
func (p *Conn) moveTo(other *share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.share != nil {
		p.share.Release(p.client, 1)
	} else if other != nil { // it was closed
		other.Release(p.client, 1)
		return
	}
	if p.share = other; p.timer != nil {
		p.timer.Stop()
	}
}

func (p *Conn) in(s *share) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.share == s
}

// OnTrial reports whether the connection has to be proven or closed.
func (p *Conn) OnTrial() bool { return p != nil && p.in(p.shares.trials) }

// Prove moves the connection to the share of proven ones, if that has a place.
func (p *Conn) Prove() {
	if p != nil && !p.in(p.shares.proven) && p.shares.proven.TryAcquire(p.client, 1) {
		p.moveTo(p.shares.proven)
	}
}

// Count returns how many connections are open, by share, and how many were closed or
// refused above a limit without a proof.
func (s *Shares) Count() (general, trials, proven int, refused uint64) {
	return s.general.Held(), s.trials.Held(), s.proven.Held(), s.refused.Load()
}

type connKey struct{}

// WithConn is the ConnContext of a server that listens on Shares, with or without TLS
// above it.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	if above, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = above.NetConn()
	}
	if p, ok := c.(*Conn); ok {
		return context.WithValue(ctx, connKey{}, p)
	}
	return ctx
}

// ConnOf returns the connection of a request; nil without one.
func ConnOf(ctx context.Context) *Conn {
	p, _ := ctx.Value(connKey{}).(*Conn)
	return p
}
