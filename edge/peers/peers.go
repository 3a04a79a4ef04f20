package peers

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"waypost/replication"
)

// Config configures a [Chooser]. Zero fields mean the default.
type Config struct {
	Home  replication.FollowConfig // what is followed when all is well; its Sink is asked as well
	Homes []string                 // base URLs of homes that share a database; default: that of Home alone
	List  func() []string          // base URLs of peers that may be there, best first; nil: none
	Token string                   // for peers

	Client *http.Client // for peers; default: a usual one

	After  time.Duration // without a word from home, and up to half as much more; 15 s; negative: peers are never followed
	Swift  time.Duration // without news from a home until another one is asked; 1.75 s
	Probe  time.Duration // from one look at home, or for peers, to the next; 5 s
	Limit  time.Duration // for one answer; 2 s
	First  bool          // a replica that holds nothing takes its first snapshot from a peer if there is one
	Logger *slog.Logger
}

// Following is a follower that the chooser can replace.
type Following interface {
	Status() replication.Status
	// Renew ends the present follower and begins one of the chooser's new Config.
	Renew(ctx context.Context) error
}

// Chooser chooses the source to follow.
type Chooser struct {
	cfg Config

	mu    sync.Mutex
	home  int       // index of the present home
	peer  string    // followed in place of home; "": none is
	since time.Time // when that began

	// The goroutine of Run owns the rest.
	heardAt  int64         // of the newest head, by the origin's clock
	movedAt  time.Time     // when that came
	patience time.Duration // with the present home
	asked    time.Time     // when other homes were asked last
}

// New makes a chooser that begins at home.
func New(cfg Config) *Chooser {
	cfg.After = cmp.Or(cfg.After, 15*time.Second)
	cfg.Swift = cmp.Or(cfg.Swift, 1750*time.Millisecond)
	cfg.Probe = cmp.Or(cfg.Probe, 5*time.Second)
	cfg.Limit = cmp.Or(cfg.Limit, 2*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if len(cfg.Homes) == 0 {
		cfg.Homes = []string{cfg.Home.URL}
	}
	return &Chooser{cfg: cfg, since: time.Now(), patience: cfg.Swift}
}

// Follow returns the configuration of the next follower, with the status of the last
// one.
func (c *Chooser) Follow(before replication.Status) replication.FollowConfig {
	c.mu.Lock()
	defer c.mu.Unlock()
	cfg := c.at(c.home)
	if c.peer != "" {
		cfg = c.ofPeer(c.peer)
	}
	cfg.Before = before
	return cfg
}

// at returns the configuration of a home's follower.
func (c *Chooser) at(home int) replication.FollowConfig {
	cfg := c.cfg.Home
	cfg.URL = c.cfg.Homes[home]
	return cfg
}

// Home is the base URL of the present home.
func (c *Chooser) Home() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg.Homes[c.home]
}

func (c *Chooser) ofPeer(url string) replication.FollowConfig {
	cfg := c.cfg.Home
	cfg.URL, cfg.Token, cfg.Peer = url, c.cfg.Token, true
	cfg.Client, cfg.Fatal = c.cfg.Client, nil // whatever a peer says, it is not the last word
	return cfg
}

// Peer is the base URL of the peer that is followed, "" while none is.
func (c *Chooser) Peer() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peer
}

// Run chooses until ctx ends.
func (c *Chooser) Run(ctx context.Context, f Following) {
	peered := c.cfg.After >= 0 && c.cfg.List != nil
	if !peered && len(c.cfg.Homes) < 2 {
		return
	}
	if peered && c.cfg.First && c.cfg.Home.Sink.Position().IsZero() {
		st := f.Status()
		// Its key is pinned: a peer cannot be asked for it. No peer of an older history is
		// followed.
		if p, err := c.ask(ctx, c.at(0)); err == nil {
			st.Head = p.Head
		}
		c.turn(ctx, f, c.best(ctx, st))
	}
	patience := c.peerless()
	pace := time.Second
	if peered {
		pace = min(max(c.cfg.After/20, 10*time.Millisecond), pace)
	}
	if len(c.cfg.Homes) > 1 {
		pace = min(c.cfg.Swift/8, pace)
	}
	look := time.NewTicker(pace)
	defer look.Stop()
	next := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		st := f.Status()
		if c.Peer() == "" && c.changeHome(ctx, f, &st) || !peered {
			continue
		}
		quiet := c.quiet(&st) > patience
		if now := time.Now(); now.Before(next) || !quiet && c.Peer() == "" {
			continue
		}
		next = time.Now().Add(jitter(c.cfg.Probe))
		if c.step(ctx, f, st, quiet) {
			patience = c.peerless()
		}
	}
}

// peerless returns how long the edge stays without a word before it follows a peer.
func (c *Chooser) peerless() time.Duration { return c.cfg.After + rand.N(c.cfg.After/2+1) }

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// quiet returns the time since the source was last heard. A busy home counts as heard; a
// busy peer does not, so that the edge leaves it for one that is free.
func (c *Chooser) quiet(st *replication.Status) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	heard := st.HeardAt
	if len(st.Via) > 0 && !st.Restoring && !st.Repairing { // a relay that is cut off itself has nothing to say
		heard = st.AdvancedAt
	}
	if c.peer == "" && heard.Before(st.Wait.HeardAt) {
		heard = st.Wait.HeardAt
	}
	if heard.Before(c.since) {
		heard = c.since
	}
	return time.Since(heard)
}

// step looks for something better than what is followed, and says whether there was any.
func (c *Chooser) step(ctx context.Context, f Following, st replication.Status, quiet bool) bool {
	if c.Peer() != "" {
		begins := c.cfg.Home.Sink.Position().IsZero() && st.Failures == 0
		if !quiet && !st.Wait.Waits() && (st.Restoring || st.Repairing || begins) {
			return false // what is under way would be for nothing
		}
		for home := range c.cfg.Homes {
			if c.homeIsBack(ctx, home, &st) {
				c.settle(home)
				c.turn(ctx, f, "")
				return true
			}
		}
	}
	if !quiet || c.Peer() == "" && errors.Is(st.Err, replication.ErrUnauthorized) {
		return false // an edge that home does not let in has no business with peers
	}
	peer := c.best(ctx, st)
	waits := st.Wait.Waits() && time.Since(st.Wait.HeardAt) < c.cfg.After
	if peer == c.Peer() || peer == "" && waits {
		return false
	}
	c.turn(ctx, f, peer)
	return true
}

// homeIsBack asks a home. A relay must know as much as this edge does.
func (c *Chooser) homeIsBack(ctx context.Context, home int, st *replication.Status) bool {
	p, err := c.ask(ctx, c.at(home))
	if err != nil {
		return false
	}
	own := c.cfg.Home.Sink.Position()
	return len(p.Via) == 0 || p.Head.Position.Epoch.Ordinal > own.Epoch.Ordinal ||
		p.Head.Position.Epoch == own.Epoch && p.Head.Position.Seq >= own.Seq && p.Origin.At >= st.Head.At
}

// ask looks at a source without following it.
func (c *Chooser) ask(ctx context.Context, cfg replication.FollowConfig) (replication.Probe, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Limit)
	defer cancel()
	return replication.Look(ctx, cfg)
}

// Bounds of one look for peers.
const (
	mostPeers = 16
	atOnce    = 4
)

// best asks the peers, and returns the most advanced of those that know more than this
// edge; "" when none does. For a first snapshot, peers that are not busy come first; an
// edge that waits already goes only to one of these.
func (c *Chooser) best(ctx context.Context, st replication.Status) string {
	list := c.cfg.List()
	list = list[:min(len(list), mostPeers)]
	answers := make([]*replication.Probe, len(list))
	tokens := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, url := range list {
		all.Go(func() {
			tokens <- struct{}{}
			defer func() { <-tokens }()
			cfg := c.ofPeer(url)
			cfg.Before = st
			p, err := c.ask(ctx, cfg)
			if err != nil {
				c.cfg.Logger.Debug("a peer does not help", "url", url, "error", err)
				return
			}
			answers[i] = &p
		})
	}
	all.Wait()
	own := c.cfg.Home.Sink.Position()
	best := -1
	for i, p := range answers {
		if p == nil {
			continue
		}
		at := p.Head.Position
		// Another epoch is a newer one, or the peer would not have answered: nothing else is
		// compared.
		news := at.Epoch != own.Epoch || at.Seq > own.Seq || p.Origin.At > st.Head.At
		if !news || st.Wait.Waits() && p.Busy {
			continue
		}
		if best < 0 || better(p, answers[best], own.IsZero()) {
			best = i
		}
	}
	if best < 0 {
		return ""
	}
	return list[best]
}

// better reports whether p is better to follow than q, for an empty replica or one that
// is not.
func better(p, q *replication.Probe, empty bool) bool {
	if empty && p.Head.Position.Epoch == q.Head.Position.Epoch && p.Busy != q.Busy {
		return q.Busy
	}
	return more(p, q)
}

// more reports whether a peer is more advanced than another.
func more(p, q *replication.Probe) bool {
	a, b := p.Head.Position, q.Head.Position
	if a.Epoch.Ordinal != b.Epoch.Ordinal {
		return a.Epoch.Ordinal > b.Epoch.Ordinal
	}
	if a.Epoch == b.Epoch && a.Seq != b.Seq {
		return a.Seq > b.Seq
	}
	return p.Origin.At > q.Origin.At
}

// turn follows a peer from now on, or home.
func (c *Chooser) turn(ctx context.Context, f Following, peer string) {
	if peer == "" && c.Peer() == "" {
		return
	}
	c.mu.Lock()
	c.peer, c.since = peer, time.Now()
	c.mu.Unlock()
	if peer == "" {
		c.cfg.Logger.Info("following its own source again", "url", c.Home())
	} else {
		c.cfg.Logger.Warn("its own source is away: following a peer", "url", peer, "position", c.cfg.Home.Sink.Position())
	}
	if err := f.Renew(ctx); err != nil && ctx.Err() == nil {
		c.cfg.Logger.Error("another source cannot be followed", "error", err)
	}
}
