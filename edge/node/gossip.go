package node

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"waypost/edge/gossip"
)

// gossiper is the edge's part in the gossip.
type gossiper struct {
	cfg   gossip.Config
	log   *slog.Logger
	stays func() bool                   // this edge is back in a moment, and says no goodbye
	now   atomic.Pointer[gossip.Gossip] // nil: there is no gossip, or not yet
}

func newGossiper(cfg gossip.Config, stays func() bool, log *slog.Logger) *gossiper {
	return &gossiper{cfg: cfg, stays: stays, log: log}
}

func (e *edge) gossipConfig() gossip.Config {
	c := e.cfg.Gossip
	c.Node, c.Region, c.Role, c.Boot, c.Version = e.store.node, e.cfg.Region, gossip.RoleEdge, e.boot, e.cfg.Version
	c.Addr, c.Position = e.listeners.plain[0].Addr().String(), e.store.Synced
	c.Logger, c.Metrics = e.log, e.registry
	c.Receive = func(message []byte) { e.blocks.Hear(message) }
	return c
}

// run joins the gossip, and leaves it when ctx ends. An edge that cannot join
// serves without it, and tries again.
func (g *gossiper) run(ctx context.Context) {
	if g.cfg.Bind == "" {
		return
	}
	for failures := 0; ; failures++ {
		now, err := gossip.Start(g.cfg)
		if err == nil {
			g.now.Store(now)
			break
		}
		g.log.Log(ctx, levelOf(failures, slog.LevelError), "cannot gossip; this edge serves without, and tries again", "error", err, "failures", failures+1)
		if !pauseAfter(ctx, failures) {
			return
		}
	}
	<-ctx.Done()
	g.leave(context.WithoutCancel(ctx))
}

// pass passes a block on.
func (g *gossiper) pass(encoded []byte) {
	if now := g.now.Load(); now != nil {
		now.Pass(encoded)
	}
}

// ServeHTTP answers with the members.
func (g *gossiper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if now := g.now.Load(); now != nil {
		now.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

// leave says goodbye, so that others do not take the end for a failure, unless this edge
// only restarts.
func (g *gossiper) leave(ctx context.Context) {
	now := g.now.Load()
	if now == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if !g.stays() {
		if err := now.Leave(ctx); err != nil {
			g.log.Debug("cannot leave the gossip", "error", err)
		}
	}
	if err := now.Close(); err != nil {
		g.log.Debug("cannot close the gossip", "error", err)
	}
}
