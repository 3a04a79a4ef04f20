package node

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"waypost/controlplane/fleet"
	"waypost/edge/gossip"
)

// gossiper is the control plane's part in the gossip. A nil gossiper takes no part.
type gossiper struct {
	*gossip.Gossip
	log *slog.Logger
}

func (c *control) startGossip() (*gossiper, error) {
	cfg := c.cfg.Gossip
	if cfg.Bind == "" {
		return nil, nil //nolint:nilnil // a control plane need not gossip
	}
	_, _ = rand.Read(cfg.Boot[:]) // never fails, and ends the process where there is no randomness
	cfg.Node, cfg.Region, cfg.Role, cfg.Version = c.cfg.Node, c.cfg.Region, gossip.RoleControl, c.cfg.Version
	cfg.Addr, cfg.Logger, cfg.Metrics, cfg.Receive = c.ln.Addr().String(), c.log, c.registry, c.hearBlock
	g, err := gossip.Start(cfg)
	if err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	return &gossiper{g, c.log}, nil
}

// handler answers with the members; nil when there is no gossip.
func (g *gossiper) handler() http.Handler {
	if g == nil {
		return nil
	}
	return g.Gossip
}

// leave says goodbye, so that others do not take the end for a failure.
func (g *gossiper) leave() error {
	if g == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := g.Leave(ctx); err != nil {
		g.log.Debug("cannot leave the gossip", "error", err)
	}
	if err := g.Close(); err != nil {
		g.log.Debug("cannot close the gossip", "error", err)
	}
	return nil
}

// hints returns the edges that gossip knows, for the fleet view.
func (g *gossiper) hints() []fleet.FleetHint {
	if g == nil {
		return nil
	}
	var hints []fleet.FleetHint
	for _, m := range g.Members() {
		if m.Role != gossip.RoleEdge {
			continue
		}
		hints = append(hints, fleet.FleetHint{
			Node: m.Node, Region: m.Region, Role: string(m.Role), Boot: m.Boot, Addr: m.Addr, Version: m.Version,
			Position: m.Position, StartedAt: m.Started, LastHeard: m.LastHeard, Since: m.Since,
			Alive: m.State == gossip.StateAlive, Left: m.State == gossip.StateLeft,
		})
	}
	return hints
}
