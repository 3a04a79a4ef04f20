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
	Credential    *string    `json:"credential"` // "own", "shared" or "revoked"
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

// NewEnrolment is a wish for a token with which an edge enrols.
type NewEnrolment struct {
	Region    string `json:"region"`
	Role      string `json:"role,omitempty"`
	Node      string `json:"node,omitempty"`
	Label     string `json:"label,omitempty"`
	ExpiresIn int64  `json:"expires_in_seconds,omitempty"`
}

// Enrolment is a token that was made.
type Enrolment struct {
	Token     string    `json:"token"`
	Region    string    `json:"region"`
	Role      string    `json:"role"`
	Node      string    `json:"node"`
	Label     string    `json:"label"`
	ExpiresAt time.Time `json:"expires_at"`
}

// EnrolEdge makes a token.
func (c *Client) EnrolEdge(ctx context.Context, n NewEnrolment) (made Enrolment, err error) {
	return made, c.do(ctx, http.MethodPost, "/api/admin/edge-enrolments", n, &made)
}

// EdgeCredential is the newest credential of an edge.
type EdgeCredential struct {
	Node       string     `json:"node"`
	Region     string     `json:"region"`
	Role       string     `json:"role"`
	State      string     `json:"state"` // "good" or "revoked"
	Former     []string   `json:"former_names"`
	CreatedAt  time.Time  `json:"created_at"`
	LastSeenAt *time.Time `json:"last_seen_at"`
	RevokedAt  *time.Time `json:"revoked_at"`
}

// EdgeCredentials lists the credentials of edges, by name.
func (c *Client) EdgeCredentials(ctx context.Context) ([]EdgeCredential, error) {
	var answer struct {
		Credentials []EdgeCredential `json:"credentials"`
	}
	err := c.do(ctx, http.MethodGet, "/api/admin/edge-credentials", nil, &answer)
	return answer.Credentials, err
}

// RevokeEdge revokes the credential of an edge.
func (c *Client) RevokeEdge(ctx context.Context, node string) error {
	return c.do(ctx, http.MethodDelete, "/api/admin/edge-credentials/"+url.PathEscape(node), nil, nil)
}

// Edges lists all edges that the control plane knows, by region and node.
func (c *Client) Edges(ctx context.Context) ([]Edge, error) {
	var answer struct {
		Edges []Edge `json:"edges"`
	}
	err := c.do(ctx, http.MethodGet, "/api/admin/edges", nil, &answer)
	return answer.Edges, err
}
