package peers

import (
	"context"
	"time"

	"waypost/replication"
)

// mostPatience bounds the patience with a home that is connected, which doubles at each
// change, so that an edge does not go to and fro between homes that stumble. One that has
// been well for as long as steady restores it.
const (
	mostPatience = 15 * time.Second
	steady       = time.Minute
	// busyFactor multiplies the patience while slots are replaced, because a change of the
	// home begins that again.
	busyFactor = 5
)

// changeHome follows another home when the present one brings no news and the other one
// has some. An edge stays with its new home, because all are equal. It reports whether it
// has changed.
func (c *Chooser) changeHome(ctx context.Context, f Following, st *replication.Status) bool {
	if len(c.cfg.Homes) < 2 {
		return false
	}
	now := time.Now()
	if at := st.Head.At; at != c.heardAt {
		c.heardAt, c.movedAt = at, now
	}
	c.mu.Lock()
	home, since := c.home, c.since
	c.mu.Unlock()
	if c.movedAt.Sub(since) > steady {
		c.patience = c.cfg.Swift
	}
	heard := latest(since, c.movedAt, st.Wait.HeardAt)
	patience := c.cfg.Swift
	switch {
	case st.Restoring || st.Repairing:
		patience *= busyFactor
	case st.Connected:
		patience = c.patience
	}
	if now.Sub(heard) < patience || now.Sub(c.asked) < c.cfg.Swift/2 {
		return false
	}
	other := c.otherHome(ctx, home, st)
	c.asked = time.Now()
	if other < 0 {
		return false
	}
	c.patience = min(2*c.patience, mostPatience)
	c.cfg.Logger.Warn("a control plane is gone or does not advance: following another", "from", c.cfg.Homes[home], "url", c.cfg.Homes[other])
	c.settle(other)
	if err := f.Renew(ctx); err != nil && ctx.Err() == nil {
		c.cfg.Logger.Error("another source cannot be followed", "error", err)
	}
	return true
}

// settle makes a home the present one.
func (c *Chooser) settle(home int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.home, c.since = home, time.Now()
}

func latest(times ...time.Time) (newest time.Time) {
	for _, t := range times {
		if t.After(newest) {
			newest = t
		}
	}
	return newest
}

// otherHome asks all other homes at once, and returns the first that has news; -1: none
// has.
func (c *Chooser) otherHome(ctx context.Context, present int, st *replication.Status) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan int)
	asked := 0
	for i := range c.cfg.Homes {
		if i == present {
			continue
		}
		asked++
		go func() {
			answer := -1
			if c.hasNews(ctx, i, st) {
				answer = i
			}
			answers <- answer
		}()
	}
	found := -1
	for range asked {
		if answer := <-answers; answer >= 0 && found < 0 {
			found = answer
			cancel()
		}
	}
	return found
}

// hasNews asks a home, and reports whether it knows more than the status says. A relay
// must have all that this edge has.
func (c *Chooser) hasNews(ctx context.Context, home int, st *replication.Status) bool {
	cfg := c.at(home)
	cfg.Before = *st
	p, err := c.ask(ctx, cfg)
	if err != nil {
		return false
	}
	at, own := p.Head.Position, c.cfg.Home.Sink.Position()
	if at.Epoch.Ordinal != st.Head.Position.Epoch.Ordinal {
		return at.Epoch.Ordinal > st.Head.Position.Epoch.Ordinal
	}
	return p.Origin.At > st.Head.At && (len(p.Via) == 0 || at.Epoch != own.Epoch || at.Seq >= own.Seq)
}
