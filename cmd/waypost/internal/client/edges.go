package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Edge is an edge as the API shows it.
type Edge struct {
	Node          string     `json:"node"`
	Region        string     `json:"region"`
	Role          string     `json:"role"`
	State         string     `json:"state"` // "alive", "silent" or "gone"
	Since         time.Time  `json:"since"`
	LastSeen      time.Time  `json:"last_seen"`
	Via           string     `json:"via"` // "report", or "gossip" for a hint
	Position      *Position  `json:"position"`
	LagChanges    *uint64    `json:"lag_changes"`
	LagSeconds    *float64   `json:"lag_seconds"`
	LastAppliedAt *time.Time `json:"last_applied_at"`
	StartedAt     *time.Time `json:"started_at"`
	ClicksPending *int64     `json:"clicks_pending"`
	ClicksUntil   *time.Time `json:"clicks_until"`
	Version       string     `json:"version"`
	Addr          string     `json:"addr"`
	AdminAddr     string     `json:"admin_addr"`
}

// Position is a place in the changelog.
type Position struct {
	Epoch uint32 `json:"epoch"`
	Seq   uint64 `json:"seq"`
}

// GiveUpEdge says that an edge is gone for good.
func (c *Client) GiveUpEdge(ctx context.Context, node string) error {
	return c.do(ctx, http.MethodDelete, "/api/admin/edges/"+url.PathEscape(node), nil, nil)
}

// Edges lists all edges that the control plane knows, by region and node.
func (c *Client) Edges(ctx context.Context) ([]Edge, error) {
	var answer struct {
		Edges []Edge `json:"edges"`
	}
	err := c.do(ctx, http.MethodGet, "/api/admin/edges", nil, &answer)
	return answer.Edges, err
}
