package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

// Fleet tells which edges there are. It must not block.
type Fleet interface {
	Edges() []controlplane.EdgeStatus
}

type edgesOutput struct{ Body edgeList }

type edgeList struct {
	Edges []edge `json:"edges" nullable:"false" doc:"By region and node."`
}

type edge struct {
	Node          string     `json:"node"`
	Region        string     `json:"region"`
	Role          string     `json:"role" enum:"edge,relay," doc:"Relay: an edge that others follow instead of the control plane. Empty when unknown."`
	State         string     `json:"state" enum:"alive,silent,gone" doc:"Silent: not seen for more than 3 seconds. Gone: left on purpose, or not seen for more than 10 minutes."`
	Since         time.Time  `json:"since" doc:"When the state began. For an edge that is not seen, since when."`
	LastSeen      time.Time  `json:"last_seen"`
	Via           string     `json:"via" enum:"report,gossip,record" doc:"How this is known: from the edge itself; while it does not reach the control plane, as a hint from other nodes; or from what was noted when it last reported, to another control plane or before this one was started."`
	Position      *seqInLog  `json:"position" doc:"Up to where the edge has the changelog; null without a replica, and when unknown."`
	LagChanges    *uint64    `json:"lag_changes" doc:"Transactions that the edge does not have yet; null when unknown."`
	LagSeconds    *float64   `json:"lag_seconds" doc:"For how long it has not had the oldest of them, at least; null when unknown."`
	LastAppliedAt *time.Time `json:"last_applied_at" doc:"When the position was reached, by the edge's clock; null when unknown."`
	StartedAt     *time.Time `json:"started_at" doc:"By the edge's clock; null when unknown."`
	ClicksPending *int64     `json:"clicks_pending" doc:"Clicks in the edge's journal that are not counted here yet; null when unknown."`
	ClicksUntil   *time.Time `json:"clicks_until" doc:"The edge's clicks before that, by its clock, are counted here; null when unknown."`
	Replica       string     `json:"replica" enum:"following,waiting,restoring,repairing,held,degraded," doc:"What the replica does: follows; waits for a source, or for its turn to take a snapshot; is filled by a snapshot; has slots replaced; holds back what it was asked to do; takes no changes, as its disk has failed or is almost full. It serves all the while. Empty when unknown."`
	Held          string     `json:"held" doc:"What is held until it is accepted: mass-delete, empty-snapshot or record. Empty when nothing is."`
	HeldWhy       string     `json:"held_why" doc:"In words; may be empty."`
	DiskLow       bool       `json:"disk_low" doc:"Changes of links wait until the edge's disk has room: see edge.min_free_disk. Redirects and clicks go on."`
	Verified      *verified  `json:"verified" doc:"The last comparison with PostgreSQL; null when there was none."`
	Version       string     `json:"version" doc:"Of the software."`
	Addr          string     `json:"addr" doc:"HOST:PORT of the redirects; may be empty."`
	AdminAddr     string     `json:"admin_addr" doc:"HOST:PORT of the admin listener; may be empty."`
	Credential    *string    `json:"credential" enum:"own,shared,revoked" doc:"How the edge proves who it is: by a credential of its own, or by the token that all may have; or its own was revoked. Null when unknown."`
}

type verified struct {
	At        time.Time `json:"at"`
	Different int       `json:"different" doc:"Slots that were different."`
	Repaired  int       `json:"repaired" doc:"Of these, that are so no more."`
	Error     string    `json:"error" doc:"Why it was not done, or not to the end; may be empty."`
}

type seqInLog struct {
	Epoch uint32 `json:"epoch" doc:"Ordinal of the history. Positions of different epochs cannot be compared."`
	Seq   uint64 `json:"seq"`
}

func (s *server) registerFleet() {
	if s.fleet == nil {
		return
	}
	handle(s, huma.Operation{
		OperationID: "list-edges",
		Method:      http.MethodGet,
		Path:        "/api/admin/edges",
		Summary:     "List the edges: who is alive, where, and how far behind",
		Security:    s.needs(controlplane.ScopeAdmin),
		Responses:   problems(401, 403),
	}, s.edges)
}

func (s *server) edges(ctx context.Context, _ *struct{}) (*edgesOutput, error) {
	// The fleet is the installation's, and no tenant's.
	if actorFrom(ctx).Workspace != waypost.DefaultWorkspace {
		return nil, waypost.Errorf(waypost.EForbidden, "the fleet is shown to keys of the default workspace only")
	}
	all := s.fleet.Edges()
	out := &edgesOutput{Body: edgeList{Edges: make([]edge, len(all))}}
	revoked := s.revokedEdges(ctx)
	for i := range all {
		if revoked[all[i].Node] {
			all[i].Credential = controlplane.CredentialRevoked
		}
		out.Body.Edges[i] = showEdge(&all[i])
		if s.orders == nil {
			continue
		}
		if o, ok := s.orders.Verified(all[i].Node); ok {
			out.Body.Edges[i].Verified = &verified{At: o.DoneAt.UTC(), Different: o.Outcome.Different, Repaired: o.Outcome.Repaired, Error: o.Outcome.Error}
		}
	}
	return out, nil
}

// revokedEdges gives the edges whose credentials are revoked, as far as is known: the
// fleet is shown also while the database is away.
func (s *server) revokedEdges(ctx context.Context) map[string]bool {
	revoked := map[string]bool{}
	if s.nodes == nil {
		return revoked
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	all, err := s.nodes.Credentials(ctx, actorFrom(ctx))
	if err != nil {
		s.log.WarnContext(ctx, "which credentials of edges are revoked is not known", slog.Any("error", err))
	}
	for i := range all {
		revoked[all[i].Node] = !all[i].RevokedAt.IsZero()
	}
	return revoked
}

func showEdge(e *controlplane.EdgeStatus) edge {
	shown := edge{
		Node: e.Node, Region: string(e.Region), Role: e.Role, State: string(e.State), Since: e.Since.UTC(), LastSeen: e.LastSeen.UTC(),
		Via: string(e.Via), LastAppliedAt: momentOf(e.LastAppliedAt), StartedAt: momentOf(e.StartedAt), ClicksUntil: momentOf(e.ClicksUntil),
		Replica: string(e.Replica), Held: e.Held, HeldWhy: e.HeldWhy, DiskLow: e.DiskLow, Version: e.Version, Addr: e.Addr, AdminAddr: e.AdminAddr,
	}
	if !e.Position.IsZero() {
		shown.Position = &seqInLog{Epoch: e.Position.Epoch.Ordinal, Seq: e.Position.Seq}
	}
	if e.LagKnown {
		seconds := e.Lag.Age.Seconds()
		shown.LagChanges, shown.LagSeconds = &e.Lag.Changes, &seconds
	}
	if e.Credential != "" {
		state := string(e.Credential)
		shown.Credential = &state
	}
	if e.ClicksPending >= 0 {
		shown.ClicksPending = &e.ClicksPending
	}
	return shown
}
