// Package sources chooses the control plane or relay that an edge follows, among those
// that its operator configured. An edge follows the first one, another one while that is
// gone or does not advance, and the first again once it has been well for a while. A
// source that refuses connections is gone at once; silence has to last.
package sources

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"waypost/replication"
)

// Config configures a [Chooser]. Zero fields mean the default.
type Config struct {
	Follow replication.FollowConfig // of each source; its URL is replaced
	URLs   []string                 // base URLs of the sources, the preferred one first; at least one

	Patience time.Duration // without news from a source until others are asked; 1.75 s
	Health   time.Duration // of the first source until it is followed again; 30 s
	Limit    time.Duration // for one answer; 1 s
	Logger   *slog.Logger
}

// lostAfter is the number of connections in a row that bring nothing, after which no
// patience is left: the source is down, and a caller may wait for edges to have a change.
const lostAfter = 2

// busyFactor multiplies the patience while a snapshot or a repair is under way, because
// another source begins it again.
const busyFactor = 5

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
	at    int       // index of the source that is followed
	since time.Time // when that began

	// The goroutine of Run owns the rest.
	headAt  int64     // time of the newest head, by the origin's clock
	movedAt time.Time // when headAt moved
	askedAt time.Time // when other sources were asked last
	first   firstSource
}

// firstSource is the state of the first source while another one is followed.
type firstSource struct {
	askedAt   time.Time
	headAt    int64     // of its last answer, by the origin's clock
	wellSince time.Time // zero: its last answer was no good one
}

// New makes a chooser that begins with the first source.
func New(cfg Config) *Chooser {
	cfg.Patience = cmp.Or(cfg.Patience, 1750*time.Millisecond)
	cfg.Health = cmp.Or(cfg.Health, 30*time.Second)
	cfg.Limit = cmp.Or(cfg.Limit, time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return &Chooser{cfg: cfg, since: time.Now()}
}

// Follow returns the configuration of the next follower, with the status of the last one.
func (c *Chooser) Follow(before replication.Status) replication.FollowConfig {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config(c.at, before)
}

func (c *Chooser) config(source int, before replication.Status) replication.FollowConfig {
	cfg := c.cfg.Follow
	cfg.URL, cfg.Before = c.cfg.URLs[source], before
	return cfg
}

// URL returns the base URL of the source that is followed.
func (c *Chooser) URL() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg.URLs[c.at]
}

// Run chooses until ctx ends.
func (c *Chooser) Run(ctx context.Context, f Following) {
	if len(c.cfg.URLs) < 2 {
		return
	}
	ticker := time.NewTicker(c.cfg.Patience / 8)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		st := f.Status()
		switch now := time.Now(); {
		case c.isSilent(&st, now):
			if next := c.findNews(ctx, &st); next >= 0 {
				c.cfg.Logger.Warn("following another source, because this one is gone or does not advance", "from", c.URL(), "url", c.cfg.URLs[next])
				c.change(ctx, f, next)
			}
			c.askedAt = time.Now()
		case c.isFirstWell(ctx, &st, now):
			c.cfg.Logger.Info("following the first source again", "url", c.cfg.URLs[0])
			c.change(ctx, f, 0)
		}
	}
}

// isSilent reports whether the source refuses connections, or has brought no news for
// longer than the patience. A busy source counts as heard.
func (c *Chooser) isSilent(st *replication.Status, now time.Time) bool {
	if at := st.Head.At; at != c.headAt {
		c.headAt, c.movedAt = at, now
	}
	patience := c.cfg.Patience
	all := []time.Time{st.Wait.HeardAt, c.since, c.movedAt}
	switch {
	case st.Restoring || st.Repairing:
		patience *= busyFactor
	case !st.Connected && st.Failures >= lostAfter:
		all = all[:1]
	}
	for _, heard := range all {
		if now.Sub(heard) < patience {
			return false
		}
	}
	return now.Sub(c.askedAt) >= c.cfg.Patience/2
}

// findNews asks all other sources at once, and returns the most preferred one that has
// news; -1: none has.
func (c *Chooser) findNews(ctx context.Context, st *replication.Status) int {
	news := make([]bool, len(c.cfg.URLs))
	var all sync.WaitGroup
	for i := range news {
		if i != c.at {
			all.Go(func() { news[i] = c.hasNews(ctx, i, st) })
		}
	}
	all.Wait()
	for i := range news {
		if news[i] {
			return i
		}
	}
	return -1
}

// hasNews reports whether a source knows more than the status says.
func (c *Chooser) hasNews(ctx context.Context, source int, st *replication.Status) bool {
	p, err := c.ask(ctx, source, st)
	if err != nil {
		return false
	}
	if its, known := p.Head.Position.Epoch.Ordinal, st.Head.Position.Epoch.Ordinal; its != known {
		return its > known
	}
	return p.Origin.At > st.Head.At && c.isLevel(&p)
}

// isFirstWell asks the first source now and then while another one is followed. It
// reports whether all answers have been good and new for as long as Health.
func (c *Chooser) isFirstWell(ctx context.Context, st *replication.Status, now time.Time) bool {
	first := &c.first
	if c.at == 0 || st.Restoring || st.Repairing || now.Sub(first.askedAt) < c.cfg.Health/6 {
		return false
	}
	first.askedAt = now
	p, err := c.ask(ctx, 0, st)
	if err != nil || p.Origin.At <= first.headAt || !c.isLevel(&p) {
		first.wellSince = time.Time{}
		return false
	}
	first.headAt = p.Origin.At
	if first.wellSince.IsZero() {
		first.wellSince = now
	}
	return now.Sub(first.wellSince) >= c.cfg.Health
}

// isLevel reports whether a source has all that this edge has. A control plane has, and a
// relay may be behind.
func (c *Chooser) isLevel(p *replication.Probe) bool {
	at, own := p.Head.Position, c.cfg.Follow.Sink.Position()
	return len(p.Via) == 0 || at.Epoch != own.Epoch || at.Seq >= own.Seq
}

// ask connects to a source without following it.
func (c *Chooser) ask(ctx context.Context, source int, st *replication.Status) (replication.Probe, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Limit)
	defer cancel()
	return replication.Look(ctx, c.config(source, *st))
}

// change follows another source from now on.
func (c *Chooser) change(ctx context.Context, f Following, source int) {
	c.mu.Lock()
	c.at, c.since = source, time.Now()
	c.mu.Unlock()
	c.first = firstSource{}
	if err := f.Renew(ctx); err != nil && ctx.Err() == nil {
		c.cfg.Logger.Error("cannot follow another source", "error", err)
	}
}
