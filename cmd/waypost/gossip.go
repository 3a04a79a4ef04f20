package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/controlplane"
	"waypost/edge/gossip"
	"waypost/internal/config"
)

// gossiper is a node's part in the gossip; nil: it takes none.
type gossiper struct{ *gossip.Gossip }

// self is what a node tells of itself.
type self struct {
	node     string
	region   waypost.Region
	role     gossip.Role
	boot     waypost.BootID
	addr     string
	peer     string // where other edges may follow it; "": they may not
	position func() waypost.Position
}

// newBoot names one start of a node.
func newBoot() (boot waypost.BootID) {
	_, _ = rand.Read(boot[:]) // never fails, and ends the process where there is no randomness
	return boot
}

func startGossip(cfg config.Gossip, me self, registry *prometheus.Registry, log *slog.Logger) (*gossiper, error) {
	if cfg.Addr == "" {
		return nil, nil //nolint:nilnil // a node need not gossip
	}
	key, err := gossip.ParseKey(cfg.Key.Reveal())
	if err != nil {
		return nil, fmt.Errorf("gossip.key: %w", err)
	}
	g, err := gossip.Start(gossip.Config{
		Bind: cfg.Addr, Advertise: cfg.Advertise, Seeds: cfg.Seeds, Key: key,
		Node: me.node, Region: me.region, Role: me.role, Boot: me.boot, Addr: me.addr, Peer: me.peer, Version: productVersion(),
		Position: me.position, Logger: log, Metrics: registry,
	})
	if err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	return &gossiper{g}, nil
}

// handler shows the members, nil when there is no gossip.
func (g *gossiper) handler() http.Handler {
	if g == nil {
		return nil
	}
	return g.Gossip
}

// leave says goodbye, so that others do not take the end for a failure.
func (g *gossiper) leave(ctx context.Context, log *slog.Logger) {
	if g == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := g.Leave(ctx); err != nil {
		log.Debug("leave the gossip", "error", err)
	}
	if err := g.Close(); err != nil {
		log.Debug("close the gossip", "error", err)
	}
}

// hints are what gossip knows of edges, for the fleet view.
func (g *gossiper) hints() []controlplane.FleetHint {
	if g == nil {
		return nil
	}
	var hints []controlplane.FleetHint
	for _, m := range g.Members() {
		if m.Role != gossip.RoleEdge {
			continue
		}
		hints = append(hints, controlplane.FleetHint{
			Node: m.Node, Region: m.Region, Role: string(m.Role), Boot: m.Boot, Addr: m.Addr, Version: m.Version,
			Position: m.Position, StartedAt: m.Started, LastHeard: m.LastHeard, Since: m.Since,
			Alive: m.State == gossip.StateAlive, Left: m.State == gossip.StateLeft,
		})
	}
	return hints
}
