package httpapi

import (
	"context"
	"net/http"

	"waypost/api"
	"waypost/controlplane"
)

// Cleanup reports the work of the reapers of all control planes.
type Cleanup interface {
	CleanupStats(ctx context.Context) (controlplane.CleanupStats, error)
}

// adminAPI serves the audit log and the state of the clean-up.
type adminAPI struct {
	workspaces Workspaces
	cleanup    Cleanup
}

type auditInput struct {
	All    bool   `query:"all" doc:"Entries of all workspaces. For operators."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"How many entries at most."`
	Cursor string `query:"cursor" doc:"The next_cursor of the previous page. Default: the newest entries."`
}

type auditOutput struct{ Body api.AuditPage }

type cleanupOutput struct{ Body api.CleanupStats }

func registerAdmin(rt *router, a *adminAPI) {
	admin := []controlplane.Scope{controlplane.ScopeAdmin}
	handle(rt, operation{
		id: "list-audit", method: http.MethodGet, path: api.PathAudit, summary: "List the acts of the workspace's administrators", scopes: admin,
	}, a.audit)
	handle(rt, operation{
		id: "cleanup-stats", method: http.MethodGet, path: api.PathCleanup,
		summary: "Get the removal of expired links, on all control planes together", scopes: admin,
	}, a.cleanupStats)
}

func (a *adminAPI) audit(ctx context.Context, in *auditInput) (*auditOutput, error) {
	entries, next, err := a.workspaces.Audit(ctx, actorFrom(ctx), in.All, in.Limit, in.Cursor)
	if err != nil {
		return nil, err
	}
	shown := make([]api.AuditEntry, len(entries))
	for i, e := range entries {
		shown[i] = api.AuditEntry{ID: e.ID, At: e.At.UTC(), Actor: e.Actor, Action: e.Action, Subject: e.Subject, Workspace: e.Workspace}
		if len(e.Detail) > 0 {
			shown[i].Detail = e.Detail
		}
	}
	return &auditOutput{api.AuditPage{Entries: shown, Next: next}}, nil
}

func (a *adminAPI) cleanupStats(ctx context.Context, _ *struct{}) (*cleanupOutput, error) {
	if err := actorFrom(ctx).CheckOperator(); err != nil {
		return nil, err
	}
	c, err := a.cleanup.CleanupStats(ctx)
	if err != nil {
		return nil, err
	}
	return &cleanupOutput{api.CleanupStats{
		LastCleanupTime: moment(c.LastRun), TotalCleaned: c.TotalCleaned, LastBatchSize: c.LastBatch,
		SuccessfulRuns: c.Successful, FailedRuns: c.Failed, AverageCleanupMS: c.AverageMillis, IsRunning: c.Running, Backlog: c.Backlog,
	}}, nil
}
