package client

import (
	"context"
	"fmt"
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
	Via           string     `json:"via"` // "report"; "gossip" for a hint; "record" for what was noted
	Position      *Position  `json:"position"`
	LagChanges    *uint64    `json:"lag_changes"`
	LagSeconds    *float64   `json:"lag_seconds"`
	LastAppliedAt *time.Time `json:"last_applied_at"`
	StartedAt     *time.Time `json:"started_at"`
	ClicksPending *int64     `json:"clicks_pending"`
	ClicksUntil   *time.Time `json:"clicks_until"`
	Replica       string     `json:"replica"` // "following", "waiting", "restoring", "repairing", "held", "degraded" or ""
	Held          string     `json:"held"`
	HeldWhy       string     `json:"held_why"`
	DiskLow       bool       `json:"disk_low"`
	Verified      *Verified  `json:"verified"`
	Version       string     `json:"version"`
	Addr          string     `json:"addr"`
	AdminAddr     string     `json:"admin_addr"`
	Credential    *string    `json:"credential"` // "own", "shared" or "revoked"
}

// Verified is what the last comparison of an edge has found.
type Verified struct {
	At        time.Time `json:"at"`
	Different int       `json:"different"`
	Repaired  int       `json:"repaired"`
	Error     string    `json:"error"`
}

// EdgeOrder is what was asked of an edge.
type EdgeOrder struct {
	ID      int64        `json:"id"`
	Node    string       `json:"node"`
	What    string       `json:"what"`
	Outcome *EdgeOutcome `json:"outcome"` // nil: the edge has not answered yet
}

// EdgeOutcome is what came of it.
type EdgeOutcome struct {
	Error       string       `json:"error"`
	Accepted    string       `json:"accepted"`
	Slots       int          `json:"slots"`
	Records     uint64       `json:"records"`
	Different   int          `json:"different"`
	Repaired    int          `json:"repaired"`
	Position    *Position    `json:"position"`
	Seconds     float64      `json:"seconds"`
	Differences []Difference `json:"differences"`
}

// Difference is a record of an edge that is not what PostgreSQL has.
type Difference struct {
	Slot   uint16 `json:"slot"`
	Kind   uint8  `json:"kind"`
	Domain uint32 `json:"domain"`
	Name   string `json:"name"`
	What   string `json:"what"`
	Edge   string `json:"edge"`
	Source string `json:"source"`
}

// VerifyEdge asks an edge to compare itself with PostgreSQL.
func (c *Client) VerifyEdge(ctx context.Context, node string, repair bool) (o EdgeOrder, err error) {
	err = c.do(ctx, http.MethodPost, "/api/admin/edges/"+url.PathEscape(node)+"/verifications", map[string]bool{"repair": repair}, &o)
	return o, err
}

// AcceptEdge lets an edge take what it holds; what "" is anything.
func (c *Client) AcceptEdge(ctx context.Context, node, what string) (o EdgeOrder, err error) {
	in := map[string]string{}
	if what != "" {
		in["what"] = what
	}
	err = c.do(ctx, http.MethodPost, "/api/admin/edges/"+url.PathEscape(node)+"/acceptances", in, &o)
	return o, err
}

// AwaitOrder waits until an edge has answered an order, or ctx ends.
func (c *Client) AwaitOrder(ctx context.Context, o EdgeOrder) (EdgeOrder, error) {
	for o.Outcome == nil {
		select {
		case <-ctx.Done():
			return o, ctx.Err()
		case <-time.After(orderPause):
		}
		path := fmt.Sprintf("/api/admin/edges/%s/orders/%d", url.PathEscape(o.Node), o.ID)
		if err := c.do(ctx, http.MethodGet, path, nil, &o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// orderPause is the time between looks at an order.
const orderPause = 250 * time.Millisecond

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
