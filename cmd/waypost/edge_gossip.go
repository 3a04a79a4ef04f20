package main

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"waypost/internal/config"
)

// edgeGossip is an edge's part in the gossip, which begins no sooner than a
// predecessor's has ended: both have the same address.
type edgeGossip struct {
	cfg      config.Gossip
	self     self
	registry *prometheus.Registry
	log      *slog.Logger
	now      atomic.Pointer[gossiper]
}

// start joins. An edge that cannot serves all the same.
func (g *edgeGossip) start() {
	now, err := startGossip(g.cfg, g.self, g.registry, g.log)
	if err != nil {
		g.log.Error("this edge serves without gossip", "error", err)
	}
	if now != nil {
		g.now.Store(now)
	}
}

// ServeHTTP shows the members.
func (g *edgeGossip) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := g.now.Load().handler(); h != nil {
		h.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

// leave says goodbye, if there is anybody to say it to.
func (g *edgeGossip) leave(ctx context.Context) { g.now.Load().leave(ctx, g.log) }
