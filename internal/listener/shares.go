package listener

import (
	"container/list"
	"context"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// provenShare is the part of the connections, one in this many, that is kept for
	// clients that prove who they are.
	provenShare = 10

	// maxTrials bounds the connections on trial, and maxTheirTrials those of one address.
	maxTrials, maxTheirTrials = 256, 32

	defaultPatience = 2 * time.Second
)

// SharesConfig configures Shares.
type SharesConfig struct {
	Most       int                   // connections in all
	PerAddress int                   // connections of one address, as [Network] has it
	Exempt     func(netip.Addr) bool // addresses without a limit of their own; nil: none
	Patience   time.Duration         // of a trial; default 2 s
}

// Shares is a listener that bounds connections, and keeps a share of them for clients
// that the server knows. A connection above a limit is accepted on trial: the server has
// to prove it at its first request, or to close it. A trial ends after a time, and before
// that when newer ones need its place, so that a flood leaves time for a proof.
//
// A proven connection belongs to the kept share, and counts for its address no more.
type Shares struct {
	net.Listener
	cfg SharesConfig

	mu        sync.Mutex
	general   int
	proven    int
	trials    list.List // of *Place, the oldest first
	addresses Addresses
	refused   uint64
}

// NewShares bounds the connections of a listener.
func NewShares(ln net.Listener, cfg SharesConfig) *Shares {
	if cfg.Exempt == nil {
		cfg.Exempt = func(netip.Addr) bool { return false }
	}
	if cfg.Patience <= 0 {
		cfg.Patience = defaultPatience
	}
	return &Shares{Listener: ln, cfg: cfg, addresses: NewAddresses(cfg.PerAddress)}
}

// Place is a connection that Shares has accepted. A nil Place is in no share.
type Place struct {
	net.Conn
	shares *Shares

	// The lock of shares guards these.
	share   share
	network netip.Addr    // that counts it; zero: none
	trial   *list.Element // in shares.trials
	timer   *time.Timer   // that ends the trial
}

type share int

const (
	outside share = iota
	general
	onTrial
	proven
)

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
func (s *Shares) admit(c net.Conn) *Place {
	p := &Place{Conn: c, shares: s}
	if at, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil && !s.cfg.Exempt(at.Addr()) {
		p.network = Network(at.Addr())
	}
	s.mu.Lock()
	taken := s.proven + s.trials.Len()
	if s.general < s.cfg.Most-max(s.kept(), taken) && s.addresses.Add(p.network) {
		s.general++
		p.share = general
		s.mu.Unlock()
		return p
	}
	loser := s.try(p, s.general+taken >= s.cfg.Most)
	s.mu.Unlock()
	if loser != nil {
		Refuse(loser.Conn) // its own Close has nothing left to do
	}
	if loser == p {
		return nil
	}
	return p
}

// kept returns how many connections are kept for proven ones.
func (s *Shares) kept() int { return max(1, s.cfg.Most/provenShare) }

// try takes a connection on trial. It returns the connection that has to be closed for
// it, which may be the new one.
func (s *Shares) try(p *Place, full bool) (loser *Place) {
	theirs, oldest := 0, (*Place)(nil)
	for e := s.trials.Front(); e != nil && p.network.IsValid(); e = e.Next() {
		if other := e.Value.(*Place); other.network == p.network {
			if theirs++; oldest == nil {
				oldest = other
			}
		}
	}
	switch {
	case theirs >= min(maxTheirTrials, s.kept()):
		loser = oldest
	case full || s.trials.Len() >= min(maxTrials, s.kept()):
		if s.trials.Len() == 0 {
			s.refused++
			return p
		}
		loser = s.trials.Front().Value.(*Place)
	}
	if loser != nil {
		s.drop(loser)
		s.refused++
	}
	p.share, p.trial = onTrial, s.trials.PushBack(p)
	p.timer = time.AfterFunc(s.cfg.Patience, p.expire)
	return loser
}

// drop takes a connection out of its share.
func (s *Shares) drop(p *Place) {
	switch p.share {
	case general:
		s.general--
		s.addresses.Remove(p.network)
	case proven:
		s.proven--
	case onTrial:
		s.trials.Remove(p.trial)
		p.timer.Stop()
	case outside:
	}
	p.share = outside
}

// expire ends a trial that has taken too long.
func (p *Place) expire() {
	s := p.shares
	s.mu.Lock()
	late := p.share == onTrial
	if late {
		s.drop(p)
		s.refused++
	}
	s.mu.Unlock()
	if late {
		Refuse(p.Conn)
	}
}

// Close closes the connection, and leaves its place to another.
func (p *Place) Close() error {
	p.shares.mu.Lock()
	p.shares.drop(p)
	p.shares.mu.Unlock()
	return p.Conn.Close()
}

// OnTrial reports whether the connection has to be proven or closed.
func (p *Place) OnTrial() bool {
	if p == nil {
		return false
	}
	p.shares.mu.Lock()
	defer p.shares.mu.Unlock()
	return p.share == onTrial
}

// Prove moves the connection to the kept share.
func (p *Place) Prove() {
	if p == nil {
		return
	}
	s := p.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.share == general || p.share == onTrial {
		s.drop(p)
		p.share = proven
		s.proven++
	}
}

// Count returns how many connections are open, by share, and how many were closed or
// refused above a limit without a proof.
func (s *Shares) Count() (general, trials, proven int, refused uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.general, s.trials.Len(), s.proven, s.refused
}

type placeKey struct{}

// WithPlace is the ConnContext of a server whose listener is Shares, with or without TLS
// above it.
func WithPlace(ctx context.Context, c net.Conn) context.Context {
	if above, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = above.NetConn()
	}
	if p, ok := c.(*Place); ok {
		return context.WithValue(ctx, placeKey{}, p)
	}
	return ctx
}

// PlaceOf returns the place of a request's connection; nil without one.
func PlaceOf(ctx context.Context) *Place {
	p, _ := ctx.Value(placeKey{}).(*Place)
	return p
}
