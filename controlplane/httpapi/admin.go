package httpapi

import (
	"context"
	"net/http"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// Cleanup reports the work of the reapers of all control planes.
type Cleanup interface {
	CleanupStats(ctx context.Context) (api.CleanupStats, error)
}

// Digests compares the changelog's digest with the rows. EForbidden: the actor is not an
// operator.
type Digests interface {
	State(ctx context.Context, actor controlplane.Actor) (controlplane.DigestState, error)
	Check(ctx context.Context, actor controlplane.Actor, recompute bool) (controlplane.DigestState, error)
}

// adminAPI serves the audit log, and the states of the clean-up and of the digest.
type adminAPI struct {
	workspaces Workspaces
	cleanup    Cleanup
	digests    Digests
	node       string
}

type auditInput struct {
	All    bool   `query:"all" doc:"Entries of all workspaces. For operators."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"How many entries at most."`
	Cursor string `query:"cursor" doc:"The next_cursor of the previous page. Default: the newest entries."`
}

func registerAdmin(rt *router, a *adminAPI) {
	admin := []controlplane.Scope{controlplane.ScopeAdmin}
	handle(rt, operation{
		id: "list-audit", method: http.MethodGet, path: api.PathAudit, summary: "List the acts of the workspace's administrators", scopes: admin,
	}, func(ctx context.Context, in *auditInput) (*body[api.AuditPage], error) {
		return answered(a.workspaces.Audit(ctx, actorFrom(ctx), in.All, in.Limit, in.Cursor))
	})
	handle(rt, operation{
		id: "cleanup-stats", method: http.MethodGet, path: api.PathCleanup,
		summary: "Get the removal of expired links, on all control planes together", scopes: admin,
	}, a.cleanupStats)
	handle(rt, operation{
		id: "get-digest", method: http.MethodGet, path: api.PathDigest,
		summary: "Get whether PostgreSQL's rows add up to the changelog's digest", scopes: admin,
	}, func(ctx context.Context, _ *struct{}) (*body[api.Digest], error) {
		return a.digestOf(a.digests.State(ctx, actorFrom(ctx)))
	})
	handle(rt, operation{
		id: "check-digest", method: http.MethodPost, path: api.PathDigest, summary: "Add PostgreSQL's rows up, and compare them with the changelog's digest",
		description: "Reads all replicated rows as of one moment. A comparison that takes longer than a request continues, and `running` is true. " +
			"With recompute, a wrong digest is replaced in a new epoch, while writes wait; that is in the audit log.",
		scopes: admin,
	}, func(ctx context.Context, in *body[api.CheckDigest]) (*body[api.Digest], error) {
		return a.digestOf(a.digests.Check(ctx, actorFrom(ctx), in.Body.Recompute))
	})
}

func (a *adminAPI) cleanupStats(ctx context.Context, _ *struct{}) (*body[api.CleanupStats], error) {
	if err := actorFrom(ctx).CheckOperator(); err != nil {
		return nil, err
	}
	return answered(a.cleanup.CleanupStats(ctx))
}

func (a *adminAPI) digestOf(s controlplane.DigestState, err error) (*body[api.Digest], error) {
	if err != nil {
		return nil, err
	}
	d := &s.Digest
	out := bodyOf(api.Digest{ControlPlane: a.node, Running: s.Running, CheckedAt: moment(d.At), Records: d.Records})
	if s.Err != nil {
		out.Body.Error = textOrNull(waypost.MessageOf(s.Err))
	}
	if !d.At.IsZero() {
		out.Body.Equal = known(!d.Differs(), true)
		out.Body.Position = &api.Sequence{Epoch: d.Position.Epoch.Ordinal, Seq: d.Position.Seq}
		out.Body.Digest, out.Body.Rows = controlplane.DigestText(d.Head), controlplane.DigestText(d.Rows)
	}
	return out, nil
}
