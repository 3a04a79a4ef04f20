package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost/controlplane"
)

type auditInput struct {
	All    bool   `query:"all" doc:"Of all workspaces. For operators."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"How many entries at most."`
	Cursor string `query:"cursor" doc:"The next_cursor of the page before. Left out: the newest entries."`
}

type auditOutput struct{ Body auditPage }

type auditPage struct {
	Entries    []auditEntry `json:"entries" nullable:"false" doc:"Newest first."`
	NextCursor string       `json:"next_cursor" doc:"Empty on the last page."`
}

// auditEntry is an administrative act that was done.
type auditEntry struct {
	ID      int64     `json:"id"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor" doc:"Name and number of the API key or user."`
	Action  string    `json:"action" example:"ranges.move"`
	Subject string    `json:"subject" example:"range 7" doc:"What it was done to."`
	Detail  metadata  `json:"detail" doc:"With which arguments. Never holds a secret."`

	Workspace string `json:"workspace" doc:"Slug of the workspace."`
}

func (s *server) registerAudit() {
	if s.keys == nil {
		return
	}
	handle(s, huma.Operation{
		OperationID: "list-audit",
		Method:      http.MethodGet,
		Path:        "/api/admin/audit",
		Summary:     "List what administrators of the workspace did",
		Security:    s.needs(controlplane.ScopeAdmin),
		Responses:   problems(400, 401, 403, 422),
	}, s.audit)
}

func (s *server) audit(ctx context.Context, in *auditInput) (*auditOutput, error) {
	entries, next, err := s.keys.Audit(ctx, actorFrom(ctx), in.All, in.Limit, in.Cursor)
	if err != nil {
		return nil, err
	}
	out := &auditOutput{Body: auditPage{Entries: make([]auditEntry, len(entries)), NextCursor: next}}
	for i, e := range entries {
		shown := auditEntry{ID: e.ID, At: e.At.UTC(), Actor: e.Actor, Action: e.Action, Subject: e.Subject, Workspace: e.Workspace}
		if len(e.Detail) > 0 {
			shown.Detail = metadata{e.Detail}
		}
		out.Body.Entries[i] = shown
	}
	return out, nil
}
